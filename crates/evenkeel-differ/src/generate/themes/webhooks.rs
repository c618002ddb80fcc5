//! Random admission webhooks: what they match, what they return, and what requests become.
//!
//! kube-apiserver notices a configuration after a delay. Each revision therefore has one more
//! webhook, which denies dry runs with the label of the revision: once it does, the revision is in
//! effect. Validating webhooks are called in parallel, and kube-apiserver returns the error of any, so
//! at most one rejects a request.

use serde_json::{Value, json};

use super::super::random::Random;
use super::{APPLY, JSON_PATCH, MERGE, delete, get, patch, post};
use crate::sequence::{Step, Until};

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The collections that requests write to, with their kinds.
const TARGETS: [(&str, &str, &str); 4] = [
    ("/api/v1/namespaces/${ns}/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/${ns}/serviceaccounts", "v1", "ServiceAccount"),
    ("/apis/apps/v1/namespaces/${ns}/deployments", "apps/v1", "Deployment"),
    ("/apis/shared.differ.test/v1/namespaces/${ns}/widgets", "shared.differ.test/v1", "Widget"),
];

const VALIDATING: [&str; 12] = [
    "allow",
    "deny",
    "deny-status",
    "echo",
    "warn",
    "error",
    "garbage",
    "empty",
    "second",
    "uid",
    "type",
    "missing",
];

const MUTATING: [&str; 13] = [
    "allow",
    "deny",
    "deny-status",
    "warn",
    "error",
    "patch",
    "patch-unknown",
    "patch-type",
    "patch-path",
    "patch-kind",
    "patch-version",
    "patch-invalid",
    "patch-without-type",
];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mutating = random.percent(50);
    let plural = match mutating {
        true => "mutatingwebhookconfigurations",
        false => "validatingwebhookconfigurations",
    };
    let configuration = format!("{REGISTRATION}/{plural}/${{ns}}");
    let mut steps = Vec::new();
    for _ in 0..2 {
        steps.push(create(random));
    }
    steps.push(post(format!("{REGISTRATION}/{plural}"), configured(random, mutating, 1)));
    wait_for_revision(&mut steps, 1);
    let mut revision = 1;
    while steps.len() < 40 {
        if steps.len() > 14 * revision && revision < 3 {
            revision += 1;
            let webhooks = configured(random, mutating, revision)["webhooks"].take();
            steps.push(patch(&configuration, MERGE, json!({"webhooks": webhooks})));
            wait_for_revision(&mut steps, revision);
            continue;
        }
        steps.push(match random.below(8) {
            0..=2 => create(random),
            3 | 4 => update(random),
            5 => deletion(random),
            6 => applied(random),
            _ => read(random),
        });
    }
    steps.push(delete(configuration));
    steps
}

fn wait_for_revision(steps: &mut Vec<Step>, revision: usize) {
    let labels = json!({"revision": revision.to_string()});
    let probe = post(
        "/api/v1/namespaces/${ns}/secrets?dryRun=All",
        json!({"metadata": {"name": "probe", "labels": labels}}),
    );
    let until = Until { status: Some(400), ..Until::default() };
    steps.push(Step { until: Some(until), ..probe });
}

fn configured(random: &mut Random, mutating: bool, revision: usize) -> Value {
    let mut webhooks: Vec<Value> =
        (0..1 + random.below(2)).map(|number| webhook(random, mutating, number)).collect();
    if !mutating && let Some(second) = webhooks.get_mut(1) {
        never_reject(second);
    }
    let mut probe = webhook(random, mutating, 9);
    probe["clientConfig"]["url"] = "${webhook}/deny".into();
    probe["failurePolicy"] = "Fail".into();
    probe["objectSelector"] = json!({"matchLabels": {"revision": revision.to_string()}});
    probe["rules"] = json!([
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]},
    ]);
    for other in &mut webhooks {
        let selector = &mut other["objectSelector"];
        selector["matchExpressions"] = json!([{"key": "revision", "operator": "DoesNotExist"}]);
    }
    webhooks.insert(0, probe);
    json!({"metadata": {"name": "${ns}"}, "webhooks": webhooks})
}

