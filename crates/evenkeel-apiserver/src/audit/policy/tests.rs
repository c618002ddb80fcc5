//! Rules and their errors.

use super::*;
use crate::identity::Identity;

fn policy(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
    Policy::from_yaml(&text).unwrap()
}

/// Returns the level of a request on `resource` (`group/plural/subresource/name`) or on a path.
fn level(policy: &Policy, user: &Identity, verb: &str, target: &str) -> Level {
    let parts: Vec<&str> = target.split(' ').collect();
    let resource = match parts.as_slice() {
        [group, resource, subresource, namespace, name] => Some(ResourceAttributes {
            group: group.trim_matches('-'),
            version: "v1",
            resource,
            subresource: subresource.trim_matches('-'),
            namespace: namespace.trim_matches('-'),
            name: name.trim_matches('-'),
            selected_fields: &[],
        }),
        _ => None,
    };
    let attributes = Attributes { user, verb, path: target, resource };
    policy.decide(&attributes, true).map_or(Level::None, |decision| decision.level)
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(
        "
rules:
- {level: None, users: [probe]}
- {level: None, userGroups: [quiet], verbs: [get]}
- {level: RequestResponse, resources: [{group: '', resources: [secrets, pods/log, 'nodes/*']}]}
- {level: Request, resources: [{group: '*', resources: ['*/scale']}]}
- {level: Request, namespaces: [ns], resources: [{group: apps, resources: ['*'], resourceNames: [a]}]}
- {level: Metadata, nonResourceURLs: ['/api*', /version]}
",
    );
    let bob = Identity::authenticated("bob", ["dev"]);
    let at = |user: &Identity, verb: &str, target: &str| level(&policy, user, verb, target);
    assert_eq!(at(&bob, "get", "- secrets - ns a"), Level::RequestResponse);
    assert_eq!(at(&bob, "get", "- pods log ns a"), Level::RequestResponse);
    assert_eq!(at(&bob, "get", "- pods - ns a"), Level::None);
    assert_eq!(at(&bob, "get", "- nodes - - a"), Level::RequestResponse);
    assert_eq!(at(&bob, "get", "- nodes status - a"), Level::RequestResponse);
    assert_eq!(at(&bob, "get", "apps deployments scale other b"), Level::Request);
    assert_eq!(at(&bob, "get", "apps deployments - ns a"), Level::Request);
    assert_eq!(at(&bob, "get", "apps deployments - ns b"), Level::None);
    assert_eq!(at(&bob, "get", "apps deployments - other a"), Level::None);
    assert_eq!(at(&bob, "get", "/apis/apps"), Level::Metadata);
    assert_eq!(at(&bob, "get", "/version"), Level::Metadata);
    assert_eq!(at(&bob, "get", "/version/x"), Level::None);
    let probe = Identity::authenticated("probe", ["dev"]);
    assert_eq!(at(&probe, "get", "- secrets - ns a"), Level::None);
    let quiet = Identity::authenticated("eve", ["quiet"]);
    assert_eq!(at(&quiet, "get", "- secrets - ns a"), Level::None);
    assert_eq!(at(&quiet, "list", "- secrets - ns -"), Level::RequestResponse);
}

#[test]
fn rules_about_users_do_not_match_before_authentication() {
    let policy = policy("rules: [{level: Metadata, users: ['']}, {level: Request}]");
    let user = Identity::default();
    let attributes = Attributes { user: &user, verb: "get", path: "/", resource: None };
    let level = |authenticated| policy.decide(&attributes, authenticated).unwrap().level;
    assert_eq!((level(true), level(false)), (Level::Metadata, Level::Request));
}

#[test]
fn stages_and_managed_fields_are_omitted_by_policy_and_rule() {
    let policy = policy(
        "
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Request, verbs: [get], omitManagedFields: false, omitStages: [Panic]}
- {level: Metadata}
",
    );
    let user = Identity::default();
    let of = |verb| {
        let attributes = Attributes { user: &user, verb, path: "/", resource: None };
        policy.decide(&attributes, true).unwrap().clone()
    };
    assert_eq!(of("get").omit_stages, [Stage::RequestReceived, Stage::Panic]);
    assert!(!of("get").omit_managed_fields);
    assert_eq!(of("list").omit_stages, [Stage::RequestReceived]);
    assert!(of("list").omit_managed_fields);
}

#[test]
fn invalid_policies_are_refused_with_the_field() {
    let check = |text: &str, expected: &str| {
        let error = Policy::from_yaml(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    let rule = |rule: &str| format!("{head}rules: [{rule}]");
    check("kind: Policy", "apiVersion audit.k8s.io/v1");
    check(head, "there are no rules");
    check(&rule("{}"), "rules[0].level: Required value");
    check(
        &rule("{level: metadata}"),
        "rules[0].level: Unsupported value: \"metadata\": supported values: \"None\", \
         \"Metadata\", \"Request\", \"RequestResponse\"",
    );
    check(
        &rule("{level: None, omitStages: [Sent]}"),
        "rules[0].omitStages[0]: Invalid value: \"Sent\": allowed stages are \
         RequestReceived,ResponseStarted,ResponseComplete,Panic",
    );
    check(
        &rule("{level: None, nonResourceURLs: [api, '/a*b']}"),
        "rules[0].nonResourceURLs[0]: Invalid value: \"api\": non-resource URL rules must begin \
         with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource \
         URL wildcards '*' must be the final character of the rule",
    );
    check(
        &rule("{level: None, nonResourceURLs: [/a], namespaces: [b]}"),
        "rules cannot apply to both regular resources and non-resource URLs",
    );
    check(
        &rule("{level: None, resources: [{resourceNames: [a]}]}"),
        "using resourceNames requires at least one resource",
    );
    check(&rule("{level: None, resources: [{group: a/v1}]}"), "rules[0].resources.group");
}
