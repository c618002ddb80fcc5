//! Subresources with their own semantics, such as binding, eviction and scale, and resources that
//! are not stored, such as reviews.

mod binding;

mod component_status;

mod connect;

mod eviction;

mod managed_fields;

mod review;

mod scale;

mod token;

use serde_json::{Value, json};

use crate::context::RequestContext;
use crate::pipeline::encode::Reply;
use crate::pipeline::persist;
use crate::request::negotiate::Output;
use crate::status::Status;

/// Subresources that are a part of their object: reads and writes of them are those of the object,
/// with other rules.
const PARTS: &[&str] = &["status", "finalize", "ephemeralcontainers", "resize", "approval"];

/// Returns whether a request is executed here, and not by the verbs of stored objects.
pub(crate) fn handles(cx: &RequestContext) -> bool {
    match cx.subresource.as_deref() {
        None => !cx.resource.is_stored(),
        Some(subresource) => !PARTS.contains(&subresource),
    }
}

pub(crate) async fn handle(
    cx: &RequestContext,
    output: Output,
    body: &[u8],
) -> Result<Reply, Status> {
    match (&*cx.resource.plural, cx.subresource.as_deref().unwrap_or("")) {
        ("bindings", "") => binding::bind_by_body(cx, body).await,
        ("componentstatuses", "") => component_status::handle(cx, output),
        (_, "") => review::handle(cx, body).await,
        (_, "scale") => scale::handle(cx, output, body).await,
        ("pods", "binding") => binding::bind(cx, body).await,
        ("pods", "eviction") => eviction::evict(cx, body).await,
        ("pods", "log") => {
            let pod = persist::current(cx, cx.name()).await?;
            let node = pod.object().pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
            Err(if node.is_empty() {
                Status::bad_request(format!("pod {} does not have a host assigned", cx.name()))
            } else {
                Status::not_implemented("no node runs behind this API server: there are no logs")
            })
        }
        ("serviceaccounts", "token") => token::request(cx, body).await,
        (plural, subresource) => {
            connect::admit(cx).await?;
            persist::current(cx, cx.name()).await?;
            Err(Status::not_implemented(format!(
                "{plural}/{subresource} needs a node or network behind the API server; there is \
                 none here"
            )))
        }
    }
}

/// Returns a Status with status `Success` and code 201.
fn done() -> Reply {
    Reply::Other(
        http::StatusCode::CREATED,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        }),
    )
}

/// Sets a condition of a pod to true; keeps the transition time if it was true before.
fn set_condition(pod: &mut Value, kind: &str, reason: &str, message: &str, now: &str) {
    let mut condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
    let Some(list) = pod["status"]["conditions"].as_array_mut() else {
        pod["status"]["conditions"] = json!([condition]);
        return;
    };
    match list.iter_mut().find(|existing| existing["type"] == kind) {
        Some(existing) => {
            if existing["status"] == "True" {
                condition["lastTransitionTime"] = existing["lastTransitionTime"].take();
            }
            *existing = condition;
        }
        None => list.push(condition),
    }
}
