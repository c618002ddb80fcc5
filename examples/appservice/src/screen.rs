//! What is shown to the person at the terminal.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};

use appservice::story::Line;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// One line.
pub(crate) fn say(line: &str) {
    // Nobody reads any more: nothing can be done about it, and nothing needs to be.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// One line of the story.
pub(crate) fn tell(line: Line) {
    match line {
        Line::Did(what) => say(&format!("\n{}", paint("1", &format!("▸ {what}")))),
        Line::Saw(what, after) => {
            let mark = paint("32", "✓");
            say(&format!("  {mark} {what} {}", paint("2", &format!("({after:.0?})"))));
        }
        Line::Skipped(what) => say(&format!("  {} skipped: {what}", paint("33", "–"))),
    }
}

fn paint(code: &str, text: &str) -> String {
    if std::io::stdout().is_terminal() {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// Shows the log: all of it when `verbose`; on a cluster of its own just what the operator itself
/// says, between the lines of the story; elsewhere what the framework tells too.
pub(crate) fn log(verbose: bool, elsewhere: bool) {
    if verbose || elsewhere {
        let level = if verbose { Level::DEBUG } else { Level::INFO };
        let coloured = std::io::stdout().is_terminal();
        tracing_subscriber::fmt().with_max_level(level).with_ansi(coloured).init();
        return;
    }
    let own = Targets::new().with_target("appservice", Level::INFO);
    tracing_subscriber::registry().with(Said.with_filter(own)).init();
}

/// Shows what the operator says, without where and when.
struct Said;

impl<S: Subscriber> Layer<S> for Said {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        say(&format!("  {}", paint("36", &format!("operator: {}", message.0))));
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
