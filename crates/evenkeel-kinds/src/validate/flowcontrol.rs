//! Validates FlowSchemas and PriorityLevelConfigurations (API priority and fairness).

use std::collections::HashSet;

use serde_json::Value;

use super::builtin_create;
use super::checks;
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use crate::names::{self, NameRule};

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    match kind {
        "FlowSchema" => flow_schema(errs, object),
        "PriorityLevelConfiguration" => priority_level(errs, object),
        _ => {}
    }
}

fn flow_schema(errs: &mut Errors, schema: &Value) {
    builtin_create(errs, schema, false, NameRule::Subdomain);
    let path = Path::root("spec");
    let spec = schema.at("spec");
    let name = schema.at("metadata").text("name");
    let precedence = spec.num("matchingPrecedence");
    {
        let path = path.child("matchingPrecedence");
        if precedence <= 0 {
            errs.invalid(path, precedence, "must be a positive value");
        }
        if precedence > 10_000 {
            errs.invalid(path, precedence, "must not be greater than 10000");
        }
        if precedence == 1 && name != "exempt" {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            errs.invalid(path, precedence, detail);
        }
    }
    let method = spec.at("distinguisherMethod");
    if !method.is_null() && !matches!(method.text("type"), "ByNamespace" | "ByUser") {
        let shown = Printed(Ty::Struct(printed::FLOW_DISTINGUISHER_METHOD), method);
        let path = path.child("distinguisherMethod");
        errs.not_supported_printed(path.child("type"), shown, &["ByNamespace", "ByUser"]);
    }
    let level = spec.at("priorityLevelConfiguration").text("name");
    {
        let path = path.child("priorityLevelConfiguration");
        if level.is_empty() {
            errs.required(path.child("name"), "must reference a priority level");
        } else {
            checks::dns1123_subdomain(errs, path.child("name"), level);
        }
    }
    for (i, rule) in spec.list("rules").iter().enumerate() {
        let path = path.child("rules");
        self::rule(errs, path.index(i), rule);
    }
    mandatory_schema(errs, name, spec);
    conditions(errs, schema.at("status"));
}

/// Checks that the two mandatory FlowSchemas are unchanged.
fn mandatory_schema(errs: &mut Errors, name: &str, spec: &Value) {
    let fixed = match name {
        "exempt" => serde_json::json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": [{
                "subjects": [{"kind": "Group", "group": {"name": "system:masters"}}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true, "namespaces": ["*"],
                }],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        }),
        "catch-all" => serde_json::json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": 10000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [
                    {"kind": "Group", "group": {"name": "system:unauthenticated"}},
                    {"kind": "Group", "group": {"name": "system:authenticated"}},
                ],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true, "namespaces": ["*"],
                }],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        }),
        _ => return,
    };
    let ty = Ty::Struct(printed::FLOW_SCHEMA_SPEC);
    if !printed::same(ty, spec, &fixed) {
        let detail = format!("spec of '{name}' must equal the fixed value");
        errs.invalid_printed(Path::root("spec"), Printed(ty, spec), detail);
    }
}

