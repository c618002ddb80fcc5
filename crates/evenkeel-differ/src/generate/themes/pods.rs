//! Pods and their subresources, and other kinds with special subresources.

use serde_json::{Value, json};

use super::super::random::Random;
use super::{APPLY, JSON_PATCH, MERGE, STRATEGIC, delete, get, patch, post, put};
use crate::sequence::Step;

const PODS: &str = "/api/v1/namespaces/${ns}/pods";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The pod that is resized. It is never bound, because a bound pod is checked against its node.
const RESIZED: &str = "sized";

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in NAMES {
        steps.push(post(PODS, pod(random, name)).saving(name));
    }
    let mut sized = pod(random, RESIZED);
    sized["spec"]["nodeName"] = Value::Null;
    steps.push(post(PODS, sized).saving(RESIZED));
    while steps.len() < 34 {
        let name = *random.pick(&NAMES);
        let path = format!("{PODS}/{name}");
        let step = match random.below(16) {
            0 | 1 => binding(random, &path, name),
            2 | 3 => ephemeral(random, &path, name),
            4 | 5 => resize(random),
            6 | 7 => status(random, &path, name),
            8 => eviction(random, &path, name),
            9 => pod_disruption_budget(random),
            10 => missing(random, &path),
            11 => post(PODS, pod(random, name)).saving(name),
            12 => get(&path).saving(name),
            13 => deletion(random, &path),
            14 => spec(random, &path, name),
            _ => other_kinds(random),
        };
        steps.push(step);
    }
    steps
}

fn pod(random: &mut Random, name: &str) -> Value {
    let mut container = json!({"name": "c", "image": "image:1"});
    if name == RESIZED {
        container["resources"] = json!({
            "requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"},
        });
    }
    if random.percent(20) {
        container["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    }
    let mut spec = json!({"containers": [container]});
    match random.below(8) {
        0 => spec["schedulingGates"] = json!([{"name": "example.com/wait"}]),
        1 => spec["nodeName"] = "n1".into(),
        2 => {
            spec["initContainers"] = json!([{"name": "i", "image": "i", "restartPolicy": "Always"}])
        }
        3 => spec["terminationGracePeriodSeconds"] = 0.into(),
        4 => spec["priorityClassName"] = "system-node-critical".into(),
        5 => {
            spec["volumes"] = json!([
                {"name": "p", "projected": {"sources": [{"configMap": {"name": "m"}}]}},
                {"name": "d", "downwardAPI": {"items": [
                    {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}},
                ]}},
            ]);
        }
        6 => {
            spec["affinity"] = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}},
                ],
            }});
        }
        _ => {}
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec,
    })
}

