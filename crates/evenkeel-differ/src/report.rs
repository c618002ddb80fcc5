//! Renders a difference: the steps as curl commands and both responses side by side.

use std::fmt::Write as _;

use serde_json::Value;

use crate::pair::Finding;
use crate::run::StepResponse;
use crate::sequence::{Sequence, Step};

/// Width of one column.
const WIDTH: usize = 68;

/// Number of equal rows printed around each difference.
const CONTEXT: usize = 3;

/// Renders `finding` and the steps of `sequence`.
pub fn render_report(sequence: &Sequence, finding: &Finding) -> String {
    let mut text = String::new();
    for (at, step) in sequence.steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", at + 1, as_curl(step));
    }
    let Some(first) = finding.unexplained.first() else { return text };
    for difference in finding.unexplained.iter().filter(|other| other.step == first.step).take(8) {
        let _ = writeln!(
            text,
            "  step {} at {}: upstream {}, ours {}",
            difference.step + 1,
            difference.at,
            truncated(difference.upstream.as_ref()),
            truncated(difference.ours.as_ref()),
        );
    }
    if let (Some(upstream), Some(ours)) =
        (finding.upstream.get(first.step), finding.ours.get(first.step))
    {
        text.push_str(&side_by_side(&lines(upstream), &lines(ours)));
    }
    text
}

fn truncated(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    if text.chars().count() <= 300 {
        return text;
    }
    text.chars().take(300).chain("…".chars()).collect()
}

fn as_curl(step: &Step) -> String {
    if let Some(name) = &step.read {
        return format!("read {name}{}", if step.end { " to the end" } else { "" });
    }
    if let Some(name) = &step.close {
        return format!("close {name}");
    }
    if step.compact {
        return "compact".to_owned();
    }
    let (method, path) = step.method_and_path();
    let mut text = String::new();
    if let Some(name) = &step.watch {
        let _ = write!(text, "{name} = ");
    }
    let _ = write!(text, "curl -X {method} '{path}'");
    for (name, value) in &step.headers {
        let _ = write!(text, " -H '{name}: {value}'");
    }
    if let Some(content_type) = &step.content_type {
        let _ = write!(text, " -H 'content-type: {content_type}'");
    }
    match (&step.raw, &step.from, &step.body) {
        (Some(raw), _, _) => {
            let cut: String = raw.chars().take(2000).collect();
            let _ = write!(text, " --data-raw {cut:?}");
        }
        (None, Some(from), _) => {
            let _ = write!(text, " -d ${from}");
        }
        (None, None, Some(body)) => {
            let _ = write!(text, " -d '{body}'");
        }
        (None, None, None) => {}
    }
    for (pointer, value) in &step.set {
        let _ = write!(text, " (set {pointer} = {value})");
    }
    for (pointer, size) in &step.fill {
        let _ = write!(text, " (fill {pointer} with {size} bytes)");
    }
    for (pointer, depth) in &step.nest {
        let _ = write!(text, " (nest {depth} objects at {pointer})");
    }
    if let Some(times) = step.repeat {
        let _ = write!(text, " ({times} times)");
    }
    for pointer in &step.unset {
        let _ = write!(text, " (unset {pointer})");
    }
    for (name, pointer) in &step.save {
        let _ = write!(text, " (save {name} = response{pointer})");
    }
    if step.until.is_some() {
        text.push_str(" (until it matches)");
    }
    text
}

fn lines(response: &StepResponse) -> Vec<String> {
    let mut lines = vec![response.status.to_string()];
    lines.extend(response.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    let body = serde_json::to_string_pretty(&response.body).unwrap_or_default();
    lines.extend(body.lines().map(str::to_owned));
    lines
}

/// Renders two texts in columns, marks differing rows and omits long runs of equal rows.
fn side_by_side(left: &[String], right: &[String]) -> String {
    let rows = align(left, right);
    let differs: Vec<bool> = rows.iter().map(|(a, b)| a != b).collect();
    let near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        differs[from..(at + CONTEXT + 1).min(differs.len())].contains(&true)
    };
    let mut text = format!("    {:<WIDTH$} | ours\n", "upstream");
    let mut skipping = false;
    for (at, (left, right)) in rows.iter().enumerate() {
        if !near(at) {
            if !skipping {
                text.push_str("    …\n");
            }
            skipping = true;
            continue;
        }
        skipping = false;
        let mark = if differs[at] { '≠' } else { ' ' };
        let cut = |text: &Option<&String>| -> String {
            text.map_or("", String::as_str).chars().take(WIDTH).collect()
        };
        let _ = writeln!(text, "  {mark} {:<WIDTH$} | {}", cut(left), cut(right));
    }
    text
}

type Row<'a> = (Option<&'a String>, Option<&'a String>);

/// Pairs equal lines in order, with a bounded look-ahead where the texts diverge.
fn align<'a>(left: &'a [String], right: &'a [String]) -> Vec<Row<'a>> {
    const AHEAD: usize = 40;
    let mut rows = Vec::new();
    let (mut a, mut b) = (0, 0);
    while a < left.len() && b < right.len() {
        if left[a] == right[b] {
            rows.push((Some(&left[a]), Some(&right[b])));
            a += 1;
            b += 1;
            continue;
        }
        let skip_left = left[a..].iter().take(AHEAD).position(|line| *line == right[b]);
        let skip_right = right[b..].iter().take(AHEAD).position(|line| *line == left[a]);
        match (skip_left, skip_right) {
            (Some(skip), other) if other.is_none_or(|other| skip <= other) => {
                rows.extend(left[a..a + skip].iter().map(|line| (Some(line), None)));
                a += skip;
            }
            (_, Some(skip)) => {
                rows.extend(right[b..b + skip].iter().map(|line| (None, Some(line))));
                b += skip;
            }
            _ => {
                rows.push((Some(&left[a]), Some(&right[b])));
                a += 1;
                b += 1;
            }
        }
    }
    rows.extend(left[a..].iter().map(|line| (Some(line), None)));
    rows.extend(right[b..].iter().map(|line| (None, Some(line))));
    rows
}
