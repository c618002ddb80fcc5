//! Subresources with their own semantics: binding, eviction, finalize, approval and others.

mod binding;

pub(crate) mod component_status;

mod eviction;

pub(crate) mod review;

pub(crate) mod scale;

use serde_json::{Value, json};

use crate::context::RequestContext;
use crate::pipeline::encode::Reply;
use crate::pipeline::update::current;
use crate::pipeline::{patch, update};
use crate::request::route::Verb;
use crate::status::Status;
use crate::verbs::get;

pub(crate) use binding::bind_by_body;

pub(crate) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let subresource = cx.subresource.as_deref().unwrap_or("");
    match (&*cx.resource.plural, subresource) {
        ("pods", "binding") => binding::bind(cx, body).await,
        ("pods", "eviction") => eviction::evict(cx, body).await,
        ("namespaces", "finalize")
        | ("pods", "ephemeralcontainers" | "resize")
        | ("certificatesigningrequests", "approval") => match cx.verb {
            Verb::Get => get::handle(cx),
            Verb::Update => update::handle(cx, body).await,
            Verb::Patch => patch::handle(cx, body).await,
            _ => Err(Status::method_not_allowed()),
        },
        ("pods", "log") => {
            let (_, pod) = current(cx)?;
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
            Err(if node.is_empty() {
                Status::bad_request(format!("pod {} does not have a host assigned", cx.name()))
            } else {
                Status::not_implemented("no node runs behind this API server: there are no logs")
            })
        }
        ("serviceaccounts", "token") => {
            current(cx)?;
            Err(Status::not_implemented("tokens of service accounts are not issued yet"))
        }
        (plural, subresource) => {
            current(cx)?;
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