fn rule(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    let subjects = rule.list("subjects");
    if subjects.is_empty() {
        errs.required(path.child("subjects"), "subjects must contain at least one value");
    }
    for (i, subject) in subjects.iter().enumerate() {
        self::subject(errs, path.child("subjects").index(i), subject);
    }
    let (resources, others) = (rule.list("resourceRules"), rule.list("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errs.required(path, detail);
    }
    for (i, rule) in resources.iter().enumerate() {
        resource_rule(errs, path.child("resourceRules").index(i), rule);
    }
    for (i, rule) in others.iter().enumerate() {
        non_resource_rule(errs, path.child("nonResourceRules").index(i), rule);
    }
}

const SUBJECTS: [(&str, &str); 3] =
    [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];

fn subject(errs: &mut Errors, path: Path<'_>, subject: &Value) {
    let kind = subject.text("kind");
    let Some((own, _)) = SUBJECTS.iter().find(|(_, k)| *k == kind) else {
        errs.not_supported(path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
        return;
    };
    let named = subject.at(own);
    let at = path.child(own);
    if named.is_null() {
        errs.required(at, format!("{own} is required when subject kind is '{kind}'"));
    } else {
        let name = named.text("name");
        if name.is_empty() {
            errs.required(at.child("name"), "");
        } else if *own == "serviceAccount" && name != "*" {
            checks::dns1123_subdomain(errs, at.child("name"), name);
        }
        if *own == "serviceAccount" {
            let namespace = named.text("namespace");
            if namespace.is_empty() {
                let detail = "must specify namespace for service account";
                errs.required(at.child("namespace"), detail);
            } else {
                checks::dns1123_label(errs, at.child("namespace"), namespace);
            }
        }
    }
    // In upstream's order: service account, user, group.
    for (field, other) in SUBJECTS.iter().filter(|(field, _)| field != own) {
        if subject.has(field) {
            let detail = format!("{field} is forbidden when subject kind is not '{other}'");
            errs.forbidden(path.child(field), detail);
        }
    }
}

fn verbs(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    const VERBS: &[&str] = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "proxy",
        "update",
        "watch",
    ];
    let verbs: Vec<&str> = rule.texts("verbs").collect();
    if verbs.is_empty() {
        errs.required(path, "verbs must contain at least one value");
    } else if verbs.contains(&"*") {
        if verbs.len() > 1 {
            errs.invalid(path, verbs, "if '*' is present, must not specify other verbs");
        }
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errs.not_supported(path, verbs, VERBS);
    }
}

fn resource_rule(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    verbs(errs, path.child("verbs"), rule);
    for (field, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let values: Vec<&str> = rule.texts(field).collect();
        if values.is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errs.required(path.child(field), detail);
        } else if values.len() > 1 && values.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {others}");
            errs.invalid(path.child(field), values, detail);
        }
    }
    let namespaces: Vec<&str> = rule.texts("namespaces").collect();
    let path = path.child("namespaces");
    if namespaces.is_empty() && !rule.is("clusterScope") {
        let detail =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errs.required(path, detail);
    } else if namespaces.contains(&"*") {
        if namespaces.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errs.invalid(path, namespaces, detail);
        }
    } else {
        for (i, namespace) in namespaces.iter().enumerate() {
            for reason in names::dns1123_label(namespace) {
                let detail =
                    format!("each member of this list must be '*' or a DNS-1123 label; {reason}");
                errs.invalid(path.index(i), *namespace, detail);
            }
        }
    }
}

fn non_resource_rule(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    verbs(errs, path.child("verbs"), rule);
    let urls: Vec<&str> = rule.texts("nonResourceURLs").collect();
    let path = path.child("nonResourceURLs");
    if urls.is_empty() {
        errs.required(path, "nonResourceURLs must contain at least one value");
    } else if urls.contains(&"*") {
        if urls.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errs.invalid(path, urls, detail);
        }
    } else {
        for (i, url) in urls.iter().enumerate() {
            let wildcards = url.matches('*').count();
            let error = if url.is_empty() {
                "must not be empty"
            } else if *url == "/" {
                continue;
            } else if !url.starts_with('/') {
                "must start with slash"
            } else if url.contains(' ') {
                "must not contain white-space"
            } else if url.contains("//") {
                "must not contain double slash"
            } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
                "wildcard can only do suffix matching"
            } else {
                continue;
            };
            errs.invalid(path.index(i), *url, error);
        }
    }
}

fn priority_level(errs: &mut Errors, level: &Value) {
    builtin_create(errs, level, false, NameRule::Subdomain);
    const PRESERVE: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    if level.at("metadata").at("annotations").has(PRESERVE) {
        let path = Path::root("metadata");
        errs.forbidden(path.child("annotations"), format!("annotation '{PRESERVE}' is forbidden"));
    }
    let path = Path::root("spec");
    let spec = level.at("spec");
    let name = level.at("metadata").text("name");
    let kind = spec.text("type");
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errs.invalid(path.child("type"), kind, detail);
    }
    let (limited, exempt) = (spec.at("limited"), spec.at("exempt"));
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                errs.forbidden(path.child("limited"), "must be nil if the type is not Limited");
            }
            let path = path.child("exempt");
            non_negative(errs, path, exempt, "nominalConcurrencyShares");
            percent(errs, path, exempt);
        }
        "Limited" => {
            if !exempt.is_null() {
                errs.forbidden(path.child("exempt"), "must be nil if the type is Limited");
            }
            if limited.is_null() {
                errs.required(path.child("limited"), "must not be empty when type is Limited");
            } else {
                self::limited(errs, path.child("limited"), limited);
            }
        }
        "" => errs.required(path.child("type"), ""),
        other => errs.not_supported(path.child("type"), other, &["Exempt", "Limited"]),
    }
    mandatory_level(errs, name, spec);
    conditions(errs, level.at("status"));
}

