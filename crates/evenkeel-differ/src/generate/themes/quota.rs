//! Requests within and beyond a random ResourceQuota, with a LimitRange in some sequences.
//!
//! Without controllers the sequence writes the status of the quota; the servers then count what is
//! created. Each object has a name of its own: kube-apiserver leaves the charge of an object whose
//! name exists to the controller. No object exceeds two quotas, of which kube-apiserver names any.

use serde_json::{Value, json};

use super::super::random::Random;
use super::{JSON_PATCH, MERGE, STRATEGIC, delete, get, patch, post};
use crate::sequence::{Step, Until};

const QUOTAS: &str = "/api/v1/namespaces/${ns}/resourcequotas";

/// What a quota may limit, with small limits.
const HARD: [(&str, &[&str]); 16] = [
    ("configmaps", &["1", "3"]),
    ("pods", &["1", "2", "4"]),
    ("requests.cpu", &["1", "500m"]),
    ("cpu", &["1", "1500m"]),
    ("limits.memory", &["1Gi", "100Mi"]),
    ("requests.memory", &["256Mi", "1G"]),
    ("services", &["1", "2"]),
    ("services.nodeports", &["0", "1"]),
    ("services.loadbalancers", &["0", "1"]),
    ("persistentvolumeclaims", &["1", "2"]),
    ("requests.storage", &["2Gi", "5Gi"]),
    ("gold.storageclass.storage.k8s.io/requests.storage", &["1Gi"]),
    ("count/deployments.apps", &["1"]),
    ("count/widgets.shared.differ.test", &["1", "2"]),
    ("count/configmaps", &["2"]),
    ("requests.ephemeral-storage", &["1Gi"]),
];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut hard = json!({"secrets": "0"});
    for _ in 0..3 + random.below(5) {
        let (name, limits) = *random.pick(&HARD);
        hard[name] = (*random.pick(limits)).into();
    }
    // A quota of pods only; it cannot limit anything else. The other one then does not limit pods.
    let scoped = random.percent(20);
    if scoped && let Some(hard) = hard.as_object_mut() {
        let of_pods = ["pods", "cpu", "memory", "ephemeral-storage"];
        hard.retain(|name, _| {
            let resource = name.split_once('.').map_or(name.as_str(), |(_, rest)| rest);
            !of_pods.contains(&name.as_str()) && !of_pods.contains(&resource)
        });
    }
    let scope = *random.pick(&["BestEffort", "NotBestEffort", "Terminating", "NotTerminating"]);
    let mut steps = Vec::new();
    if random.percent(30) {
        steps.push(limit_range(random));
    }
    steps.push(post(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": &hard}})));
    steps.push(status("q", &hard));
    if scoped {
        let hard = json!({"pods": "1"});
        let spec = json!({"hard": hard, "scopes": [scope]});
        steps.push(post(QUOTAS, json!({"metadata": {"name": "scoped"}, "spec": spec})));
        steps.push(status("scoped", &hard));
    }
    // kube-apiserver notices the quota after a delay.
    let probe =
        post("/api/v1/namespaces/${ns}/secrets?dryRun=All", json!({"metadata": {"name": "probe"}}));
    let until = Until { status: Some(403), ..Until::default() };
    steps.push(Step { until: Some(until), ..probe });
    while steps.len() < 38 {
        let name = format!("object-{}", steps.len());
        let earlier = format!("object-{}", random.below(steps.len()));
        steps.push(match random.below(14) {
            0..=3 => pod(random, &name),
            4 | 5 => counted(random, &name),
            6 => service(random, &name, &earlier),
            7 | 8 => claim(random, &name),
            9 => changed(random, &earlier),
            10 => deletion(random, &earlier),
            11 => resized(random, &earlier),
            12 => get(format!("{QUOTAS}/q")),
            _ => invalid(random),
        });
    }
    steps.push(get(QUOTAS));
    steps
}

fn status(name: &str, hard: &Value) -> Step {
    let used = hard.as_object().into_iter().flatten();
    let used: serde_json::Map<String, Value> =
        used.map(|(name, _)| (name.clone(), "0".into())).collect();
    let body = json!({"status": {"hard": hard, "used": used}});
    patch(format!("{QUOTAS}/{name}/status"), MERGE, body)
}

fn limit_range(random: &mut Random) -> Step {
    let mut limit = json!({"type": "Container"});
    let fields = ["default", "defaultRequest", "max", "min"];
    for _ in 0..1 + random.below(2) {
        let field = *random.pick(&fields);
        limit[field] = json!({"cpu": *random.pick(&["100m", "200m"]), "memory": "64Mi"});
    }
    post(
        "/api/v1/namespaces/${ns}/limitranges",
        json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}}),
    )
}

