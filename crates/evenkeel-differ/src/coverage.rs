//! Counts what a run covered: verb × resource class × option, so that a run without differences can
//! be checked for thoroughness.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::run::StepResponse;
use crate::sequence::{Scope, Sequence, Step};

/// Number of steps by verb, class, option, resource and status code.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    cells: BTreeMap<(&'static str, &'static str), BTreeMap<String, usize>>,
    kinds: BTreeMap<String, usize>,
    outcomes: BTreeMap<u16, usize>,
}

impl Coverage {
    /// Counts the steps of a completed sequence.
    pub fn count(&mut self, sequence: &Sequence, responses: &[StepResponse]) {
        for (step, response) in sequence.steps.iter().zip(responses) {
            if step.compact {
                *self.kinds.entry("(compaction)".to_owned()).or_default() += 1;
            }
            if step.call.is_empty() {
                continue;
            }
            let cell = self.cells.entry((verb(step), class(step))).or_default();
            *cell.entry("all".to_owned()).or_default() += 1;
            for option in options(step) {
                *cell.entry(option).or_default() += 1;
            }
            *self.kinds.entry(resource(step)).or_default() += 1;
            *self.outcomes.entry(response.status).or_default() += 1;
        }
    }

    /// Renders the counts as a table.
    pub fn render(&self) -> String {
        let mut text = "coverage: verb × class, then options with counts\n".to_owned();
        for ((verb, class), options) in &self.cells {
            let all = options.get("all").copied().unwrap_or(0);
            let _ = write!(text, "  {verb:<17} {class:<17} {all:>7} ");
            for (option, count) in options.iter().filter(|(option, _)| *option != "all") {
                let _ = write!(text, " {option}:{count}");
            }
            text.push('\n');
        }
        text.push_str("resources:");
        for (kind, count) in &self.kinds {
            let _ = write!(text, " {kind}:{count}");
        }
        text.push_str("\nstatus codes:");
        for (status, count) in &self.outcomes {
            let _ = write!(text, " {status}:{count}");
        }
        text.push('\n');
        text
    }
}

fn parts(step: &Step) -> (Vec<&str>, &str) {
    let (_, path) = step.method_and_path();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let skip = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => parts.len(),
    };
    parts.drain(..skip.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 && parts[2] != "finalize" {
        parts.drain(..2);
    }
    (parts, query)
}

fn resource(step: &Step) -> String {
    let (parts, _) = parts(step);
    match (parts.first(), parts.get(2)) {
        (Some(plural), Some(sub)) => format!("{plural}/{sub}"),
        (Some(plural), None) => (*plural).to_owned(),
        _ => "(no resource)".to_owned(),
    }
}

fn verb(step: &Step) -> &'static str {
    let (method, _) = step.method_and_path();
    let (parts, query) = parts(step);
    let named = parts.len() > 1;
    match method {
        "GET" if query.contains("watch=") => "watch",
        "GET" if named || parts.is_empty() => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => match step.content_type.as_deref() {
            Some("application/json-patch+json") => "patch json",
            Some("application/merge-patch+json") => "patch merge",
            Some("application/strategic-merge-patch+json") => "patch strategic",
            Some("application/apply-patch+yaml") => "apply",
            _ => "patch other",
        },
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => "other",
    }
}

fn class(step: &Step) -> &'static str {
    let (_, path) = step.method_and_path();
    let (parts, _) = parts(step);
    if path.contains("/customresourcedefinitions") {
        return "crd";
    }
    if path.starts_with("/openapi") {
        return "openapi";
    }
    if parts.is_empty() {
        return if path.starts_with("/api") { "discovery" } else { "no resource" };
    }
    let custom = path.contains("${group}") || path.contains(".test/");
    let namespaced = path.contains("/namespaces/") && parts[0] != "namespaces";
    match (custom, parts.len() > 2, namespaced) {
        (true, true, _) => "custom sub",
        (true, false, true) => "custom namespaced",
        (true, false, false) => "custom cluster",
        (false, true, _) => "built-in sub",
        (false, false, true) => "built-in",
        (false, false, false) => "built-in cluster",
    }
}

fn options(step: &Step) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    let (_, query) = parts(step);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "watch" => {}
            "dryRun"
            | "fieldValidation"
            | "propagationPolicy"
            | "resourceVersionMatch"
            | "force" => {
                options.insert(format!("{name}={value}"));
            }
            _ => {
                options.insert(name.to_owned());
            }
        }
    }
    if let Some(accept) = step.headers.get("accept") {
        let form = ["as=Table", "as=PartialObjectMetadata", "yaml", "protobuf"];
        for name in form.iter().filter(|name| accept.contains(**name)) {
            options.insert((*name).to_owned());
        }
    }
    for (name, used) in [
        ("raw", step.raw.is_some()),
        ("oversize", step.fill.values().any(|size| *size > 100_000)),
        ("deep", !step.nest.is_empty()),
        ("own facts", step.facts == Some(Scope::Own)),
        ("all facts", step.facts == Some(Scope::BuiltIn)),
    ] {
        if used {
            options.insert(name.to_owned());
        }
    }
    if step.from.is_some() {
        options.insert("read-modify-write".to_owned());
    }
    if let Some(body) = &step.body {
        let metadata = ["generateName", "finalizers", "ownerReferences", "uid", "resourceVersion"];
        for name in metadata {
            if body.pointer(&format!("/metadata/{name}")).is_some() {
                options.insert(name.to_owned());
            }
        }
        for name in ["preconditions", "propagationPolicy", "gracePeriodSeconds"] {
            match body.get(name) {
                Some(Value::String(value)) => options.insert(format!("{name}={value}")),
                Some(_) => options.insert(name.to_owned()),
                None => false,
            };
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_verb_and_resource_class() {
        let of = |call: &str| Step { call: call.to_owned(), ..Step::default() };
        let step = of("GET /api/v1/namespaces/${ns}/pods?watch=1&limit=3");
        assert_eq!((verb(&step), class(&step)), ("watch", "built-in"));
        let step = of("GET /api/v1/namespaces/${ns}");
        assert_eq!((verb(&step), class(&step)), ("get", "built-in cluster"));
        let step = of("PUT /apis/apps/v1/namespaces/${ns}/deployments/a/scale");
        assert_eq!((verb(&step), class(&step)), ("update", "built-in sub"));
        assert_eq!(resource(&step), "deployments/scale");
        let step = of("DELETE /apis/${group}/v1/namespaces/${ns}/widgets?dryRun=All");
        assert_eq!((verb(&step), class(&step)), ("deletecollection", "custom namespaced"));
        assert!(options(&step).contains("dryRun=All"));
    }
}
