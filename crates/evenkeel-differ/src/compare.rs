//! Finds the differences between two canonical responses.

use serde_json::Value;

use crate::apply_errors;
use crate::run::StepResponse;

/// One difference between the servers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Index of the step.
    pub step: usize,
    /// Path in the response: `status`, `header/warning`, `body/spec/replicas`.
    pub at: String,
    /// Value of kube-apiserver; none if absent.
    pub upstream: Option<Value>,
    /// Value of Evenkeel's server.
    pub ours: Option<Value>,
}

impl Difference {
    /// Returns the path without indices and names, which groups similar differences.
    pub fn class(&self) -> String {
        let parts = self.at.split('/').map(|part| {
            let plain = part.parse::<usize>().is_err() && !part.contains(':');
            if plain { part } else { "*" }
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// Returns every path at which `ours` differs from `upstream`, in the order of the response.
pub fn compare(step: usize, upstream: &StepResponse, ours: &StepResponse) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |at: String, upstream: Option<Value>, ours: Option<Value>| {
        found.push(Difference { step, at, upstream, ours });
    };
    if upstream.status != ours.status {
        note("status".to_owned(), Some(upstream.status.into()), Some(ours.status.into()));
    }
    let names: std::collections::BTreeSet<_> =
        upstream.headers.keys().chain(ours.headers.keys()).collect();
    for name in names {
        let (a, b) = (upstream.headers.get(name), ours.headers.get(name));
        if a != b {
            let value = |v: Option<&String>| v.map(|v| Value::from(v.as_str()));
            note(format!("header/{name}"), value(a), value(b));
        }
    }
    walk("body", Some(&upstream.body), Some(&ours.body), &mut note);
    // The layout is compared only if the content is equal.
    if found.is_empty()
        && upstream.body == ours.body
        && let (Some(theirs), Some(layout)) = (&upstream.layout, &ours.layout)
    {
        let differences = theirs.differences(layout).into_iter();
        found.extend(differences.map(|(at, upstream, ours)| Difference {
            step,
            at,
            upstream: Some(upstream),
            ours: Some(ours),
        }));
    }
    found
}

fn walk(
    at: &str,
    upstream: Option<&Value>,
    ours: Option<&Value>,
    note: &mut impl FnMut(String, Option<Value>, Option<Value>),
) {
    match (upstream, ours) {
        (Some(a), Some(b)) if a == b || is_fresher(a, b) => {}
        (Some(Value::String(a)), Some(Value::String(b))) if apply_errors::are_equivalent(a, b) => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                walk(&format!("{at}/{name}"), a.get(name), b.get(name), note);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{at}/{index}"), Some(a), Some(b), note);
            }
        }
        (a, b) => note(at.to_owned(), a.cloned(), b.cloned()),
    }
}

/// Returns whether our list is fresher than upstream's. kube-apiserver may serve a list from a
/// watch cache that is older than the newest revision; a newer response is correct too.
fn is_fresher(upstream: &Value, ours: &Value) -> bool {
    upstream == "<list rv older>" && ours == "<list rv>"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_difference_is_reported_once() {
        let response = |status, body| StepResponse { status, body, ..StepResponse::default() };
        let found = compare(
            2,
            &response(200, json!({"a": {"b": [1, 2]}, "c": 1, "d": [1]})),
            &response(201, json!({"a": {"b": [1, 3]}, "d": [1, 2]})),
        );
        let places: Vec<_> = found.iter().map(|difference| difference.at.as_str()).collect();
        assert_eq!(places, ["status", "body/a/b/1", "body/c", "body/d"]);
        assert_eq!(found[1].class(), "body/a/b/*");
        assert_eq!(found[2].ours, None);
    }
}