fn quantities(random: &mut Random) -> Value {
    let mut resources = json!({});
    for field in ["requests", "limits"] {
        if random.percent(70) {
            resources[field]["cpu"] = (*random.pick(&["100m", "600m", "2", "0.1"])).into();
        }
        if random.percent(60) {
            resources[field]["memory"] = (*random.pick(&["10Mi", "64Mi", "2Gi", "1e6"])).into();
        }
        if random.percent(10) {
            resources[field]["ephemeral-storage"] = "1Mi".into();
        }
    }
    resources
}

fn pod(random: &mut Random, name: &str) -> Step {
    let mut spec = json!({"containers": [
        {"name": "c", "image": "i", "resources": quantities(random)},
    ]});
    match random.below(8) {
        0 => {
            spec["initContainers"] = json!([
                {"name": "i", "image": "i", "resources": quantities(random)},
            ])
        }
        1 => spec["activeDeadlineSeconds"] = 30.into(),
        2 => spec["containers"][0]["resources"] = json!({}),
        3 => spec["overhead"] = json!({"cpu": "10m"}),
        _ => {}
    }
    let query = *random.pick(&["", "", "", "?dryRun=All"]);
    post(
        format!("/api/v1/namespaces/${{ns}}/pods{query}"),
        json!({"metadata": {"name": name}, "spec": spec}),
    )
}

fn counted(random: &mut Random, name: &str) -> Step {
    match random.below(3) {
        0 => post(
            "/apis/shared.differ.test/v1/namespaces/${ns}/widgets",
            json!({
                "apiVersion": "shared.differ.test/v1", "kind": "Widget",
                "metadata": {"name": name}, "spec": {"color": "red"},
            }),
        ),
        1 => post(
            "/apis/apps/v1/namespaces/${ns}/deployments",
            json!({"metadata": {"name": name}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            }}),
        ),
        _ => post(
            "/api/v1/namespaces/${ns}/configmaps",
            json!({"metadata": {"name": name}, "data": {"k": "v"}}),
        ),
    }
}

fn service(random: &mut Random, name: &str, earlier: &str) -> Step {
    let kind = *random.pick(&["ClusterIP", "NodePort", "LoadBalancer"]);
    let spec = json!({"type": kind, "ports": [{"port": 80}]});
    match random.below(3) {
        0 => patch(
            format!("/api/v1/namespaces/${{ns}}/services/{earlier}"),
            MERGE,
            json!({"spec": {"type": kind}}),
        ),
        _ => post(
            "/api/v1/namespaces/${ns}/services",
            json!({"metadata": {"name": name}, "spec": spec}),
        ),
    }
}

fn claim(random: &mut Random, name: &str) -> Step {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": *random.pick(&["1Gi", "2Gi", "9Gi", "1"])}},
    });
    if random.percent(60) {
        spec["storageClassName"] = (*random.pick(&["gold", "silver", ""])).into();
    }
    post(
        "/api/v1/namespaces/${ns}/persistentvolumeclaims",
        json!({"metadata": {"name": name}, "spec": spec}),
    )
}

/// A change that costs nothing.
fn changed(random: &mut Random, name: &str) -> Step {
    let plural = *random.pick(&["configmaps", "pods", "services"]);
    let labels = json!({"metadata": {"labels": {"app": *random.pick(&["x", "y"])}}});
    patch(format!("/api/v1/namespaces/${{ns}}/{plural}/{name}"), MERGE, labels)
}

fn deletion(random: &mut Random, name: &str) -> Step {
    let plural = *random.pick(&["configmaps", "pods", "services"]);
    delete(format!("/api/v1/namespaces/${{ns}}/{plural}/{name}?gracePeriodSeconds=0"))
}

fn resized(random: &mut Random, name: &str) -> Step {
    let resources = quantities(random);
    let body = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    patch(format!("/api/v1/namespaces/${{ns}}/pods/{name}/resize"), STRATEGIC, body)
}

/// A quota that is not valid, or a change that is not.
fn invalid(random: &mut Random) -> Step {
    let spec = match random.below(6) {
        0 => json!({"hard": {"unknown": "1"}}),
        1 => json!({"hard": {"pods": "-1"}}),
        2 => json!({"hard": {"pods": "1.5"}}),
        3 => json!({"hard": {"services": "1"}, "scopes": ["BestEffort"]}),
        4 => json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}),
        _ => {
            let change = json!([{"op": "add", "path": "/spec/scopes", "value": ["BestEffort"]}]);
            return patch(format!("{QUOTAS}/q"), JSON_PATCH, change);
        }
    };
    post(format!("{QUOTAS}?dryRun=All"), json!({"metadata": {"name": "bad"}, "spec": spec}))
}
