//! Binding: a pod is put on a node, once.

use evenkeel_schema::field;
use evenkeel_types::Gvk;
use serde_json::Value;

use super::super::create::settle_namespace;
use super::super::update::precondition_failed;
use super::{done, set_condition};
use crate::call::Call;
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::decode;
use crate::pipeline::encode::Answer;
use crate::pipeline::persist::{self, Change};
use crate::pipeline::validate::Admitted;
use crate::query::WriteOptions;
use crate::status::{Named, Status};

const BINDING: Gvk<'static> = Gvk::new("", "v1", "Binding");

pub(super) async fn bind(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions", false)?;
    let mut binding = decode::of_kind(call, body, BINDING, options.field_validation)?;
    settle_namespace(call, &mut binding)?;
    assign(call, &binding, options.dry_run).await
}

/// The older way to bind: the pod is named in the body.
pub(in crate::verbs) async fn bind_by_body(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions", false)?;
    let mut binding = decode::of_kind(call, body, BINDING, options.field_validation)?;
    settle_namespace(call, &mut binding)?;
    // This is a resource of its own, and its uid is not for clients to say.
    set_meta(&mut binding, "uid", None);
    let mut call = call.at(&call.namespace);
    call.resource = call.core.builtin("", "pods").ok_or_else(Status::resource_not_found)?;
    call.name = Some(binding.meta_str("name").to_owned());
    call.subresource = Some("binding".into());
    assign(&call, &binding, options.dry_run).await
}

async fn assign(call: &Call, binding: &Value, dry_run: bool) -> Result<Answer, Status> {
    if binding.meta_str("name") != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = |field: &str| binding["target"][field].as_str().unwrap_or("");
    let mut errors = Vec::new();
    if !matches!(target("kind"), "" | "Node") {
        let supported = ["Node", "<empty>"];
        errors.push(field::Error::not_supported("target.kind", target("kind"), supported));
    }
    if target("name").is_empty() {
        errors.push(field::Error::required("target.name", ""));
    }
    // Upstream passes these on without making a refusal of them.
    match errors.as_slice() {
        [] => {}
        [one] => return Err(Status::bare(500, one.to_string())),
        many => {
            let texts: Vec<String> = many.iter().map(field::Error::to_string).collect();
            return Err(Status::bare(500, format!("[{}]", texts.join(", "))));
        }
    }
    persist::update(call, call.name(), dry_run, |old, _| {
        for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (given, stored) = (binding.meta_str(field), old.meta_str(field));
            if !given.is_empty() && given != stored {
                return Err(precondition_failed(call, shown, given, stored, dry_run));
            }
        }
        let name = call.name();
        let node = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
        let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let why = if old.is_deleting() {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !node.is_empty() {
            format!("pod {name} is already assigned to node {node:?}")
        } else if gates.is_some_and(|gates| !gates.is_empty()) {
            format!("pod {name} has non-empty .spec.schedulingGates")
        } else {
            // What is written is the binding: the pod has no new owner and needs no second check.
            let now = call.core.sources.timestamp();
            return Ok(Change::Write(Admitted::marked(bound(old, binding, &now))));
        };
        Err(Status::conflict(Named { group: "", kind: "pods/binding" }, name, &why))
    })
    .await?;
    Ok(done())
}

fn bound(pod: &Value, binding: &Value, now: &str) -> Value {
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
    }
    for field in ["labels", "annotations"] {
        let extra = binding.meta(field).and_then(Value::as_object);
        for (key, value) in extra.into_iter().flatten() {
            pod["metadata"][field][key] = value.clone();
        }
    }
    set_condition(&mut pod, "PodScheduled", "", "", now);
    pod
}
