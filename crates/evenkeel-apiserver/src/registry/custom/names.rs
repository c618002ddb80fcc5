//! Which of a definition's names are free in its group.

use serde_json::{Value, json};

/// The names a definition gets, and what stands against the others.
pub(super) struct Verdict {
    pub(super) accepted: Value,
    /// Reason and message of the last conflict, which is the one upstream tells.
    pub(super) conflict: Option<(&'static str, String)>,
}

/// Judges the wished-for names against those `others` in the same group have been given.
pub(super) fn judge(definition: &Value, others: &[Value]) -> Verdict {
    let wished = &definition["spec"]["names"];
    let mut accepted = definition["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict: Option<(&'static str, String)> = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict = Some((reason, format!("{name:?} is already in use")));
    };
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let name = wished[field].as_str().unwrap_or("");
        if is_taken_resource(name, others) {
            refuse(reason, name);
        } else {
            accepted[field] = name.into();
        }
    }
    let short: Vec<&str> =
        wished["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match short.iter().find(|name| is_taken_resource(name, others)) {
        Some(name) => refuse("ShortNamesConflict", name),
        None if short.is_empty() => {
            if let Some(accepted) = accepted.as_object_mut() {
                accepted.remove("shortNames");
            }
        }
        None => accepted["shortNames"] = short.into(),
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let name = wished[field].as_str().unwrap_or("");
        if is_taken_kind(name, others) {
            refuse(reason, name);
        } else {
            accepted[field] = name.into();
        }
    }
    match wished.get("categories") {
        Some(categories) => accepted["categories"] = categories.clone(),
        None => {
            if let Some(accepted) = accepted.as_object_mut() {
                accepted.remove("categories");
            }
        }
    }
    Verdict { accepted, conflict }
}

fn is_taken_resource(name: &str, others: &[Value]) -> bool {
    !name.is_empty()
        && others.iter().map(|other| &other["status"]["acceptedNames"]).any(|names| {
            names["plural"] == name
                || names["singular"] == name
                || names["shortNames"].as_array().is_some_and(|all| all.iter().any(|n| n == name))
        })
}

fn is_taken_kind(name: &str, others: &[Value]) -> bool {
    !name.is_empty()
        && others
            .iter()
            .map(|other| &other["status"]["acceptedNames"])
            .any(|names| names["kind"] == name || names["listKind"] == name)
}
