//! The timeline as a page: one lane per actor, time downwards.

use std::fmt::Write as _;

use super::Report;
use crate::trace::{Lane, TraceEvent};

const LANE_WIDTH: usize = 340;
const ROW: usize = 20;
const TOP: usize = 60;

/// Returns the page.
pub(super) fn page(report: &Report) -> String {
    let mut body = String::new();
    let title = format!("Simulation of {}", report.operator);
    match &report.finding {
        None => {
            let _ =
                write!(body, "<p>No violation.</p><p>{}</p>", escape(&report.coverage.to_string()));
        }
        Some(finding) => {
            let _ = write!(
                body,
                "<p class=\"violation\">{}</p><pre>{}</pre>{}",
                escape(&finding.violation.to_string()),
                escape(&finding.plan.to_string()),
                picture(&finding.trace)
            );
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font:14px system-ui,sans-serif;margin:2em}}.violation{{font-weight:600;\
         color:#b00020}}pre{{background:#f6f6f6;padding:1em;white-space:pre-wrap}}\
         svg text{{font:11px ui-monospace,monospace}}.fault{{fill:#b00020;font-weight:700}}\
         .head{{font-weight:700}}</style></head>\n<body><h1>{title}</h1>{body}</body></html>\n",
        title = escape(&title)
    )
}

fn picture(events: &[TraceEvent]) -> String {
    let lanes = Lane::ALL.len();
    let (width, height) = (80 + lanes * LANE_WIDTH, TOP + ROW * (events.len() + 1));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"timeline\">"
    );
    for (number, lane) in Lane::ALL.iter().enumerate() {
        let x = 80 + number * LANE_WIDTH;
        let _ = write!(
            svg,
            "<text class=\"head\" x=\"{x}\" y=\"30\">{}</text><line x1=\"{x}\" y1=\"40\" \
             x2=\"{x}\" y2=\"{height}\" stroke=\"#ccc\"/>",
            lane.name()
        );
    }
    for (row, event) in events.iter().enumerate() {
        let lane = Lane::ALL.iter().position(|lane| *lane == event.lane).unwrap_or_default();
        let (x, y) = (80 + lane * LANE_WIDTH, TOP + row * ROW);
        let class = if event.fault { "fault" } else { "" };
        let seconds = event.at.as_secs_f64();
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{y}\">{seconds:.3}s</text><circle cx=\"{x}\" cy=\"{}\" r=\"3\" \
             class=\"{class}\"/><text class=\"{class}\" x=\"{}\" y=\"{y}\">{}</text>",
            y - 4,
            x + 8,
            escape(&shortened(&event.text))
        );
    }
    svg + "</svg>"
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(48) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Escapes text for HTML and XML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no other control characters.
            it if it.is_control() && !matches!(it, '\n' | '\t') => escaped.push(' '),
            it => escaped.push(it),
        }
    }
    escaped
}
