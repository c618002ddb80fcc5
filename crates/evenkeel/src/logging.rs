//! Logging: text or JSON on standard error, unless the program installs its own subscriber.
//!
//! [`Manager::from_args`](crate::Manager::from_args) calls [`init_as`] with the flags `--log-level`
//! and `--log-format`. A program that needs another format installs its own `tracing` subscriber
//! first.

mod json;

use std::env;
use std::io::{self, IsTerminal as _};
use std::str::FromStr;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};

use self::json::JsonLayer;

/// The default level.
const LEVEL: LevelFilter = LevelFilter::INFO;

/// Dependencies that log only warnings by default; `RUST_LOG=hyper=trace` overrides it.
const QUIET: &[&str] = &["h2", "hyper", "hyper_util", "kube_client", "rustls", "tower"];

/// The format of log lines.
///
/// ```no_run
/// use evenkeel::logging::{self, LogFormat};
///
/// # fn main() -> evenkeel::Result<()> {
/// logging::init_as(Some("info,my_operator=debug"), LogFormat::Json)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// A line of text.
    #[default]
    Text,
    /// A JSON object per line, with the fields of the event and of its spans next to `ts`, `level`,
    /// `logger` and `msg`.
    Json,
}

/// An invalid log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither text nor json")]
pub struct FormatError;

impl FromStr for LogFormat {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(FormatError),
        }
    }
}

/// An invalid log level.
///
/// ```
/// let error = evenkeel::logging::init(Some("chatty")).unwrap_err();
/// assert!(error.to_string().contains("chatty"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(
    "{text:?} is not a log level: use error, warn, info, debug, trace or off, for all targets or \
     per target as in `info,my_operator=debug`"
)]
pub struct LevelError {
    text: String,
}

/// Logs text to standard error, unless a subscriber is installed. Same as [`init_as`] with
/// [`LogFormat::Text`].
///
/// # Errors
/// When `level` is invalid.
pub fn init(level: Option<&str>) -> Result<(), LevelError> {
    init_as(level, LogFormat::Text)
}

/// Logs to standard error, unless a subscriber is installed.
///
/// `level` is a level or a comma-separated list of `target=level`; the default is the variable
/// `RUST_LOG`, then `info`. Output on a terminal is coloured unless `NO_COLOR` is set.
///
/// # Errors
/// When `level` is invalid. An invalid `RUST_LOG` is logged and ignored: it may be meant for
/// another program.
pub fn init_as(level: Option<&str>, format: LogFormat) -> Result<(), LevelError> {
    init_with(level, format, None)
}

/// A further layer of the subscriber, such as one that exports traces.
pub(crate) type ExtraLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Same as [`init_as`], with a further layer.
pub(crate) fn init_with(
    level: Option<&str>,
    format: LogFormat,
    extra: Option<ExtraLayer>,
) -> Result<(), LevelError> {
    let colours =
        io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (filter, problem) = match level {
        Some(level) => (filter(level)?, None),
        None => from_environment(LEVEL),
    };
    match format {
        LogFormat::Text => install(subscriber(filter, colours, io::stderr, extra), problem),
        LogFormat::Json => install(json(filter, io::stderr, extra), problem),
    }
    Ok(())
}

/// Logs warnings to the captured test output, unless a subscriber is installed. `RUST_LOG` sets
/// another level.
#[doc(hidden)]
pub fn init_in_test() {
    let (filter, problem) = from_environment(LevelFilter::WARN);
    let writer = tracing_subscriber::fmt::TestWriter::with_stderr;
    install(subscriber(filter, false, writer, None), problem);
}

fn install(subscriber: impl Subscriber + Send + Sync, problem: Option<LevelError>) {
    // A subscriber that the program installed stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(problem) = problem {
        tracing::warn!(error = %problem, "ignoring invalid RUST_LOG");
    }
}

fn subscriber<W>(
    filter: Targets,
    colours: bool,
    writer: W,
    extra: Option<ExtraLayer>,
) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(writer);
    tracing_subscriber::registry().with(extra).with(layer.with_filter(filter))
}

fn json<W>(filter: Targets, writer: W, extra: Option<ExtraLayer>) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::registry().with(extra).with(JsonLayer::new(writer).with_filter(filter))
}

