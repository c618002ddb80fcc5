//! Users with random roles: their requests, reviews of their permissions, and attempts to escalate
//! them.
//!
//! kube-apiserver notices a changed role after a delay. Each revision of the roles therefore allows
//! one more name and path, which are requested until they are allowed. A user has one binding per
//! scope: of several, kube-apiserver names any in its reasons. It lists the rules of a user in any
//! order, so they are not compared.

use serde_json::{Value, json};

use super::super::random::Random;
use super::{JSON_PATCH, MERGE, delete, get, patch, post};
use crate::sequence::{Step, Until};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

/// The user of the sequence; bindings of the cluster are shared with all others.
const USER: &str = "user-${ns}";

const GROUPS: [(&str, &[&str]); 4] = [
    (
        "",
        &[
            "configmaps",
            "secrets",
            "pods",
            "services",
            "serviceaccounts",
            "pods/log",
            "pods/status",
        ],
    ),
    ("apps", &["deployments", "deployments/scale", "replicasets"]),
    ("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles"]),
    ("shared.differ.test", &["widgets", "widgets/status", "loose"]),
];

const VERBS: [&str; 12] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
    "*",
];

const NAMES: [&str; 3] = ["a", "b", "system:x"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut steps = vec![
        post(format!("{RBAC}/namespaces/${{ns}}/roles"), role(random, "Role", "own", 1)),
        post(format!("{RBAC}/clusterroles"), role(random, "ClusterRole", "${ns}-own", 1)),
        post(format!("{RBAC}/namespaces/${{ns}}/rolebindings"), binding("RoleBinding", "own")),
        post(format!("{RBAC}/clusterrolebindings"), binding("ClusterRoleBinding", "${ns}-own")),
    ];
    wait_for_revision(&mut steps, 1);
    for _ in 0..2 {
        let name = *random.pick(&NAMES[..2]);
        steps.push(post(
            "/api/v1/namespaces/${ns}/configmaps",
            json!({"metadata": {"name": name}, "data": {"k": "v"}}),
        ));
    }
    let change_at = 20 + random.below(6);
    while steps.len() < 38 {
        if steps.len() == change_at {
            change(random, &mut steps);
            continue;
        }
        let step = match random.below(10) {
            0..=3 => as_user(request(random)),
            4 | 5 => review(random),
            6 => as_user(escalation(random)),
            7 => as_user(bound(random)),
            8 => stored(random),
            _ => as_user(other_path(random)),
        };
        steps.push(step);
    }
    steps
}

/// Waits until both bindings are in effect.
fn wait_for_revision(steps: &mut Vec<Step>, revision: usize) {
    let until = || Some(Until { status: Some(404), ..Until::default() });
    let object = get(format!("/api/v1/namespaces/${{ns}}/configmaps/revision-{revision}"));
    steps.push(Step { until: until(), ..as_user(object) });
    let path = get(format!("/revision-{revision}-${{ns}}"));
    steps.push(Step { until: until(), ..as_user(path) });
}

fn as_user(mut step: Step) -> Step {
    step.headers.insert("Impersonate-User".to_owned(), USER.to_owned());
    step
}

fn group_and_resource(random: &mut Random) -> (&'static str, &'static str) {
    let (group, resources) = *random.pick(&GROUPS);
    (group, *random.pick(resources))
}

fn rule(random: &mut Random) -> Value {
    let (group, resource) = group_and_resource(random);
    let mut verbs = vec![*random.pick(&VERBS)];
    while random.percent(50) {
        verbs.push(*random.pick(&VERBS));
    }
    let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    match random.below(12) {
        0 => rule["apiGroups"] = json!(["*"]),
        1 => rule["resources"] = json!(["*"]),
        2 => {
            rule["resources"] =
                json!([format!("*/{}", resource.split('/').next_back().unwrap_or(""))])
        }
        3 | 4 => rule["resourceNames"] = json!([*random.pick(&NAMES)]),
        _ => {}
    }
    rule
}

/// Returns a role with random rules, and those that show its revision.
fn role(random: &mut Random, kind: &str, name: &str, revision: usize) -> Value {
    let mut rules: Vec<Value> = (0..1 + random.below(3)).map(|_| rule(random)).collect();
    rules.push(match kind {
        "Role" => json!({
            "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
            "resourceNames": [format!("revision-{revision}")],
        }),
        _ => {
            json!({"nonResourceURLs": [format!("/revision-{revision}-${{ns}}")], "verbs": ["get"]})
        }
    });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "rules": rules,
    })
}

fn binding(kind: &str, name: &str) -> Value {
    let role = if kind == "RoleBinding" { "Role" } else { "ClusterRole" };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

/// Replaces the rules of both roles.
fn change(random: &mut Random, steps: &mut Vec<Step>) {
    for (kind, path, name) in [
        ("Role", format!("{RBAC}/namespaces/${{ns}}/roles/own"), "own"),
        ("ClusterRole", format!("{RBAC}/clusterroles/${{ns}}-own"), "${ns}-own"),
    ] {
        let role = role(random, kind, name, 2);
        steps.push(patch(path, MERGE, json!({"rules": role["rules"]})));
    }
    wait_for_revision(steps, 2);
}

fn path(group: &str, resource: &str, name: Option<&str>) -> String {
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let root = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1"),
    };
    let namespace = if plural == "clusterroles" { "" } else { "/namespaces/${ns}" };
    let mut path = format!("{root}{namespace}/{plural}");
    if let Some(name) = name.or((!subresource.is_empty()).then_some("a")) {
        path.push_str(&format!("/{name}"));
    }
    if !subresource.is_empty() {
        path.push_str(&format!("/{subresource}"));
    }
    path
}

