//! The report as JUnit XML, which CI systems display.

use std::fmt::Write as _;

use super::Report;
use super::html::escape;

pub(super) fn suite(report: &Report) -> String {
    let failures = usize::from(report.finding.is_some());
    let time = report.coverage.seconds;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"evenkeel-sim\" tests=\"1\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"{time:.3}\">\n  \
         <testcase classname=\"evenkeel-sim\" name=\"{}\" time=\"{time:.3}\">\n",
        escape(&report.operator),
    );
    if let Some(finding) = &report.finding {
        let _ = writeln!(
            text,
            "    <failure type=\"{}\" message=\"{}\">{}</failure>",
            finding.class,
            escape(&finding.sentence()),
            escape(&report.render(None))
        );
    }
    let _ = writeln!(
        text,
        "    <system-out>{}</system-out>\n  </testcase>\n</testsuite>",
        escape(&report.coverage.to_string())
    );
    text
}
