//! `policy`: generates the table of the roles and bindings that kube-apiserver creates at start,
//! from a running upstream server.

use std::error::Error;
use std::io::Write as _;
use std::process::Command;

use evenkeel_upstream::{Cluster, UpstreamOptions, locate};
use serde_json::{Map, Value, json};

const TABLE: &str = "crates/evenkeel-apiserver/src/bootstrap/policy.jsonl";

/// The kinds in the order in which upstream creates their objects.
const KINDS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// The label and annotation that all of them have.
const COMMON: [(&str, &str); 2] = [
    ("labels", "kubernetes.io/bootstrapping"),
    ("annotations", "rbac.authorization.kubernetes.io/autoupdate"),
];

pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let binaries = locate()?;
    let kubectl = binaries.kubectl.clone().ok_or("kubectl is missing; see `upstream help`")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = runtime.block_on(Cluster::start(&binaries, &UpstreamOptions::default()))?;
    let mut lines = Vec::new();
    for plural in KINDS {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        let output = Command::new(&kubectl)
            .args(["get", "--raw", &path, "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .output()?;
        let list: Value = serde_json::from_slice(&output.stdout)?;
        for object in list["items"].as_array().into_iter().flatten() {
            lines.push(line(plural, object)?);
        }
    }
    drop(cluster);
    std::fs::write(TABLE, lines.join("\n") + "\n")?;
    writeln!(std::io::stdout(), "{} objects in {TABLE}", lines.len())?;
    Ok(())
}

/// Returns the line of an object: what it differs in from the others.
fn line(plural: &str, object: &Value) -> Result<String, Box<dyn Error>> {
    let metadata = &object["metadata"];
    let mut line = Map::new();
    line.insert("resource".into(), plural.into());
    for field in ["namespace", "name"] {
        if let Some(value) = metadata.get(field) {
            line.insert(field.into(), value.clone());
        }
    }
    for (field, common) in COMMON {
        let mut values = metadata[field].as_object().cloned().unwrap_or_default();
        values.remove(common).ok_or_else(|| format!("{metadata} has no {common}"))?;
        if !values.is_empty() {
            line.insert(field.into(), json!(values));
        }
    }
    for (field, value) in object.as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
            line.insert(field.clone(), value.clone());
        }
    }
    Ok(Value::Object(line).to_string())
}
