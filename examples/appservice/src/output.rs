//! Terminal output.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use appservice::scenario::Progress;
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Notified when stdout is closed.
static CLOSED: Notify = Notify::const_new();

/// Prints one line to stdout.
pub(crate) fn print_line(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err_and(|it| it.kind() == io::ErrorKind::BrokenPipe) {
        CLOSED.notify_one();
    }
}

/// Waits until stdout is closed by its reader.
pub(crate) async fn closed() {
    CLOSED.notified().await;
}

/// Prints an error to stderr.
pub(crate) fn error(text: &str) {
    // A closed stderr must not cause a failure.
    let _ = writeln!(io::stderr(), "error: {text}");
}

/// Prints the progress of the scenario.
pub(crate) fn print_progress(line: Progress) {
    match line {
        Progress::Step(what) => print_line(&format!("\n{}", paint("1", &format!("▸ {what}")))),
        Progress::Verified(what, after) => {
            let mark = paint("32", "✓");
            print_line(&format!("  {mark} {what} {}", paint("2", &format!("({after:.0?})"))));
        }
        Progress::Skipped(what) => print_line(&format!("  {} skipped: {what}", paint("33", "–"))),
    }
}

/// Colours the text on a terminal, unless `NO_COLOR` is set.
fn paint(code: &str, text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !plain {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Initializes logging: on the cluster in this process only the messages of the operator, between
/// the lines of the scenario; on an existing cluster, or if `verbose`, all messages.
pub(crate) fn log(verbose: bool, existing_cluster: bool) -> anyhow::Result<()> {
    if verbose || existing_cluster {
        return Ok(evenkeel::logging::init(verbose.then_some("debug"))?);
    }
    let own = Targets::new().with_target("appservice", Level::INFO);
    tracing_subscriber::registry().with(OperatorLog.with_filter(own)).init();
    Ok(())
}

/// Prints the operator's log messages, without target and time.
struct OperatorLog;

impl<S: Subscriber> Layer<S> for OperatorLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("operator: {}{}", line.message, line.fields);
        print_line(&format!("  {}", paint("36", &text)));
    }
}

/// A logged message and the values of its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.fields.push_str(&format!(": {value:?}")),
        }
    }
}
