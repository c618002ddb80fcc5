//! The report of a simulation: as text, as JSON, as JUnit XML and as a picture.

mod class;

mod text;

mod hints;

mod junit;

mod html;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use class::BugClass;

use crate::explore::Coverage;
use crate::oracle::Violation;
use crate::plan::Plan;
use crate::trace::TraceEvent;
use crate::workload::Step;

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
    /// The kind of bug.
    pub class: BugClass,
    /// The oracle that does not hold, and where.
    pub violation: Violation,
    /// What else the same oracle finds in the same run, for example other fields.
    pub others: Vec<Violation>,
    /// The plan.
    pub plan: Plan,
    /// What the user does: the workload of the plan or of the simulation.
    pub workload: Vec<Step>,
    /// What happened.
    pub trace: Vec<TraceEvent>,
}

impl Finding {
    /// Returns the finding of a plan; `violations` are at least one, the main one first, and
    /// `workload` is that of the simulation.
    pub(crate) fn new(
        plan: Plan,
        violations: Vec<Violation>,
        trace: Vec<TraceEvent>,
        workload: &[Step],
    ) -> Option<Self> {
        let mut violations = violations.into_iter();
        let violation = violations.next()?;
        let class = BugClass::of(&violation, &plan);
        let workload = plan.steps(workload).to_vec();
        Some(Self { class, violation, others: violations.collect(), plan, workload, trace })
    }

    /// Returns the finding in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.class, self.violation)
    }
}

impl Report {
    pub(crate) fn new(operator: &str) -> Self {
        Self { operator: operator.to_owned(), finding: None, coverage: Coverage::default() }
    }

    /// Returns the report as text. `stored` is the file of the plan.
    pub(crate) fn render(&self, stored: Option<&Path>) -> String {
        text::render(self, stored)
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the report as JUnit XML, with one test case.
    #[must_use]
    pub fn to_junit(&self) -> String {
        junit::suite(self)
    }

    /// Returns the timeline of the finding as an HTML page without external resources, with one
    /// lane per actor.
    #[must_use]
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// Writes the report as JSON, JUnit XML and HTML into the directory `SIM_REPORT`, if it is set.
    #[expect(clippy::print_stderr, reason = "the output of a test")]
    pub(crate) fn store(&self) {
        let Some(directory) = std::env::var_os("SIM_REPORT").map(PathBuf::from) else { return };
        let name: String =
            self.operator.chars().map(|it| if it.is_alphanumeric() { it } else { '-' }).collect();
        let files = [("json", self.to_json()), ("xml", self.to_junit()), ("html", self.to_html())];
        for (extension, content) in files {
            let file = directory.join(format!("{name}.{extension}"));
            let written =
                std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&file, content));
            if let Err(error) = written {
                // The result of the test does not depend on it.
                eprintln!("cannot write {}: {error}", file.display());
            }
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(None))
    }
}
