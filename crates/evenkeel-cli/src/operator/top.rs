//! `evenkeel top`: the controllers of a running operator, refreshed every second.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::socket::Operator;
use super::{OperatorArgs, short, table};
use crate::output;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel top --once")]
pub(crate) struct Top {
    /// Print once instead of refreshing; the default if the output is not a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// The time between two reads.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(top: &Top) -> anyhow::Result<()> {
    let operator = Operator::find(top.operator.operator.as_deref())?;
    let once = top.once || top.operator.json || !std::io::stdout().is_terminal();
    let mut before = None;
    loop {
        let status = operator.status()?;
        if top.operator.json {
            return output::print(&format!("{status}\n"));
        }
        let text = render(&status, before.as_ref());
        if once {
            return output::print(&text);
        }
        output::print(&frame(&text))?;
        before = Some(status);
        std::thread::sleep(INTERVAL);
    }
}

/// Returns what replaces the content of a terminal. Each line is placed by its number and cut at the
/// right edge, so that none wraps or scrolls; the rest of the previous content is erased.
fn frame(text: &str) -> String {
    let mut frame = "\u{1b}[?7l".to_owned();
    let mut row = 1;
    for line in text.lines() {
        frame.push_str(&format!("\u{1b}[{row};1H{line}\u{1b}[K"));
        row += 1;
    }
    frame.push_str(&format!("\u{1b}[{row};1H\u{1b}[J\u{1b}[?7h"));
    frame
}

/// Returns the state as text; `before` is that of an interval ago, for rates.
fn render(status: &Value, before: Option<&Value>) -> String {
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let ready = if status["ready"] == true { "ready" } else { "not ready" };
    let mut lines =
        format!("{} {} · {ready} · pid {}\n", text("name"), text("version"), { &status["pid"] });
    for problem in status["problems"].as_array().into_iter().flatten() {
        let part = |name: &str| problem[name].as_str().unwrap_or_default();
        lines.push_str(&format!("  {}: {}\n", part("check"), part("problem")));
    }
    lines.push('\n');
    // What matters most comes first: a narrow terminal cuts the end.
    let header =
        ["CONTROLLER", "PHASE", "RECONCILES", "/S", "ERRORS", "ACTIVE", "DUE", "DELAYED", "OLDEST"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let controllers =
        |status: &Value| status["controllers"].as_array().cloned().unwrap_or_default();
    let previous = before.map(controllers).unwrap_or_default();
    let mut alarms = Vec::new();
    for controller in controllers(status) {
        let count = |it: &Value| it["reconciles"].as_u64().unwrap_or_default();
        let earlier = previous.iter().find(|it| it["name"] == controller["name"]);
        let rate = earlier.map(|it| count(&controller).saturating_sub(count(it)));
        let name = |field: &str| controller[field].as_str().unwrap_or_default().to_owned();
        let phase = if controller["paused"] == true { "paused".to_owned() } else { name("phase") };
        rows.push(vec![
            name("name"),
            phase,
            controller["reconciles"].to_string(),
            rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string()),
            controller["errors"].to_string(),
            format!("{}/{}", controller["active"], controller["workers"]),
            controller["due"].to_string(),
            controller["delayed"].to_string(),
            controller["oldestSeconds"].as_f64().map_or_else(|| "-".to_owned(), short),
        ]);
        let found = controller["alarms"].as_array().cloned().unwrap_or_default();
        alarms.extend(found.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    lines.push_str(&table(&rows));
    for alarm in alarms {
        lines.push_str(&format!("! {alarm}\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_a_frame_neither_wrap_nor_scroll() {
        let frame = frame("a\nb\n");
        let expected =
            "\u{1b}[?7l\u{1b}[1;1Ha\u{1b}[K\u{1b}[2;1Hb\u{1b}[K\u{1b}[3;1H\u{1b}[J\u{1b}[?7h";
        assert_eq!(frame, expected);
    }

    #[test]
    fn rates_follow_from_two_reads_and_alarms_are_shown() {
        let status = |reconciles: u64| {
            json!({
                "name": "web", "version": "1.0.0", "pid": 7, "ready": true, "problems": [],
                "controllers": [{
                    "name": "websites", "phase": "running", "paused": false, "active": 1,
                    "workers": 4, "due": 2, "delayed": 3, "oldestSeconds": 0.5, "errors": 1,
                    "reconciles": reconciles, "alarms": ["reconcile loop"],
                }],
            })
        };
        let text = render(&status(30), Some(&status(10)));
        assert!(text.starts_with("web 1.0.0 · ready · pid 7\n"), "{text}");
        let row = text.lines().find(|line| line.starts_with("websites")).unwrap();
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells, ["websites", "running", "30", "20", "1", "1/4", "2", "3", "500ms"]);
        assert!(text.ends_with("! reconcile loop\n"), "{text}");
    }
}