fn mandatory_level(errs: &mut Errors, name: &str, spec: &Value) {
    let ty = Ty::Struct(printed::PRIORITY_LEVEL_CONFIGURATION_SPEC);
    let (fixed, what) = match name {
        "exempt" => {
            let exempt = spec.at("exempt").clone();
            (
                serde_json::json!({"type": "Exempt", "exempt": exempt}),
                " except the 'spec.exempt' field",
            )
        }
        "catch-all" => (
            serde_json::json!({
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 5,
                    "lendablePercent": 0,
                    "limitResponse": {"type": "Reject"},
                },
            }),
            "",
        ),
        _ => return,
    };
    if !printed::same(ty, spec, &fixed) {
        let detail = format!("spec of '{name}'{what} must equal the fixed value");
        errs.invalid_printed(Path::root("spec"), Printed(ty, spec), detail);
    }
}

fn non_negative(errs: &mut Errors, path: Path<'_>, object: &Value, field: &str) {
    if let Some(value) = object.int(field).filter(|v| *v < 0) {
        errs.invalid(path.child(field), value, "must be a non-negative integer");
    }
}

fn percent(errs: &mut Errors, path: Path<'_>, object: &Value) {
    if let Some(percent) = object.int("lendablePercent").filter(|p| !(0..=100).contains(p)) {
        let detail = "must be between 0 and 100, inclusive";
        errs.invalid(path.child("lendablePercent"), percent, detail);
    }
}

fn limited(errs: &mut Errors, path: Path<'_>, limited: &Value) {
    non_negative(errs, path, limited, "nominalConcurrencyShares");
    limit_response(errs, path.child("limitResponse"), limited.at("limitResponse"));
    percent(errs, path, limited);
    if let Some(percent) = limited.int("borrowingLimitPercent").filter(|p| *p < 0) {
        let detail = "if specified, must be a non-negative integer";
        errs.invalid(path.child("borrowingLimitPercent"), percent, detail);
    }
}

fn limit_response(errs: &mut Errors, path: Path<'_>, response: &Value) {
    let queuing = response.at("queuing");
    let at = path.child("queuing");
    match response.text("type") {
        "Reject" => {
            if !queuing.is_null() {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                errs.forbidden(at, detail);
            }
        }
        "Queue" if queuing.is_null() => {
            errs.required(at, "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => self::queuing(errs, at, queuing),
        "" => errs.required(path.child("type"), ""),
        other => errs.not_supported(path.child("type"), other, &["Queue", "Reject"]),
    }
}

fn queuing(errs: &mut Errors, path: Path<'_>, queuing: &Value) {
    const POSITIVE: &str = "must be positive";
    let (length, queues, hand) =
        (queuing.num("queueLengthLimit"), queuing.num("queues"), queuing.num("handSize"));
    if length <= 0 {
        errs.invalid(path.child("queueLengthLimit"), length, POSITIVE);
    }
    if queues <= 0 {
        errs.invalid(path.child("queues"), queues, POSITIVE);
    } else if queues > 10_000_000 {
        errs.invalid(path.child("queues"), queues, "must not be greater than 10000000");
    }
    let path = path.child("handSize");
    if hand <= 0 {
        errs.invalid(path, hand, POSITIVE);
    } else if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errs.invalid(path, hand, detail);
    } else if entropy_bits(queues, hand) > 60 {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater \
             than 60"
        );
        errs.invalid(path, hand, detail);
    }
}

/// Returns the number of bits needed to number all hands dealt from a deck (shuffle sharding).
#[expect(clippy::cast_precision_loss, reason = "decks have at most ten million cards")]
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    let bits: f64 = (0..hand).map(|i| ((deck - i) as f64).log2()).sum();
    #[expect(clippy::cast_possible_truncation, reason = "a sum of small logarithms")]
    let bits = bits.ceil() as i64;
    bits
}

pub(super) fn status(errs: &mut Errors, object: &Value) {
    conditions(errs, object.at("status"));
}

fn conditions(errs: &mut Errors, status: &Value) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let mut kinds = HashSet::new();
    for (i, condition) in status.list("conditions").iter().enumerate() {
        let path = path.index(i);
        let kind = condition.text("type");
        if !kinds.insert(kind) {
            errs.duplicate(path.child("type"), kind);
        }
        if kind.is_empty() {
            errs.required(path.child("type"), "");
        }
    }
}
