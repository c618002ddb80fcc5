//! The operator under simulated faults.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use appservice::dns::Zone;
use appservice::operator::{AppService, AppServices};
use kube::ResourceExt as _;
use serde_json::{Value, json};

const WEB: &str = "{apiVersion: apps.example.com/v1, kind: AppService, metadata: {name: web}, \
                   spec: {replicas: 2, image: shop, secret: keys}}";

/// Created later: the operator waits for it.
const KEYS: &str = "{apiVersion: v1, kind: Secret, metadata: {name: keys}}";

#[test]
fn operator_survives_faults() {
    evenkeel_sim::operator("appservice", |manager| AppServices { zone: zone() }.register(manager))
        .install::<AppService>()
        .sample(WEB)
        .sample(KEYS)
        // Rejected by the webhook.
        .patch::<AppService>("web", json!({"spec": {"image": "a shop"}}))
        .patch::<AppService>("web", json!({"spec": {"secret": null}}))
        .expect(expected)
        .invariant("the zone has the records of the applications", records)
        .check();
}

/// Returns the zone of the run. A run has one thread.
fn zone() -> Zone {
    let directory = format!("faults/{:?}", thread::current().id());
    Zone::new(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(directory)).unwrap()
}

/// Returns what an application consists of.
fn expected(app: &AppService, objects: &[&Value]) -> Vec<Value> {
    let (name, spec) = (app.name_any(), &app.spec);
    let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let mut itself = of("apps.example.com/v1", "AppService");
    if spec.secret.is_none() || spec.image.contains(' ') || !spec.image.ends_with(":latest") {
        itself["spec"] = "valid and with a tag".into();
        return vec![itself];
    }
    let secret = |object: &&&Value| {
        object["kind"] == "Secret" && object["metadata"]["name"].as_str() == spec.secret.as_deref()
    };
    if objects.iter().find(secret).is_none() {
        itself["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        return vec![itself];
    }
    itself["status"] = json!({
        "readyReplicas": spec.replicas,
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    let labels = json!({"app.kubernetes.io/name": name});
    let variables = spec.secret.as_ref().map(|name| json!([{"secretRef": {"name": name}}]));
    let mut deployment = of("apps/v1", "Deployment");
    deployment["metadata"]["labels"] = labels.clone();
    deployment["spec"] = json!({
        "replicas": spec.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
            "name": "app",
            "image": spec.image,
            "ports": [{"containerPort": 8080}],
            "envFrom": variables,
        }]}},
    });
    let mut service = of("v1", "Service");
    service["metadata"]["labels"] = labels.clone();
    service["spec"] = json!({"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]});
    vec![itself, deployment, service]
}

/// Checks that the zone has a record for each application with a Service, and no other.
fn records(objects: &[&Value]) -> Result<(), String> {
    let mut expected = BTreeMap::new();
    for service in objects.iter().filter(|object| object["kind"] == "Service") {
        let text = |field: &str| service["metadata"][field].as_str().unwrap_or_default().to_owned();
        let name = format!("{}.{}", text("name"), text("namespace"));
        expected.insert(format!("{name}.example.com"), format!("{name}.svc.cluster.local"));
    }
    let zone = zone();
    let entries = std::fs::read_dir(zone.dir()).map_err(|error| error.to_string())?;
    let hosts = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let found: BTreeMap<String, String> = hosts
        .map(|host| (host.clone(), std::fs::read_to_string(zone.dir().join(host))))
        .map(|(host, target)| (host, target.unwrap_or_default()))
        .collect();
    match found == expected {
        true => Ok(()),
        false => Err(format!("the records are {found:?}, expected {expected:?}")),
    }
}
