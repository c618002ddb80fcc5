//! The report of a simulation: for a person, as JSON, as JUnit XML and as a picture.

mod html;

mod hints;

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::explore::Coverage;
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::trace::{self, TraceEvent};

/// Lines of the timeline in a report.
const TIMELINE: usize = 20;

/// What a simulation has found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The name of the operator.
    pub operator: String,
    /// The first violation, if any.
    pub finding: Option<Finding>,
    /// What was explored.
    pub coverage: Coverage,
}

/// A violation, and the smallest plan that shows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Finding {
    /// The oracle that does not hold, and where.
    pub violation: Violation,
    /// The plan.
    pub plan: Plan,
    /// What happened.
    pub trace: Vec<TraceEvent>,
}

impl Finding {
    pub(crate) fn new(plan: Plan, violation: Violation, trace: Vec<TraceEvent>) -> Self {
        Self { violation, plan, trace }
    }
}

impl Report {
    pub(crate) fn new(operator: &str) -> Self {
        Self { operator: operator.to_owned(), finding: None, coverage: Coverage::default() }
    }

    /// Returns the report as text. `stored` is the file of the plan.
    pub(crate) fn render(&self, stored: Option<&Path>) -> String {
        let mut text = format!("simulation of {}: ", self.operator);
        let Some(finding) = &self.finding else {
            let _ = writeln!(text, "no violation\n{}", self.coverage);
            return text;
        };
        let violation = &finding.violation;
        let _ = writeln!(text, "{violation}\n");
        let _ = write!(text, "Plan:\n{}", finding.plan);
        if !violation.expected.is_empty() {
            let field = match &*violation.field {
                "" => String::new(),
                field => format!("  {field}\n"),
            };
            let _ = writeln!(
                text,
                "\n{}:\n{field}    expected: {}\n    found:    {}",
                violation.object, violation.expected, violation.found
            );
        }
        let events = trace::timeline(&finding.trace, TIMELINE);
        let _ = writeln!(text, "\nTimeline (! marks the fault):\n{}", trace::render(events));
        let _ = writeln!(text, "Likely cause: {}", hints::hint(finding));
        match stored {
            Some(file) => {
                let _ = writeln!(text, "Replay: SIM_PLAN={} cargo test", file.display());
            }
            None => {
                let plan = serde_json::to_string(&finding.plan).unwrap_or_default();
                let _ = writeln!(text, "Plan as JSON: {plan}");
            }
        }
        let _ = writeln!(text, "Coverage: {}", self.coverage);
        text
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the report as JUnit XML, with one test case.
    #[must_use]
    pub fn to_junit(&self) -> String {
        let failures = usize::from(self.finding.is_some());
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"evenkeel-sim\" \
             tests=\"1\" failures=\"{failures}\">\n  <testcase name=\"{}\" time=\"{:.3}\">\n",
            html::escape(&self.operator),
            self.coverage.seconds
        );
        if let Some(finding) = &self.finding {
            let _ = writeln!(
                text,
                "    <failure message=\"{}\">{}</failure>",
                html::escape(&finding.violation.to_string()),
                html::escape(&self.render(None))
            );
        }
        let _ = writeln!(
            text,
            "    <system-out>{}</system-out>\n  </testcase>\n</testsuite>",
            html::escape(&self.coverage.to_string())
        );
        text
    }

    /// Returns the timeline of the finding as an HTML page without external resources, with one
    /// lane per actor.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(None))
    }
}
