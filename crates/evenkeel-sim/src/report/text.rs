//! The report as text: what is wrong, the smallest plan, expected and found, a timeline, the
//! likely cause, and how to replay it.

use std::fmt::Write as _;
use std::path::Path;

use super::{Finding, Report, hints};
use crate::oracle::Violation;
use crate::trace::{self, Lane};

/// Lines of the timeline.
const TIMELINE: usize = 20;

/// Fields that are listed.
const FIELDS: usize = 12;

pub(super) fn render(report: &Report, stored: Option<&Path>) -> String {
    let mut text = format!("simulation of {}: ", report.operator);
    let Some(finding) = &report.finding else {
        let _ = writeln!(text, "no violation\n{}", report.coverage);
        return text;
    };
    let _ = writeln!(text, "{}\n", finding.sentence());
    let _ = writeln!(text, "Plan:\n{}", plan(finding));
    let _ = write!(text, "{}", differences(finding));
    let events = trace::timeline(&finding.trace, TIMELINE);
    let _ = writeln!(text, "Timeline ({}):\n{}", around(finding), trace::render(events));
    let hint = hints::hint(finding);
    let _ = writeln!(text, "Likely cause: {}", hint.cause);
    let _ = writeln!(text, "Prevented by: {}", hint.prevention);
    match stored {
        Some(file) => {
            let _ = writeln!(text, "Replay: {}", replay(file));
        }
        None => {
            let plan = serde_json::to_string(&finding.plan).unwrap_or_default();
            let _ = writeln!(text, "Plan as JSON: {plan}");
        }
    }
    let _ = writeln!(text, "Coverage: {}", report.coverage);
    text
}

fn around(finding: &Finding) -> &'static str {
    match finding.trace.iter().any(|event| event.fault) {
        true => "around the fault, which is marked with !",
        false => "the last events; no fault was injected",
    }
}

/// Returns the plan in words: the steps of the user, and the faults after the step in which the
/// first of them happened.
pub(super) fn plan(finding: &Finding) -> String {
    let before = step_of_fault(finding);
    let mut lines = Vec::new();
    let faults = || finding.plan.faults.iter().map(|fault| format!("FAULT: {fault}"));
    for (index, step) in finding.workload.iter().enumerate() {
        if index == before {
            lines.extend(faults());
        }
        lines.push(format!("the user {step}"));
    }
    if before >= finding.workload.len() {
        lines.extend(faults());
    }
    if finding.plan.faults.is_empty() {
        lines.push("no fault is needed".to_owned());
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let _ = writeln!(text, "  {}. {line}", index + 1);
    }
    text
}

/// Returns how many steps the user has begun when the first fault happens.
fn step_of_fault(finding: &Finding) -> usize {
    let before = finding.trace.iter().take_while(|event| !event.fault);
    let mut steps = finding.workload.iter().map(ToString::to_string).peekable();
    for event in before.filter(|event| event.lane == Lane::User) {
        steps.next_if(|step| *step == event.text);
    }
    finding.workload.len() - steps.count()
}

/// Returns what was expected and found, field by field.
pub(super) fn differences(finding: &Finding) -> String {
    let all: Vec<&Violation> = std::iter::once(&finding.violation)
        .chain(&finding.others)
        .filter(|violation| !violation.expected.is_empty())
        .collect();
    if all.is_empty() {
        return String::new();
    }
    let mut text = "Expected and found:\n".to_owned();
    for violation in all.iter().take(FIELDS) {
        let field = if violation.field.is_empty() { "the object" } else { &violation.field };
        let _ = writeln!(
            text,
            "  {}: {field}\n    expected: {}\n    found:    {}",
            violation.object, violation.expected, violation.found
        );
    }
    if all.len() > FIELDS {
        let _ = writeln!(text, "  and {} more", all.len() - FIELDS);
    }
    text + "\n"
}

/// Returns the command that replays a stored plan in the test that has found it.
fn replay(file: &Path) -> String {
    let mut command = format!("SIM_PLAN={} cargo test", file.display());
    if let Ok(package) = std::env::var("CARGO_PKG_NAME") {
        let _ = write!(command, " -p {package}");
    }
    // The test harness names the thread of a test after it.
    if let Some(test) = std::thread::current().name().filter(|name| *name != "main") {
        let _ = write!(command, " {test}");
    }
    command
}