fn webhook(random: &mut Random, mutating: bool, number: usize) -> Value {
    let path = *random.pick(if mutating { &MUTATING } else { &VALIDATING });
    let mut webhook = json!({
        "name": format!("w{number}.differ.test"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": *random.pick(&["None", "NoneOnDryRun"]),
        "clientConfig": {"url": format!("${{webhook}}/{path}"), "caBundle": "${ca}"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
        "failurePolicy": *random.pick(&["Fail", "Ignore"]),
        "matchPolicy": *random.pick(&["Exact", "Equivalent"]),
        "rules": [rule(random)],
    });
    if random.percent(25) {
        webhook["objectSelector"] = json!({"matchLabels": {"app": "x"}});
    }
    if mutating && random.percent(40) {
        webhook["reinvocationPolicy"] = "IfNeeded".into();
    }
    webhook
}

/// Changes a webhook that may deny requests to one that allows them, and ignores failed calls.
fn never_reject(webhook: &mut Value) {
    let url = webhook["clientConfig"]["url"].as_str().unwrap_or("");
    if ["/deny", "/deny-status", "/echo"].iter().any(|path| url.ends_with(path)) {
        webhook["clientConfig"]["url"] = "${webhook}/allow".into();
    }
    webhook["failurePolicy"] = "Ignore".into();
}

fn rule(random: &mut Random) -> Value {
    let operations = [
        json!(["*"]),
        json!(["CREATE"]),
        json!(["UPDATE"]),
        json!(["DELETE"]),
        json!(["CREATE", "UPDATE"]),
    ];
    let (groups, resources) = match random.below(5) {
        0 => (json!(["*"]), json!(["*"])),
        1 => (json!([""]), json!(["configmaps", "serviceaccounts"])),
        2 => (json!(["apps"]), json!(["deployments", "deployments/scale"])),
        3 => (json!(["shared.differ.test"]), json!(["widgets", "widgets/status"])),
        _ => (json!(["*"]), json!(["*/*"])),
    };
    // No namespace selector protects the cluster-scoped objects of other sequences.
    let scopes: &[&str] =
        if groups == json!(["*"]) { &["Namespaced"] } else { &["*", "Namespaced"] };
    json!({
        "operations": random.pick(&operations), "apiGroups": groups, "resources": resources,
        "apiVersions": [*random.pick(&["*", "v1", "v1beta1"])], "scope": *random.pick(scopes),
    })
}

fn object(random: &mut Random, kind: &str, api_version: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "labels": {"app": *random.pick(&["x", "y"])}},
    });
    match kind {
        "ConfigMap" => object["data"] = json!({"k": *random.pick(&["v", "w"])}),
        "Deployment" => {
            object["spec"] = json!({
                "selector": {"matchLabels": {"app": "d"}},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            });
        }
        "Widget" => object["spec"] = json!({"color": *random.pick(&["red", "blue", "none"])}),
        _ => {}
    }
    object
}

fn create(random: &mut Random) -> Step {
    let (path, api_version, kind) = *random.pick(&TARGETS);
    let name = *random.pick(&NAMES);
    let query = *random.pick(&["", "", "?dryRun=All"]);
    post(format!("{path}{query}"), object(random, kind, api_version, name))
}

fn update(random: &mut Random) -> Step {
    let (path, api_version, kind) = *random.pick(&TARGETS);
    let path = format!("{path}/{}", random.pick(&NAMES));
    match random.below(5) {
        0 if kind == "Deployment" => {
            patch(format!("{path}/scale"), MERGE, json!({"spec": {"replicas": random.below(4)}}))
        }
        0 if kind == "Widget" => patch(
            format!("{path}/status"),
            MERGE,
            json!({"status": {"phase": *random.pick(&["x", "y"])}}),
        ),
        1 => {
            let value = *random.pick(&["x", "y"]);
            let change = json!([{"op": "add", "path": "/metadata/labels/app", "value": value}]);
            patch(path, JSON_PATCH, change)
        }
        2 => {
            let name = path.rsplit('/').next().unwrap_or("a").to_owned();
            let body = object(random, kind, api_version, &name);
            Step::call("PUT", &path).with_body(body)
        }
        _ => {
            let labels = json!({"metadata": {"labels": {"app": *random.pick(&["x", "z"])}}});
            patch(path, MERGE, labels)
        }
    }
}

fn deletion(random: &mut Random) -> Step {
    let (path, ..) = *random.pick(&TARGETS);
    match random.below(4) {
        0 => delete(format!("{path}?labelSelector=app%3Dx")),
        _ => delete(format!("{path}/{}", random.pick(&NAMES))),
    }
}

fn applied(random: &mut Random) -> Step {
    let (path, api_version, kind) = *random.pick(&TARGETS);
    let name = *random.pick(&NAMES);
    let body = object(random, kind, api_version, name);
    patch(format!("{path}/{name}?fieldManager=m&force=true"), APPLY, body)
}

fn read(random: &mut Random) -> Step {
    let (path, ..) = *random.pick(&TARGETS);
    get(path)
}