fn request(random: &mut Random) -> Step {
    let (group, resource) = group_and_resource(random);
    let name = *random.pick(&NAMES);
    let named = path(group, resource, Some(name));
    match random.below(7) {
        0 => get(path(group, resource, None)),
        1 => get(format!("{}?fieldSelector=metadata.name%3D{name}", path(group, resource, None))),
        2 | 3 => get(named),
        4 => patch(named, MERGE, json!({"metadata": {"labels": {"by": "user"}}})),
        5 => delete(format!("{named}?dryRun=All")),
        _ => post(path(group, resource, None), json!({"metadata": {"name": name}})),
    }
}

fn other_path(random: &mut Random) -> Step {
    get(*random.pick(&["/healthz", "/metrics", "/apis/apps", "/logs/", "/revision-1-${ns}"]))
}

fn review(random: &mut Random) -> Step {
    let (group, resource) = group_and_resource(random);
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let mut attributes = json!({
        "group": group, "resource": plural, "verb": *random.pick(&VERBS), "namespace": "${ns}",
    });
    if !subresource.is_empty() {
        attributes["subresource"] = subresource.into();
    }
    if random.percent(30) {
        attributes["name"] = (*random.pick(&NAMES)).into();
    }
    match random.below(4) {
        0 => {
            let spec = json!({"resourceAttributes": attributes});
            as_user(post(format!("{REVIEWS}/selfsubjectaccessreviews"), json!({"spec": spec})))
        }
        1 => {
            let spec = json!({"user": USER, "resourceAttributes": attributes});
            let path = format!("{REVIEWS}/namespaces/${{ns}}/localsubjectaccessreviews");
            post(path, json!({"metadata": {"namespace": "${ns}"}, "spec": spec}))
        }
        2 => {
            let attributes = json!({"path": "/revision-1-${ns}", "verb": "get"});
            let spec = json!({"user": USER, "nonResourceAttributes": attributes});
            post(format!("{REVIEWS}/subjectaccessreviews"), json!({"spec": spec}))
        }
        _ => {
            let spec = json!({"user": USER, "groups": ["dev"], "resourceAttributes": attributes});
            post(format!("{REVIEWS}/subjectaccessreviews"), json!({"spec": spec}))
        }
    }
}

/// An attempt to create or change a role.
fn escalation(random: &mut Random) -> Step {
    let name = format!("more-{}", random.below(3));
    let rules: Vec<Value> = (0..1 + random.below(2)).map(|_| rule(random)).collect();
    let role = json!({"metadata": {"name": name}, "rules": rules});
    match random.below(4) {
        0 => patch(
            format!("{RBAC}/namespaces/${{ns}}/roles/own"),
            JSON_PATCH,
            json!([{"op": "add", "path": "/rules/0", "value": rule(random)}]),
        ),
        1 => post(format!("{RBAC}/clusterroles?dryRun=All"), role),
        _ => post(format!("{RBAC}/namespaces/${{ns}}/roles?dryRun=All"), role),
    }
}

/// An attempt to bind a role.
fn bound(random: &mut Random) -> Step {
    let (kind, name) =
        *random.pick(&[("Role", "own"), ("ClusterRole", "view"), ("ClusterRole", "none")]);
    let mut body = binding("RoleBinding", "mine");
    body["roleRef"]["kind"] = kind.into();
    body["roleRef"]["name"] = name.into();
    if random.percent(20) {
        body["subjects"] = json!([{"kind": "ServiceAccount", "name": "robot"}]);
    }
    post(format!("{RBAC}/namespaces/${{ns}}/rolebindings?dryRun=All"), body)
}

/// Roles and bindings as objects, written by an administrator.
fn stored(random: &mut Random) -> Step {
    let mut body = role(random, "Role", "stored", 1);
    match random.below(6) {
        0 => {
            body["rules"][0]["verbs"] = json!([]);
            post(format!("{RBAC}/namespaces/${{ns}}/roles?dryRun=All"), body)
        }
        1 => {
            body["rules"][0]["nonResourceURLs"] = json!(["/x"]);
            post(format!("{RBAC}/namespaces/${{ns}}/roles?dryRun=All"), body)
        }
        2 => patch(
            format!("{RBAC}/namespaces/${{ns}}/rolebindings/own"),
            MERGE,
            json!({"roleRef": {"name": "other"}}),
        ),
        3 => get(format!("{RBAC}/namespaces/${{ns}}/rolebindings/own")),
        4 => get(format!("{RBAC}/clusterroles/${{ns}}-own")),
        _ => post(format!("{RBAC}/namespaces/${{ns}}/roles?dryRun=All"), body),
    }
}