/// Returns the filter of `RUST_LOG`, or `level` if it is not set.
fn from_environment(level: LevelFilter) -> (Targets, Option<LevelError>) {
    let variable = env::var("RUST_LOG").ok().filter(|text| !text.trim().is_empty());
    match variable.map(|text| filter(&text)) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(problem)) => (all(level), Some(problem)),
        None => (all(level), None),
    }
}

fn filter(text: &str) -> Result<Targets, LevelError> {
    let problem = |_| LevelError { text: text.to_owned() };
    match text.trim().parse::<LevelFilter>() {
        // The empty string also parses as a level.
        Ok(level) if !text.trim().is_empty() => Ok(all(level)),
        // A word without a level would be parsed as a target.
        _ if !text.contains('=') => Err(LevelError { text: text.to_owned() }),
        _ => {
            let targets: Targets = text.parse().map_err(problem)?;
            let level = targets.default_level().unwrap_or(LevelFilter::OFF);
            Ok(all(level)
                .with_targets(targets.iter().map(|(name, level)| (name.to_owned(), level))))
        }
    }
}

/// Returns a filter of `level`, with the quiet dependencies at `WARN`.
fn all(level: LevelFilter) -> Targets {
    let quiet = level.min(LevelFilter::WARN);
    Targets::new().with_default(level).with_targets(QUIET.iter().map(|name| (*name, quiet)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        fn writer(&self) -> impl Fn() -> Self + Send + Sync + 'static {
            let sink = self.clone();
            move || sink.clone()
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn dependencies_are_quiet_unless_enabled() {
        let filter = filter("debug").unwrap();
        assert!(filter.would_enable("my_operator", &Level::DEBUG));
        assert!(!filter.would_enable("my_operator", &Level::TRACE));
        assert!(filter.would_enable("tower::buffer::worker", &Level::WARN));
        assert!(!filter.would_enable("tower::buffer::worker", &Level::DEBUG));
        let filter = super::filter("warn,hyper=debug,evenkeel::watch=trace").unwrap();
        assert!(filter.would_enable("hyper::client", &Level::DEBUG));
        assert!(filter.would_enable("evenkeel::watch", &Level::TRACE));
        assert!(!filter.would_enable("my_operator", &Level::INFO));
    }

    #[test]
    fn invalid_levels_are_rejected() {
        for text in ["loud", "info,loud", "evenkeel=loud", ""] {
            let error = filter(text).unwrap_err().to_string();
            assert!(error.contains("error, warn, info, debug, trace or off"), "{error}");
        }
    }

    #[test]
    fn a_line_is_plain_text_with_its_level() {
        let sink = Sink::default();
        tracing::subscriber::with_default(
            subscriber(all(LEVEL), false, sink.writer(), None),
            || {
                tracing::warn!(kind = "Pod", "watch failed");
                tracing::debug!("not shown");
            },
        );
        let text = sink.text();
        assert!(text.contains(" WARN ") && text.contains("watch failed kind=\"Pod\""), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("not shown"), "{text}");
    }

    #[test]
    fn a_json_line_has_the_fields_of_its_spans() {
        let sink = Sink::default();
        tracing::subscriber::with_default(json(all(LEVEL), sink.writer(), None), || {
            let outer = tracing::info_span!("reconcile", controller = "shops", name = "web");
            let inner =
                outer.in_scope(|| tracing::info_span!("step", number = tracing::field::Empty));
            inner.record("number", 2_u64);
            inner.in_scope(|| {
                tracing::warn!(target: "shop", name = "db", ok = false, ratio = 0.5, "line \"1\"\n2");
            });
            tracing::debug!("not shown");
        });
        let text = sink.text();
        let (line, rest) = text.split_once('\n').unwrap();
        assert_eq!(rest, "");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let stamp = line["ts"].as_str().unwrap();
        assert!(stamp.parse::<jiff::Timestamp>().is_ok(), "{stamp}");
        let expected = serde_json::json!({
            "ts": stamp, "level": "warn", "logger": "shop", "msg": "line \"1\"\n2",
            "controller": "shops", "name": "db", "number": 2, "ok": false, "ratio": 0.5,
        });
        assert_eq!(line, expected);
    }
}
