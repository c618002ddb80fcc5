//! Validates updates of a Job's status: counters and conditions must be consistent.

use std::collections::HashSet;

use serde_json::Value;

use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_update, checks};

fn is_true(status: &Value, kind: &str) -> bool {
    let mut conditions = status.list("conditions").iter();
    conditions.any(|c| c.text("type") == kind && c.text("status") == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

pub(in crate::validate) fn job_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let (spec, status, before) = (new.at("spec"), new.at("status"), old.at("status"));
    counters(errs, path, status);
    conditions(errs, path, spec, status, before);
    index_lists(errs, path, spec, status, before);
    let finished = is_finished(status);
    let finish_changed = finished != is_finished(before);
    let changed = |field: &str| status.at(field) != before.at(field);
    if let Some(terminating) = status.int("terminating").filter(|t| *t > 0)
        && finished
        && (finish_changed || changed("terminating"))
    {
        let detail = "terminating>0 is invalid for finished job";
        errs.invalid(path.child("terminating"), terminating, detail);
    }
    if let Some(ready) = status.int("ready")
        && ready > status.num("active")
        && (changed("ready") || status.num("active") != before.num("active"))
    {
        errs.invalid(path.child("ready"), ready, "cannot set more ready pods than active");
    }
    success_criteria(errs, path, spec, status);
    transitions(errs, path, new, old);
}

fn counters(errs: &mut Errors, path: Path<'_>, status: &Value) {
    const COUNTS: &[&str] = &["active", "succeeded", "failed", "ready", "terminating"];
    checks::non_negatives(errs, path, status, COUNTS);
    let uncounted = status.at("uncountedTerminatedPods");
    let path = path.child("uncountedTerminatedPods");
    let mut seen: HashSet<&str> = HashSet::new();
    for list in ["succeeded", "failed"] {
        for (i, uid) in uncounted.texts(list).enumerate() {
            let path = path.child(list);
            if uid.is_empty() {
                errs.invalid(path.index(i), uid, "must not be empty");
            } else if !seen.insert(uid) {
                errs.duplicate(path.index(i), uid);
            }
        }
    }
}

fn conditions(errs: &mut Errors, path: Path<'_>, spec: &Value, status: &Value, before: &Value) {
    let is = |kind: &str| is_true(status, kind);
    let condition_changed = |kind: &str| is_true(status, kind) != is_true(before, kind);
    let changed = |field: &str| status.at(field) != before.at(field);
    let at = path.child("conditions");
    let complete = is("Complete");
    if complete && is("Failed") && (condition_changed("Complete") || condition_changed("Failed")) {
        errs.invalid_omitted(at, "cannot set Complete=True and Failed=true conditions");
    }
    if complete
        && is("FailureTarget")
        && (condition_changed("Complete") || condition_changed("FailureTarget"))
    {
        errs.invalid_omitted(at, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let completion = status.at("completionTime");
    if condition_changed("Complete") || changed("completionTime") {
        if !completion.is_null() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errs.invalid(path.child("completionTime"), completion.clone(), detail);
        }
        if completion.is_null() && complete {
            let detail = "completionTime is required for Complete jobs";
            errs.required(path.child("completionTime"), detail);
        }
    }
    if changed("startTime") || changed("completionTime") {
        // Times are in UTC with a fixed width, so they sort as text.
        let (start, end) = (status.text_opt("startTime"), status.text_opt("completionTime"));
        if let (Some(start), Some(end)) = (start, end)
            && end < start
        {
            let detail = "must be equal to or after `startTime`";
            errs.invalid(path.child("completionTime"), end, detail);
        }
    }
    if (condition_changed("Failed") || changed("failedIndexes"))
        && is("Failed")
        && !is("FailureTarget")
    {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errs.invalid_omitted(at, detail);
    }
    let criteria_relevant =
        condition_changed("Complete") || condition_changed("SuccessCriteriaMet");
    if criteria_relevant && complete && !is("SuccessCriteriaMet") {
        let detail =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errs.invalid_omitted(at, detail);
    }
    let finished = is_finished(status);
    let finish_changed = finished != is_finished(before);
    let active = status.num("active");
    if finished && active > 0 && (finish_changed || active != before.num("active")) {
        let detail = "active>0 is invalid for finished job";
        errs.invalid(path.child("active"), active, detail);
    }
    let suspended_without_work = spec.is("suspend") && spec.int("completions") == Some(0);
    if finished
        && !status.has("startTime")
        && (finish_changed || changed("startTime"))
        && !suspended_without_work
    {
        errs.required(path.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = status.at("uncountedTerminatedPods");
    let some = !uncounted.list("failed").is_empty() || !uncounted.list("succeeded").is_empty();
    if finished && some && (finish_changed || changed("uncountedTerminatedPods")) {
        let shown = Printed(Ty::Struct(printed::UNCOUNTED_TERMINATED_PODS), uncounted);
        let path = path.child("uncountedTerminatedPods");
        errs.invalid_printed(path, shown, "must be empty for finished job");
    }
}

fn index_lists(errs: &mut Errors, path: Path<'_>, spec: &Value, status: &Value, before: &Value) {
    let completed = status.text("completedIndexes");
    let failed = status.text_opt("failedIndexes");
    let completed_changed = completed != before.text("completedIndexes");
    let failed_changed = failed != before.text_opt("failedIndexes");
    let per_index = spec.has("backoffLimitPerIndex");
    if let Some(completions) = spec.int("completions") {
        if completed_changed && let Err(reason) = count_indexes(completed, completions) {
            let detail = format!("error parsing completedIndexes: {reason}");
            errs.invalid(path.child("completedIndexes"), completed, detail);
        }
        if let Some(failed) = failed.filter(|_| failed_changed && per_index)
            && let Err(reason) = count_indexes(failed, completions)
        {
            let detail = format!("error parsing failedIndexes: {reason}");
            errs.invalid(path.child("failedIndexes"), failed, detail);
        }
    }
    if completed_changed && !completed.is_empty() && spec.text("completionMode") != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errs.invalid(path.child("completedIndexes"), completed, detail);
    }
    if let Some(failed) = failed.filter(|_| failed_changed && !per_index) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errs.invalid(path.child("failedIndexes"), failed, detail);
    }
    if (completed_changed || failed_changed)
        && let (Some(failed), Some(completions)) = (failed, spec.int("completions"))
        && let Some(index) = overlap(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errs.invalid(path.child("failedIndexes"), failed, detail);
    }
}

fn success_criteria(errs: &mut Errors, path: Path<'_>, spec: &Value, status: &Value) {
    let path = path.child("conditions");
    let met = is_true(status, "SuccessCriteriaMet");
    if met && is_true(status, "Failed") {
        errs.invalid_omitted(path, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && is_true(status, "FailureTarget") {
        let detail = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        errs.invalid_omitted(path, detail);
    }
    if spec.has("successPolicy") && !met && is_true(status, "Complete") {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless \
                      SuccessCriteriaMet=True";
        errs.invalid_omitted(path, detail);
    }
}

/// Validates the changes to a status: finished states and counters cannot be reverted.
fn transitions(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let (spec, status, before) = (new.at("spec"), new.at("status"), old.at("status"));
    let at = path.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is_true(before, kind) && !is_true(status, kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errs.invalid_omitted(at, detail);
        }
    }
    let failed = status.num("failed");
    if failed < before.num("failed") {
        errs.invalid(path.child("failed"), failed, "cannot decrease the failed counter");
    }
    let elastic = spec.text("completionMode") == "Indexed"
        && spec.at("completions") == spec.at("parallelism");
    let succeeded = status.num("succeeded");
    if !elastic && succeeded < before.num("succeeded") {
        errs.invalid(path.child("succeeded"), succeeded, "cannot decrease the succeeded counter");
    }
    let (end, old_end) = (status.at("completionTime"), before.at("completionTime"));
    if !end.is_null() && !old_end.is_null() && end != old_end {
        errs.invalid(path.child("completionTime"), end.clone(), checks::IMMUTABLE);
    }
    let (start, old_start) = (status.at("startTime"), before.at("startTime"));
    let suspended = |status: &Value, value: &str| {
        let mut conditions = status.list("conditions").iter();
        conditions.any(|c| c.text("type") == "Suspended" && c.text("status") == value)
    };
    let resuming = suspended(before, "True") && suspended(status, "False");
    if !old_start.is_null() && start != old_start && !spec.is("suspend") && !resuming {
        let detail = "field is immutable for unsuspended job once set";
        errs.invalid(path.child("startTime"), start.clone(), detail);
    }
    let met = |status| is_true(status, "SuccessCriteriaMet");
    if met(before) && !met(status) {
        errs.invalid_omitted(at, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(before, "Complete") && !met(before) && met(status) {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true \
                      conditions";
        errs.invalid_omitted(at, detail);
    }
}

/// Returns the number of indexes in a list such as `1,3-5`.
pub(in crate::validate) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let (from, to) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(format!("non-increasing order, previous: {last}, current: {from}"));
        }
        total += to - from + 1;
        last = Some(to);
    }
    Ok(total)
}

fn parse_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() > 2 {
        return Err(format!(
            "the fragment \"{text}\" violates the requirement that an index interval can have at \
             most two parts separated by '-'"
        ));
    }
    let index = |part: &str| -> Result<i64, String> {
        let number: i64 = part
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: \"{part}\""))?;
        if number >= completions {
            return Err(format!("too large index: \"{part}\""));
        }
        Ok(number)
    };
    let from = index(parts.first().copied().unwrap_or_default())?;
    let Some(to) = parts.get(1) else { return Ok((from, from)) };
    let to = index(to)?;
    if from >= to {
        return Err(format!("non-increasing order, previous: {from}, current: {to}"));
    }
    Ok((from, to))
}

fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &'_ str| -> Vec<(i64, i64)> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        parts.filter_map(|part| parse_interval(part, completions).ok()).collect()
    };
    let completed = intervals(completed);
    let failed = intervals(failed);
    let (mut i, mut j) = (0, 0);
    while let (Some(c), Some(f)) = (completed.get(i), failed.get(j)) {
        if c.0 <= f.1 && f.0 <= c.1 {
            return Some(c.0.max(f.0));
        }
        if c.0 <= f.0 {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}
