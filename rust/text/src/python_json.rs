//! Numbers and JSON as Python writes them: what `json.dumps` and `repr` give.

use std::cmp::Ordering;
use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// A float if the value is one; integers and everything else are None.
pub fn as_float(value: &Value) -> Option<f64> {
    (value.kind() == ValueKind::Number && !value.is_integer())
        .then(|| f64::try_from(value.clone()).ok())
        .flatten()
}

/// `repr(x)`: the shortest digits that read back as x, with an exponent below
/// 1e-4 and from 1e16 on.
pub fn float_repr(x: f64, infinity: &str, not_a_number: &str) -> String {
    if x.is_nan() {
        return not_a_number.to_string();
    }
    if x.is_infinite() {
        return format!("{}{infinity}", if x < 0.0 { "-" } else { "" });
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) =
        scientific.split_once('e').expect("{:e} has an exponent");
    let exponent: i32 = exponent.parse().expect("a decimal exponent");
    if (-4..16).contains(&exponent) || x == 0.0 {
        let plain = format!("{x}");
        return match plain.contains('.') {
            true => plain,
            false => plain + ".0",
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

pub fn python_float(x: f64) -> String {
    float_repr(x, "inf", "nan")
}

fn json_float(x: f64) -> String {
    float_repr(x, "Infinity", "NaN")
}

struct Style {
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    between_items: String,
    after_key: String,
}

fn not_serializable(what: &str) -> Error {
    let message = format!("tojson: a value of type {what} has no JSON form");
    Error::new(ErrorKind::InvalidOperation, message)
}

fn optional(value: Value) -> Option<Value> {
    (!value.is_none() && !value.is_undefined()).then_some(value)
}

fn indent_of(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => {
            let width = i64::try_from(value.clone())?;
            Ok(" ".repeat(width.clamp(0, 64) as usize))
        }
    }
}

/// Transformers' filter: `tojson(value, ensure_ascii=False, indent=None,
/// separators=None, sort_keys=False)`.
pub fn tojson(
    value: Value,
    positional: Rest<Value>,
    keywords: Kwargs,
) -> Result<Value, Error> {
    const NAMES: [&str; 4] =
        ["ensure_ascii", "indent", "separators", "sort_keys"];
    if positional.len() > NAMES.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut given: [Option<Value>; 4] = Default::default();
    for (i, name) in NAMES.iter().enumerate() {
        let keyword: Option<Value> = keywords.get(name)?;
        given[i] = positional.get(i).cloned().or(keyword).and_then(optional);
    }
    keywords.assert_all_used()?;
    let [ensure_ascii, indent, separators, sort_keys] = given;

    let indent = indent.as_ref().map(indent_of).transpose()?;
    let between = if indent.is_some() { "," } else { ", " };
    let mut style = Style {
        ensure_ascii: ensure_ascii.is_some_and(|v| v.is_true()),
        sort_keys: sort_keys.is_some_and(|v| v.is_true()),
        indent,
        between_items: between.to_string(),
        after_key: ": ".to_string(),
    };
    if let Some(separators) = separators {
        style.between_items = separators.get_item_by_index(0)?.to_string();
        style.after_key = separators.get_item_by_index(1)?.to_string();
    }
    let mut out = String::new();
    style.write(&mut out, &value, 0)?;
    Ok(Value::from(out))
}

impl Style {
    fn write(
        &self,
        out: &mut String,
        value: &Value,
        depth: usize,
    ) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool if value.is_true() => out.push_str("true"),
            ValueKind::Bool => out.push_str("false"),
            ValueKind::Number => match as_float(value) {
                Some(x) => out.push_str(&json_float(x)),
                None => out.push_str(&value.to_string()),
            },
            ValueKind::String => {
                self.write_string(out, value.as_str().unwrap_or_default())
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.write_list(out, value, depth)?
            }
            ValueKind::Map => self.write_map(out, value, depth)?,
            ValueKind::Undefined => return Err(not_serializable("Undefined")),
            other => return Err(not_serializable(&other.to_string())),
        }
        Ok(())
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn write_list(
        &self,
        out: &mut String,
        value: &Value,
        depth: usize,
    ) -> Result<(), Error> {
        out.push('[');
        let mut empty = true;
        for item in value.try_iter()? {
            if !empty {
                out.push_str(&self.between_items);
            }
            empty = false;
            self.new_line(out, depth + 1);
            self.write(out, &item, depth + 1)?;
        }
        if !empty {
            self.new_line(out, depth);
        }
        out.push(']');
        Ok(())
    }

    fn write_map(
        &self,
        out: &mut String,
        value: &Value,
        depth: usize,
    ) -> Result<(), Error> {
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort_keys {
            keys.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        }
        out.push('{');
        for (i, key) in keys.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.between_items);
            }
            self.new_line(out, depth + 1);
            self.write_key(out, key)?;
            out.push_str(&self.after_key);
            self.write(out, &value.get_item(key)?, depth + 1)?;
        }
        if !keys.is_empty() {
            self.new_line(out, depth);
        }
        out.push('}');
        Ok(())
    }

    /// JSON has string keys only; Python writes other simple ones as their
    /// JSON spelling in quotes.
    fn write_key(&self, out: &mut String, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => {
                self.write_string(out, key.as_str().unwrap_or_default())
            }
            ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                out.push('"');
                self.write(out, key, 0)?;
                out.push('"');
            }
            other => return Err(not_serializable(&other.to_string())),
        }
        Ok(())
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => escape(out, c),
                c if self.ensure_ascii && c > '~' => escape(out, c),
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn escape(out: &mut String, c: char) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        write!(out, "\\u{unit:04x}").expect("writing to a string");
    }
}
