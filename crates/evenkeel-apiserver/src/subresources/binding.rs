//! Binding: assigns a pod to a node.

use evenkeel_schema::field;
use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::managed_fields::SentKind;
use super::{done, set_condition};
use crate::context::{Operation, RequestContext};
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::checks::{check_namespace, precondition_failed};
use crate::pipeline::encode::Reply;
use crate::pipeline::{self, decode, mutate, validate};
use crate::request::query::WriteOptions;
use crate::status::{GroupResource, Status};

const BINDING: Gvk<'static> = Gvk::new("", "v1", "Binding");
static SENT: SentKind = SentKind::new(BINDING);

pub(super) async fn bind(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let mut binding = decode::of_kind(cx, body, BINDING, options.field_validation)?;
    check_namespace(cx, &mut binding)?;
    set_managed_fields(cx, &mut binding, &options);
    mutate::unstored(cx, Operation::Create, &mut binding, None).await?;
    assign(cx, cx, binding, options.dry_run).await
}

/// Binds by the legacy resource: the body contains the name of the pod.
pub(crate) async fn bind_by_body(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let mut binding = decode::of_kind(cx, body, BINDING, options.field_validation)?;
    check_namespace(cx, &mut binding)?;
    // The uid is that of the Binding, which clients cannot set.
    set_meta(&mut binding, "uid", None);
    set_managed_fields(cx, &mut binding, &options);
    mutate::unstored(cx, Operation::Create, &mut binding, None).await?;
    let admission = cx;
    let pods = cx.core.builtin("", "pods").ok_or_else(Status::resource_not_found)?;
    let mut cx = cx.in_namespace(&cx.namespace).on_resource(pods);
    cx.name = Some(binding.meta_str("name").to_owned());
    cx.subresource = Some("binding".into());
    assign(admission, &cx, binding, options.dry_run).await
}

fn set_managed_fields(cx: &RequestContext, binding: &mut Value, options: &WriteOptions) {
    let empty = json!({"metadata": {}, "target": {}});
    SENT.set_managed_fields(cx, binding, empty, options);
}

/// Assigns the pod of `cx`; `admission` is the request that plugins see.
async fn assign(
    admission: &RequestContext,
    cx: &RequestContext,
    mut binding: Value,
    dry_run: bool,
) -> Result<Reply, Status> {
    if binding.meta_str("name") != cx.name() {
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
    // Upstream returns these errors without a reason.
    match errors.as_slice() {
        [] => {}
        [one] => return Err(Status::without_reason(500, one.to_string())),
        many => {
            let texts: Vec<String> = many.iter().map(field::Error::to_string).collect();
            return Err(Status::without_reason(500, format!("[{}]", texts.join(", "))));
        }
    }
    validate::unstored(admission, Operation::Create, &mut binding, None).await?;
    let binding = &binding;
    pipeline::update_stored(cx, dry_run, |old| {
        for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (given, stored) = (binding.meta_str(field), old.meta_str(field));
            if !given.is_empty() && given != stored {
                return Err(precondition_failed(cx, shown, given, stored, dry_run));
            }
        }
        let name = cx.name();
        let node = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
        let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let why = if old.is_deleting() {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if !node.is_empty() {
            format!("pod {name} is already assigned to node {node:?}")
        } else if gates.is_some_and(|gates| !gates.is_empty()) {
            format!("pod {name} has non-empty .spec.schedulingGates")
        } else {
            // Only the binding is written: managed fields do not change, and admission does not run
            // again.
            let now = cx.core.clock_rng.timestamp();
            return Ok(bound(old, binding, &now));
        };
        Err(Status::conflict(GroupResource { group: "", resource: "pods/binding" }, name, &why))
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
