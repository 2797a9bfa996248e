//! Methods of Python's str, list and dict that minijinja-contrib lacks; what
//! it has comes from there.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Padding is bounded: a template must not be able to ask for gigabytes.
const WIDTH_MAX: i64 = 1 << 20;

pub fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => match value.as_str() {
            Some(text) => of_string(text, method, args)?,
            None => None,
        },
        ValueKind::Seq => of_list(value, method, args)?,
        ValueKind::Map => of_dict(value, method, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(
            state, value, method, args,
        ),
    }
}

fn value_error(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn of_string(
    s: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let result = match method {
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) =
                from_args(args)?;
            Value::from(rsplit(s, separator, most.unwrap_or(-1)))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = s.split_once(separator).map(|(a, b)| (a, separator, b));
            tuple(parts.unwrap_or((s, "", "")))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts =
                s.rsplit_once(separator).map(|(a, b)| (a, separator, b));
            tuple(parts.unwrap_or(("", "", s)))
        }
        "index" => {
            let (what,): (&str,) = from_args(args)?;
            let at = s.find(what).ok_or_else(|| {
                value_error(format!("index: '{what}' is not in the string"))
            })?;
            Value::from(s[..at].chars().count())
        }
        "zfill" => Value::from(zfill(s, from_args::<(i64,)>(args)?.0)),
        "ljust" | "rjust" | "center" => {
            let (width, fill): (i64, Option<char>) = from_args(args)?;
            Value::from(pad(s, method, width, fill.unwrap_or(' ')))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(prefix).unwrap_or(s))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(suffix).unwrap_or(s))
        }
        "swapcase" => {
            let () = from_args(args)?;
            Value::from(s.chars().map(swap_case).collect::<String>())
        }
        "casefold" => {
            let () = from_args(args)?;
            // Lower case, and the one letter whose folding templates meet.
            Value::from(s.to_lowercase().replace('ß', "ss"))
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn tuple((a, b, c): (&str, &str, &str)) -> Value {
    Value::from(Tuple::from([a.into(), b.into(), c.into()]))
}

fn swap_case(c: char) -> String {
    match c.is_uppercase() {
        true => c.to_lowercase().collect(),
        false => c.to_uppercase().collect(),
    }
}

fn rsplit(s: &str, separator: Option<&str>, most: i64) -> Vec<String> {
    let limit = if most < 0 { usize::MAX } else { most as usize + 1 };
    let mut parts: Vec<String> = match separator {
        Some(separator) => {
            s.rsplitn(limit, separator).map(str::to_string).collect()
        }
        None => rsplit_spaces(s, limit),
    };
    parts.reverse();
    parts
}

/// Runs of white space separate, and those at both ends count for nothing.
fn rsplit_spaces(s: &str, limit: usize) -> Vec<String> {
    let mut rest = s.trim_end();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let begin = match parts.len() + 1 < limit {
            true => rest
                .char_indices()
                .rev()
                .find(|(_, c)| c.is_whitespace())
                .map_or(0, |(at, c)| at + c.len_utf8()),
            false => rest.len() - rest.trim_start().len(),
        };
        let last = parts.len() + 1 >= limit;
        parts.push(rest[begin..].to_string());
        rest = if last { "" } else { rest[..begin].trim_end() };
    }
    parts
}

fn missing(s: &str, width: i64) -> usize {
    let width = width.clamp(0, WIDTH_MAX) as usize;
    width.saturating_sub(s.chars().count())
}

fn zfill(s: &str, width: i64) -> String {
    let zeros = "0".repeat(missing(s, width));
    match s.strip_prefix(['+', '-']) {
        Some(digits) => format!("{}{zeros}{digits}", &s[..1]),
        None => format!("{zeros}{s}"),
    }
}

fn pad(s: &str, method: &str, width: i64, fill: char) -> String {
    let room = missing(s, width);
    let left = match method {
        "ljust" => 0,
        "rjust" => room,
        // Python's rounding: the odd one goes left only if the width is odd.
        _ => room / 2 + (room & width as usize & 1),
    };
    let fills = |n| fill.to_string().repeat(n);
    format!("{}{s}{}", fills(left), fills(room - left))
}

fn of_list(
    list: &Value,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    if method != "index" {
        return Ok(None);
    }
    let (what,): (&Value,) = from_args(args)?;
    match list.try_iter()?.position(|item| item == *what) {
        Some(at) => Ok(Some(Value::from(at))),
        None => Err(value_error(format!("index: {what} is not in the list"))),
    }
}

fn of_dict(
    dict: &Value,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    if method != "copy" {
        return Ok(None);
    }
    let () = from_args(args)?;
    // Values do not change, so the same one is as good as a copy.
    Ok(Some(dict.clone()))
}
