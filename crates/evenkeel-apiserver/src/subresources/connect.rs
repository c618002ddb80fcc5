//! Admission of connections to pods, nodes and services, such as exec.

use serde_json::{Value, json};

use crate::context::{Operation, RequestContext};
use crate::pipeline::{mutate, validate};
use crate::status::Status;

/// Admits a connection: plugins see its options.
pub(super) async fn admit(cx: &RequestContext) -> Result<(), Status> {
    let mut options = options(cx);
    mutate::unstored(cx, Operation::Connect, &mut options, None).await?;
    validate::unstored(cx, Operation::Connect, &mut options, None).await
}

/// Reads the options of a connection from the query.
fn options(cx: &RequestContext) -> Value {
    let gvk = cx.resource.gvk_of(cx.subresource.as_deref());
    let mut options = json!({"kind": gvk.kind, "apiVersion": gvk.api_version()});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if cx.query.flag(flag) {
            options[flag] = true.into();
        }
    }
    for text in ["container", "path"] {
        if let Some(value) = cx.query.get(text).filter(|value| !value.is_empty()) {
            options[text] = value.into();
        }
    }
    let command: Vec<&str> = cx.query.all("command").collect();
    if !command.is_empty() {
        options["command"] = command.into();
    }
    let ports: Vec<i64> = cx.query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = ports.into();
    }
    options
}
