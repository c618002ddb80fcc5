//! Validates webhook configurations.

use std::collections::HashSet;

use serde_json::Value;

use super::super::checks::{self, SelectorValues};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, fully_qualified_name,
    match_conditions, metadata, rule_with_operations, selector,
};
use crate::names;

/// Checks that are relaxed because the stored webhooks already violate them.
struct Relaxed {
    match_conditions: bool,
    side_effects: bool,
    versions: bool,
    names: bool,
    values: SelectorValues,
}

impl Relaxed {
    const NONE: Self = Self {
        match_conditions: false,
        side_effects: false,
        versions: false,
        names: false,
        values: SelectorValues::Validated,
    };

    fn for_update(new: &[Value], old: &[Value]) -> Self {
        let selectors = |hook: &Value| {
            ["namespaceSelector", "objectSelector"].into_iter().any(|field| {
                checks::selector_values(hook.at(field)) == SelectorValues::AllowInvalid
            })
        };
        Self {
            match_conditions: new.len() == old.len()
                && new
                    .iter()
                    .zip(old)
                    .all(|(new, old)| new.at("matchConditions") == old.at("matchConditions")),
            side_effects: !old
                .iter()
                .all(|hook| matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun")),
            versions: !old.iter().all(|hook| {
                let mut versions = hook.texts("admissionReviewVersions");
                hook.list("admissionReviewVersions").is_empty() || versions.any(is_review_version)
            }),
            names: old.iter().map(|h| h.text("name")).collect::<HashSet<_>>().len() < old.len(),
            values: if old.iter().any(selectors) {
                SelectorValues::AllowInvalid
            } else {
                SelectorValues::Validated
            },
        }
    }
}

fn is_review_version(version: &str) -> bool {
    matches!(version, "v1" | "v1beta1")
}

pub(super) fn configuration(
    errs: &mut Errors,
    configuration: &Value,
    old: Option<&Value>,
    mutating: bool,
) {
    metadata(errs, configuration);
    let hooks = configuration.list("webhooks");
    let relaxed = old.map_or(Relaxed::NONE, |old| Relaxed::for_update(hooks, old.list("webhooks")));
    let path = Path::root("webhooks");
    let mut names = HashSet::new();
    for (i, hook) in hooks.iter().enumerate() {
        let path = path.index(i);
        webhook(errs, path, hook, &relaxed, mutating);
        review_versions(errs, path.child("admissionReviewVersions"), hook, &relaxed);
        let name = hook.text("name");
        if !names.insert(name) && !relaxed.names && !name.is_empty() {
            errs.duplicate(path.child("name"), name);
        }
    }
}

fn webhook(errs: &mut Errors, path: Path<'_>, hook: &Value, relaxed: &Relaxed, mutating: bool) {
    fully_qualified_name(errs, path.child("name"), hook.text("name"));
    for (i, rule) in hook.list("rules").iter().enumerate() {
        rule_with_operations(errs, path.child("rules").index(i), rule);
    }
    let policy = hook.at("failurePolicy");
    checks::one_of_if_set(errs, path.child("failurePolicy"), policy, FAILURE_POLICIES);
    let policy = hook.at("matchPolicy");
    checks::one_of_if_set(errs, path.child("matchPolicy"), policy, MATCH_POLICIES);
    let side_effects: &[&str] = if relaxed.side_effects {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    } else {
        &["None", "NoneOnDryRun"]
    };
    if hook.has("sideEffects") {
        let effects = hook.at("sideEffects");
        checks::one_of_if_set(errs, path.child("sideEffects"), effects, side_effects);
    } else {
        let detail = format!("must specify one of {}", side_effects.join(", "));
        errs.required(path.child("sideEffects"), detail);
    }
    if let Some(timeout) = hook.int("timeoutSeconds").filter(|t| !(1..=30).contains(t)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errs.invalid(path.child("timeoutSeconds"), timeout, detail);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector(errs, path.child(field), hook.at(field), relaxed.values);
    }
    if mutating {
        let policy = hook.at("reinvocationPolicy");
        let path = path.child("reinvocationPolicy");
        checks::one_of_if_set(errs, path, policy, REINVOCATION_POLICIES);
    }
    client(errs, path.child("clientConfig"), hook.at("clientConfig"));
    if !relaxed.match_conditions {
        let conditions = hook.list("matchConditions");
        match_conditions(errs, path.child("matchConditions"), conditions, false);
    }
}

fn client(errs: &mut Errors, path: Path<'_>, client: &Value) {
    let service = client.at("service");
    match (client.text_opt("url"), service.is_null()) {
        (Some(url), true) => self::url(errs, path.child("url"), url),
        (None, false) => self::service(errs, path.child("service"), service),
        _ => errs.required(path, "exactly one of url or service is required"),
    }
}

/// Validates a URL of the form `https://host[/path]`.
fn url(errs: &mut Errors, path: Path<'_>, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) =>
        {
            (scheme, rest)
        }
        Some(("", _)) => {
            let reason =
                format!("url must be a valid URL: parse \"{url}\": missing protocol scheme{FORM}");
            errs.required(path, reason);
            return;
        }
        _ => ("", rest),
    };
    let authority =
        rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "https" {
        errs.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errs.invalid(path, host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errs.invalid(path, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errs.invalid(path, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errs.invalid(path, query, "query parameters are not permitted in the URL");
    }
}

fn service(errs: &mut Errors, path: Path<'_>, service: &Value) {
    // Upstream swaps the two, so each error is reported under the path of the other.
    for (field, shown) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            errs.required(path.child(shown), "");
        }
    }
    let port = service.num("port");
    for reason in names::port_number(port) {
        errs.invalid(path.child("port"), port, format!("port is not valid: {reason}"));
    }
    let Some(url_path) = service.text_opt("path").filter(|p| !matches!(*p, "" | "/")) else {
        return;
    };
    let path = path.child("path");
    if url_path == "//" {
        errs.invalid(path, url_path, "segment[0] may not be empty");
        return;
    }
    if !url_path.starts_with('/') {
        errs.invalid(path, url_path, "must start with a '/'");
    }
    // Upstream removes the first character without checking that it is a slash.
    let mut characters = url_path.chars();
    characters.next();
    let checked = characters.as_str();
    let checked = checked.strip_suffix('/').unwrap_or(checked);
    for (i, step) in checked.split('/').enumerate() {
        if step.is_empty() {
            errs.invalid(path, url_path, format!("segment[{i}] may not be empty"));
            continue;
        }
        for reason in names::dns1123_subdomain(step) {
            errs.invalid(path, url_path, format!("segment[{i}]: {reason}"));
        }
    }
}

fn review_versions(errs: &mut Errors, path: Path<'_>, hook: &Value, relaxed: &Relaxed) {
    let versions: Vec<&str> = hook.texts("admissionReviewVersions").collect();
    if versions.is_empty() {
        errs.required(path, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errs.invalid(path.index(i), *version, "duplicate version");
        } else {
            errs.reasons(path.index(i), version, names::dns1035_label(version));
        }
    }
    if !relaxed.versions && !versions.iter().any(|version| is_review_version(version)) {
        errs.invalid(path, versions, "must include at least one of v1, v1beta1");
    }
}
