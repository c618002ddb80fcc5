//! The FlowSchemas and PriorityLevelConfigurations that kube-apiserver creates at start.
//!
//! Each line of the table has the spec of an object and the fields that its manager owns, as read
//! from kube-apiserver 1.36. The objects are written to the tables directly, like those of
//! `policy.rs`. Existing ones are kept as they are, except for those whose spec is not theirs
//! alone to decide: the annotation `apf.kubernetes.io/autoupdate-spec` is `true` on them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::codec;
use crate::context::{Core, RequestContext};
use crate::flow_control::GROUP;
use crate::object::Metadata as _;
use crate::pipeline;
use crate::registry::resource::Part;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::Key;

const TABLE: &str = include_str!("flow_control.jsonl");

const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

#[derive(Deserialize)]
struct Line {
    resource: String,
    name: String,
    fields: Value,
    spec: Value,
}

/// Creates the missing objects, and resets the spec of existing ones unless it is exempt from that.
pub(super) async fn run(core: &Arc<Core>) -> Result<(), Status> {
    let mut writes = Vec::new();
    for line in TABLE.lines() {
        let line: Line = serde_json::from_str(line).map_err(Status::internal)?;
        let Some(resource) = core.builtin(GROUP, &line.resource) else { continue };
        let key = Key::new("", &line.name);
        if let Some(record) = resource.table.get(&key) {
            let stored = codec::value(&resource, &record)?;
            let annotation = stored.meta("annotations").and_then(|all| all.get(AUTO_UPDATE));
            let updates = annotation.and_then(Value::as_str) == Some("true");
            if updates && stored.get("spec") != Some(&line.spec) {
                let cx = RequestContext::internal(core, &resource, Verb::Update, &key, None);
                let reset = |object: &mut Value| object["spec"] = line.spec.clone();
                pipeline::update_internal(&cx, Part::Main, reset).await?;
            }
            continue;
        }
        let unsaved = codec::to_unsaved_record(&resource, line.object(core, &resource.kind))?;
        writes.push(async move { resource.table.create(key, unsaved).await });
    }
    super::create_all(writes).await?;
    core.flow_control.reload(&core.store);
    Ok(())
}

impl Line {
    fn object(self, core: &Core, kind: &str) -> Value {
        let now = core.clock_rng.timestamp();
        let version = format!("{GROUP}/v1");
        let mut managed = vec![json!({
            "manager": "api-priority-and-fairness-config-producer-v1",
            "operation": "Update", "apiVersion": version, "time": now,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields,
        })];
        let mut status = json!({});
        if self.resource == "flowschemas" {
            let level = &self.spec["priorityLevelConfiguration"]["name"];
            status = json!({"conditions": [{
                "type": "Dangling", "status": "False", "lastTransitionTime": now,
                "reason": "Found",
                "message": format!(
                    "This FlowSchema references the PriorityLevelConfiguration object named \
                     {level} and it exists"
                ),
            }]});
            let fields = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Dangling\"}": {
                ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {},
                "f:status": {}, "f:type": {},
            }}}});
            managed.insert(
                0,
                json!({
                    "manager": "api-priority-and-fairness-config-consumer-v1",
                    "operation": "Apply", "apiVersion": version, "time": now,
                    "fieldsType": "FieldsV1", "fieldsV1": fields, "subresource": "status",
                }),
            );
        }
        json!({
            "apiVersion": version,
            "kind": kind,
            "metadata": {
                "name": self.name,
                "uid": core.clock_rng.uid(),
                "generation": 1,
                "creationTimestamp": now,
                "annotations": {AUTO_UPDATE: "true"},
                "managedFields": managed,
            },
            "spec": self.spec,
            "status": status,
        })
    }
}
