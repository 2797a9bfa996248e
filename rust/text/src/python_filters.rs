//! Filters, tests and functions of Jinja that behave otherwise in minijinja,
//! or are missing there.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

use crate::python_json::{as_float, python_float, tojson};

/// How a template's own refusal is told from a mistake in it.
#[derive(Debug)]
pub struct Raised;

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("raise_exception")
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: String) -> Result<Value, Error> {
    let error = Error::new(ErrorKind::InvalidOperation, message);
    Err(error.with_source(Raised))
}

fn default(
    value: Value,
    other: Option<Value>,
    boolean: Option<Value>,
    keywords: Kwargs,
) -> Result<Value, Error> {
    let other = match other {
        Some(other) => other,
        None => keywords
            .get::<Option<Value>>("default_value")?
            .unwrap_or_else(|| Value::from("")),
    };
    let boolean = match boolean {
        Some(boolean) => boolean.is_true(),
        None => keywords
            .get::<Option<Value>>("boolean")?
            .is_some_and(|b| b.is_true()),
    };
    keywords.assert_all_used()?;
    let missing = value.is_undefined() || (boolean && !value.is_true());
    Ok(if missing { other } else { value })
}

fn string(state: &State, value: &Value) -> Result<Value, Error> {
    match as_float(value) {
        Some(x) => Ok(Value::from(python_float(x))),
        None => minijinja::filters::string(state, value),
    }
}

fn wordcount(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Python: whatever `iter()` takes. None is not among them.
fn is_iterable(value: &Value) -> bool {
    value.is_undefined()
        || matches!(
            value.kind(),
            ValueKind::String
                | ValueKind::Seq
                | ValueKind::Map
                | ValueKind::Iterable
        )
}

/// Python: whatever has a length and items, also strings and dictionaries.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined()
        || matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map
        )
}

/// Functions, macros and methods are plain objects; data never is.
fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain
}

fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    minijinja_contrib::globals::cycler(items.0)
}

fn format(
    out: &mut Output,
    state: &mut State,
    value: &Value,
) -> Result<(), Error> {
    match as_float(value) {
        Some(x) => Ok(out.write_str(&python_float(x))?),
        None => minijinja::escape_formatter(out, state, value),
    }
}

pub fn register(env: &mut Environment) {
    env.set_formatter(format);
    env.add_filter("tojson", tojson);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("string", string);
    env.add_filter("wordcount", wordcount);
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", is_sequence);
    env.add_test("callable", is_callable);
    env.add_function("raise_exception", raise_exception);
    env.add_function("cycler", cycler);
    env.add_function("joiner", minijinja_contrib::globals::joiner);
}
