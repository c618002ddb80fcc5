//! Validates `anyOf`, `oneOf`, `allOf` and `not`.
//!
//! If no alternative matches, the failures of the one with the most passed checks are reported.
//! Ratcheting applies to the value as a whole, not to the alternatives.

use serde_json::Value;

use super::failure;
use super::path::Path;
use super::sink::{Failures, Sink, Validity};
use super::walk;
use crate::structural::{Checks, Node};

pub(super) fn check<S: Sink>(sink: &mut S, checks: &Checks, value: &Value, path: &Path<'_>) -> u64 {
    let mut passed = 0;
    if !checks.any_of.is_empty() {
        passed += any_of(sink, &checks.any_of, value, path);
    }
    if !checks.one_of.is_empty() {
        passed += one_of(sink, &checks.one_of, value, path);
    }
    if !checks.all_of.is_empty() {
        passed += all_of(sink, &checks.all_of, value, path);
    }
    if let Some(not) = &checks.not
        && is_valid(not, value)
    {
        sink.fail(|| failure::must_not_validate(path));
    }
    passed
}

fn is_valid(node: &Node, value: &Value) -> bool {
    let mut validity = Validity { valid: true };
    walk(&mut validity, node, value, &Path::ROOT, None);
    validity.valid
}

/// Validates a value against one alternative.
fn attempt(node: &Node, value: &Value, path: &Path<'_>) -> (Failures, u64) {
    let mut failures = Failures::default();
    let passed = walk(&mut failures, node, value, path, None);
    (failures, passed)
}

fn any_of<S: Sink>(sink: &mut S, nodes: &[Node], value: &Value, path: &Path<'_>) -> u64 {
    if !S::COLLECTS {
        if !nodes.iter().any(|node| is_valid(node, value)) {
            sink.fail(|| failure::any_of(path));
        }
        return 0;
    }
    let mut best: Option<(Failures, u64)> = None;
    for node in nodes {
        let (failures, passed) = attempt(node, value, path);
        if failures.is_valid() {
            return passed;
        }
        if best.as_ref().is_none_or(|(_, most)| passed > *most) {
            best = Some((failures, passed));
        }
    }
    sink.fail(|| failure::any_of(path));
    report(sink, best)
}

fn one_of<S: Sink>(sink: &mut S, nodes: &[Node], value: &Value, path: &Path<'_>) -> u64 {
    if !S::COLLECTS {
        if nodes.iter().filter(|node| is_valid(node, value)).take(2).count() != 1 {
            sink.fail(|| failure::one_of(path, 0));
        }
        return 0;
    }
    let mut best: Option<(Failures, u64)> = None;
    let mut first_valid = None;
    let mut valid = 0;
    for node in nodes {
        let (failures, passed) = attempt(node, value, path);
        if failures.is_valid() {
            valid += 1;
            best = None;
            first_valid = first_valid.or(Some(passed));
        } else if valid == 0 && best.as_ref().is_none_or(|(_, most)| passed > *most) {
            best = Some((failures, passed));
        }
    }
    if valid == 1 {
        return first_valid.unwrap_or(0);
    }
    sink.fail(|| failure::one_of(path, valid));
    report(sink, best)
}

fn report<S: Sink>(sink: &mut S, best: Option<(Failures, u64)>) -> u64 {
    let Some((failures, passed)) = best else { return 0 };
    for failure in failures.list {
        sink.fail(|| failure);
    }
    passed
}

fn all_of<S: Sink>(sink: &mut S, nodes: &[Node], value: &Value, path: &Path<'_>) -> u64 {
    let mut passed = 0;
    let mut valid = 0;
    for node in nodes {
        let mut own = sink.fork();
        passed += walk(&mut own, node, value, path, None);
        valid += usize::from(own.is_valid());
        sink.merge(own);
        if sink.is_done() {
            return 0;
        }
    }
    if valid != nodes.len() {
        sink.fail(|| failure::all_of(path, valid == 0));
    }
    passed
}