fn binding(random: &mut Random, path: &str, name: &str) -> Step {
    let body = match random.below(5) {
        0 => json!({"metadata": {"name": name}, "target": {"kind": "Service", "name": "n1"}}),
        1 => json!({"metadata": {"name": name}, "target": {"name": ""}}),
        2 => json!({"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "n1"}}),
        _ => json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "annotations": {"bound": "yes"}, "labels": {"bound": "yes"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        }),
    };
    match random.below(6) {
        0 => get(format!("{path}/binding")),
        1 => post("/api/v1/namespaces/${ns}/bindings", body),
        _ => post(format!("{path}/binding"), body),
    }
}

fn ephemeral(random: &mut Random, path: &str, name: &str) -> Step {
    let path = format!("{path}/ephemeralcontainers");
    let containers = match random.below(5) {
        0 => json!([{"name": "c", "image": "debug"}]),
        1 => json!([{"name": "e", "image": "debug", "ports": [{"containerPort": 1}]}]),
        2 => json!([{"name": "e", "image": "debug", "targetContainerName": "nope"}]),
        3 => json!([]),
        _ => json!([{"name": "e", "image": "debug", "targetContainerName": "c"}]),
    };
    match random.below(4) {
        0 => get(path).saving(name),
        1 => put(path, name).setting("/spec/ephemeralContainers", containers).saving(name),
        2 => patch(
            path,
            JSON_PATCH,
            json!([{"op": "add", "path": "/spec/ephemeralContainers", "value": containers}]),
        ),
        _ => patch(path, STRATEGIC, json!({"spec": {"ephemeralContainers": containers}})),
    }
}

/// Changes resources of a container, validly or invalidly.
fn resize(random: &mut Random) -> Step {
    let path = format!("{PODS}/{RESIZED}/resize");
    let resources = random
        .pick(&[
            json!({"requests": {"cpu": "150m"}}),
            json!({"requests": {"cpu": "180m"}, "limits": {"cpu": "250m"}}),
            json!({"requests": {"memory": "32Mi"}}),
            json!({"limits": {"memory": "64Mi"}}),
            json!({"limits": {"memory": "32Mi"}}),
            json!({"requests": {"cpu": "900m"}}),
            json!({"requests": {"cpu": "-1"}}),
            json!({"requests": {"cpu": "much"}}),
            json!({"requests": {"cpu": null}}),
            json!({"requests": null, "limits": null}),
            json!({"limits": {"example.com/gpu": "1"}}),
            json!({"requests": {"ephemeral-storage": "1Gi"}}),
            json!({"limits": {"hugepages-2Mi": "2Mi"}}),
            json!({"claims": [{"name": "claim"}]}),
        ])
        .clone();
    let container = |name: &str, more: Value| {
        let mut container = json!({"name": name, "resources": resources});
        if let (Value::Object(container), Value::Object(more)) = (&mut container, more) {
            container.extend(more);
        }
        json!({"spec": {"containers": [container]}})
    };
    match random.below(14) {
        0 => get(path).saving(RESIZED),
        1 => put(path, RESIZED).setting("/spec/containers/0/resources", resources).saving(RESIZED),
        2 => put(path, RESIZED).setting("/spec/terminationGracePeriodSeconds", 7.into()),
        3 => put(path, RESIZED).setting("/metadata/labels/resized", "yes".into()),
        4 => patch(&path, STRATEGIC, container("nobody", json!({}))),
        5 => patch(&path, STRATEGIC, container("c", json!({"image": "image:9"}))),
        6 => patch(&path, STRATEGIC, container("c", json!({"env": [{"name": "A"}]}))),
        7 => patch(
            &path,
            STRATEGIC,
            json!({"spec": {"initContainers": [{"name": "i", "resources": resources}]}}),
        ),
        8 => patch(
            &path,
            STRATEGIC,
            json!({"spec": {"containers": [{"name": "c", "resizePolicy": [
                {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
            ]}]}}),
        ),
        9 => patch(
            &path,
            JSON_PATCH,
            json!([{"op": "replace", "path": "/spec/containers/0/resources", "value": resources}]),
        ),
        10 => patch(format!("{PODS}/{RESIZED}"), STRATEGIC, container("c", json!({}))),
        11 => patch(&path, MERGE, json!({"spec": {"resources": {"limits": {"cpu": "1"}}}})),
        _ => patch(&path, STRATEGIC, container("c", json!({}))),
    }
}

fn status(random: &mut Random, path: &str, name: &str) -> Step {
    let path = format!("{path}/status");
    let conditions = json!([
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2001-01-01T00:00:00Z"},
    ]);
    match random.below(8) {
        0 => get(path),
        1 => patch(path, STRATEGIC, json!({"status": {"conditions": conditions}})),
        2 => patch(path, MERGE, json!({"status": {"phase": "Succeeded"}})),
        3 => patch(
            path,
            MERGE,
            json!({"status": {"podIPs": [{"ip": "192.0.2.3"}, {"ip": "2001:db8::1"}], "podIP": "192.0.2.3"}}),
        ),
        4 => patch(
            path,
            MERGE,
            json!({"status": {"containerStatuses": [
            {"name": "c", "image": "image:1", "imageID": "x", "ready": true, "restartCount": 1, "started": true,
             "state": {"running": {"startedAt": "2001-01-01T00:00:00Z"}}},
        ]}, "metadata": {"labels": {"from": "status"}}}),
        ),
        5 => patch(
            path,
            APPLY,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}),
        ),
        6 => put(path, name)
            .setting("/status/qosClass", (*random.pick(&["Guaranteed", "Burstable"])).into()),
        _ => put(path, name)
            .setting("/status/phase", (*random.pick(&["Running", "Failed", "Odd"])).into())
            .setting("/spec/nodeName", "n9".into())
            .saving(name),
    }
}

