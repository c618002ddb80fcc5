//! Where two canonical answers differ.

use serde_json::Value;

use crate::apply_errors;
use crate::run::StepResponse;

/// One place where the servers disagree.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Which step, counted from zero.
    pub step: usize,
    /// Where in the answer: `status`, `header/warning`, `body/spec/replicas`.
    pub at: String,
    /// What the real server says; none if it says nothing there.
    pub upstream: Option<Value>,
    /// What ours says.
    pub ours: Option<Value>,
}

impl Difference {
    /// The place without indices and names, for telling kinds of differences apart.
    pub fn class(&self) -> String {
        let parts = self.at.split('/').map(|part| {
            let plain = part.parse::<usize>().is_err() && !part.contains(':');
            if plain { part } else { "*" }
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

/// All places where `ours` is not as `upstream`, in the order of the answer.
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
    // What says something else, or the same in words of its own, is not asked how it is written.
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

/// A list that need not be the newest may be a little old: the real server answers it from a cache
/// that knows of its own kind alone. One that is newer is as good.
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
