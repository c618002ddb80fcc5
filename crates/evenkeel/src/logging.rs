//! Logging: plain text on standard error, unless the program installs its own subscriber.
//!
//! [`Manager::from_args`](crate::Manager::from_args) calls [`init`]. A program that needs another
//! format (JSON, OpenTelemetry) installs its own `tracing` subscriber first.

use std::env;
use std::io::{self, IsTerminal as _};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

/// The default level.
const LEVEL: LevelFilter = LevelFilter::INFO;

/// Dependencies that log only warnings by default; `RUST_LOG=hyper=trace` overrides it.
const QUIET: &[&str] = &["h2", "hyper", "hyper_util", "kube_client", "rustls", "tower"];

/// An invalid log level.
#[derive(Debug, thiserror::Error)]
#[error(
    "{text:?} is not a log level: use error, warn, info, debug, trace or off, for all targets or \
     per target as in `info,my_operator=debug`"
)]
pub struct LevelError {
    text: String,
}

/// Logs to standard error, unless a subscriber is installed.
///
/// `level` is a level or a comma-separated list of `target=level`; the default is the variable
/// `RUST_LOG`, then `info`. Output on a terminal is coloured unless `NO_COLOR` is set.
///
/// # Errors
/// When `level` is invalid. An invalid `RUST_LOG` is logged and ignored: it may be meant for
/// another program.
pub fn init(level: Option<&str>) -> Result<(), LevelError> {
    let colours =
        io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (filter, problem) = match level {
        Some(level) => (filter(level)?, None),
        None => from_environment(LEVEL),
    };
    install(subscriber(filter, colours, io::stderr), problem);
    Ok(())
}

/// Logs warnings to the captured test output, unless a subscriber is installed. `RUST_LOG` sets
/// another level.
#[doc(hidden)]
pub fn init_in_test() {
    let (filter, problem) = from_environment(LevelFilter::WARN);
    let writer = tracing_subscriber::fmt::TestWriter::with_stderr;
    install(subscriber(filter, false, writer), problem);
}

fn install(subscriber: impl Subscriber + Send + Sync, problem: Option<LevelError>) {
    // A subscriber that the program installed stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(problem) = problem {
        tracing::warn!(error = %problem, "ignoring invalid RUST_LOG");
    }
}

fn subscriber<W>(filter: Targets, colours: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(writer);
    tracing_subscriber::registry().with(layer.with_filter(filter))
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
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);

        impl io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let sink = Sink::default();
        let writer = {
            let sink = sink.clone();
            move || sink.clone()
        };
        tracing::subscriber::with_default(subscriber(all(LEVEL), false, writer), || {
            tracing::warn!(kind = "Pod", "watch failed");
            tracing::debug!("not shown");
        });
        let text = String::from_utf8(sink.0.lock().clone()).unwrap();
        assert!(text.contains(" WARN ") && text.contains("watch failed kind=\"Pod\""), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("not shown"), "{text}");
    }
}