fn eviction(random: &mut Random, path: &str, name: &str) -> Step {
    let mut body =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    match random.below(5) {
        0 => body["deleteOptions"] = json!({"dryRun": ["All"]}),
        1 => body["deleteOptions"] = json!({"gracePeriodSeconds": 0}),
        2 => body["deleteOptions"] = json!({"preconditions": {"uid": "other"}}),
        3 => body["metadata"]["name"] = "other".into(),
        _ => {}
    }
    if random.percent(10) {
        get(format!("{path}/eviction"))
    } else {
        post(format!("{path}/eviction"), body)
    }
}

fn pod_disruption_budget(random: &mut Random) -> Step {
    let budgets = "/apis/policy/v1/namespaces/${ns}/poddisruptionbudgets";
    match random.below(4) {
        0 => patch(
            format!("{budgets}/p/status"),
            MERGE,
            json!({"status": {
                "disruptionsAllowed": random.below(2), "observedGeneration": random.below(3),
                "expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 2,
            }}),
        ),
        1 => delete(format!("{budgets}/p")),
        _ => post(
            budgets,
            json!({
                "metadata": {"name": *random.pick(&["p", "q"])},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
            }),
        ),
    }
}

/// Requests subresources that pods do not have.
fn missing(random: &mut Random, path: &str) -> Step {
    get(format!("{path}/{}", random.pick(&["nope", "status/more", "binding/a", "exec/a"])))
}

fn deletion(random: &mut Random, path: &str) -> Step {
    let mut step = delete(path);
    step.body = match random.below(5) {
        0 => Some(json!({"gracePeriodSeconds": 0})),
        1 => Some(json!({"gracePeriodSeconds": 1})),
        2 => Some(json!({"gracePeriodSeconds": 60, "propagationPolicy": "Foreground"})),
        3 => Some(json!({"gracePeriodSeconds": -1})),
        _ => None,
    };
    step
}

fn spec(random: &mut Random, path: &str, name: &str) -> Step {
    match random.below(6) {
        0 => patch(path, JSON_PATCH, json!([{"op": "remove", "path": "/spec/schedulingGates"}])),
        1 => patch(
            path,
            STRATEGIC,
            json!({"spec": {"containers": [{"name": "c", "image": "image:3"}]}}),
        ),
        2 => patch(
            path,
            STRATEGIC,
            json!({"spec": {"containers": [{"name": "d", "image": "image:3"}]}}),
        ),
        3 => put(path, name)
            .setting("/spec/tolerations/-", json!({"key": "k", "operator": "Exists"})),
        4 => put(path, name).setting("/spec/terminationGracePeriodSeconds", 7.into()),
        _ => patch(path, MERGE, json!({"metadata": {"finalizers": ["example.com/hold"]}})),
    }
}

fn other_kinds(random: &mut Random) -> Step {
    let accounts = "/api/v1/namespaces/${ns}/serviceaccounts";
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    match random.below(9) {
        0 => post(accounts, json!({"metadata": {"name": "s"}})),
        1 => post(format!("{accounts}/nobody/token"), json!({"spec": {"audiences": ["a"]}})),
        2 => get(format!("{accounts}/s/token")),
        3 => put("/api/v1/namespaces/${ns}-x/finalize", "none"),
        4 => patch(
            "/api/v1/namespaces/${ns}/status",
            MERGE,
            json!({"status": {"phase": "Terminating"}}),
        ),
        5 => get("/api/v1/namespaces/${ns}/finalize"),
        6 => post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json!({"spec": {}})),
        7 => patch(format!("{requests}/${{ns}}/approval"), MERGE, json!({"status": {}})),
        _ => post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "no"}})),
    }
}
