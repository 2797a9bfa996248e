//! Chat templates: Jinja as transformers sets it up, on minijinja.

use jiff::{tz::TimeZone, Timestamp};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{merge_maps, Serde};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use crate::error::{Failure, Outcome};
use crate::{python_filters, python_methods};

const NAME: &str = "chat template";

/// What one render may cost: instructions, and 64 bytes of created data each
/// (minijinja counts both), so a second or so and 256 MiB at most. The largest
/// body that a client may send passes through a template several times, and a
/// conversation of ten thousand messages takes about a million steps.
const FUEL: u64 = 4 << 20;

pub struct ChatTemplate {
    env: Environment<'static>,
}

impl ChatTemplate {
    pub fn compile(source: &str) -> Outcome<Self> {
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(describe)?;
        env.set_syntax(syntax);
        env.set_fuel(Some(FUEL));
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_unknown_method_callback(python_methods::call);
        python_filters::register(&mut env);
        let source = rewrite_generation(&normalize_newlines(source));
        env.add_template_owned(NAME, source).map_err(describe)?;
        Ok(ChatTemplate { env })
    }

    pub fn render(&self, context: &str, now: i64) -> Outcome<String> {
        let context: serde_json::Value = serde_json::from_str(context)
            .map_err(|e| Failure::invalid(format!("template context: {e}")))?;
        let clock =
            Value::from_function(move |format: &str| strftime(format, now));
        let own = Value::from_pairs([("strftime_now", clock)]);
        let context = Value::from(Serde(&context));
        self.env
            .get_template(NAME)
            .and_then(|template| template.render(merge_maps([context, own])))
            .map_err(describe)
    }
}

/// Transformers' `strftime_now`: local time.
fn strftime(format: &str, now: i64) -> Result<String, Error> {
    let bad = |e: jiff::Error| {
        let message = format!("strftime_now('{format}'): {e}");
        Error::new(ErrorKind::InvalidOperation, message)
    };
    let time = Timestamp::from_second(now).map_err(bad)?;
    let time = time.to_zoned(TimeZone::system());
    jiff::fmt::strtime::format(format, &time).map_err(bad)
}

/// As Jinja reads a file.
fn normalize_newlines(source: &str) -> String {
    source.replace("\r\n", "\n").replace('\r', "\n")
}

/// `{% generation %}` marks what is trained on; for rendering it is a scope.
/// minijinja does not know the statement, `with` does the same.
fn rewrite_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = tag.find("%}") else { break };
        let (tag, after) = tag.split_at(end);
        let word = tag[2..].trim_matches(['-', '+']).trim();
        match word {
            "generation" => out.push_str(&tag.replace(word, "with")),
            "endgeneration" => out.push_str(&tag.replace(word, "endwith")),
            _ => out.push_str(tag),
        }
        rest = after;
        if rest.is_empty() {
            return out;
        }
    }
    out.push_str(&rest[rest.find("{%").unwrap_or(0)..]);
    out
}

/// The template's own words if it refused, else what is wrong and where.
fn describe(error: Error) -> Failure {
    let mut place = None;
    let mut cause: &dyn std::error::Error = &error;
    loop {
        if let Some(e) = cause.downcast_ref::<Error>() {
            if e.kind() == ErrorKind::OutOfFuel {
                return Failure::invalid(
                    "chat template: it takes too many steps or too much \
                     memory with these messages",
                );
            }
            let refused = e.source_is_refusal();
            if refused {
                return Failure::invalid(e.detail().unwrap_or_default());
            }
            place = e.line().or(place);
        }
        match cause.source() {
            Some(next) => cause = next,
            None => break,
        }
    }
    let place = place.map_or(String::new(), |n| format!(", line {n}"));
    let detail = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    Failure::invalid(format!("chat template{place}: {detail}"))
}

trait Refusal {
    fn source_is_refusal(&self) -> bool;
}

impl Refusal for Error {
    fn source_is_refusal(&self) -> bool {
        std::error::Error::source(self)
            .is_some_and(|s| s.is::<python_filters::Raised>())
    }
}
