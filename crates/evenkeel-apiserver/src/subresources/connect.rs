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

/// Reads the options of a connection from the query, and the path of a proxied request from the URL.
fn options(cx: &RequestContext) -> Value {
    let subresource = cx.subresource.as_deref().unwrap_or_default();
    let gvk = cx.resource.gvk_of(Some(subresource));
    let mut options = json!({"kind": gvk.kind, "apiVersion": gvk.api_version()});
    if matches!(subresource, "exec" | "attach") {
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if cx.query.flag(flag) {
                options[flag] = true.into();
            }
        }
        if let Some(container) = cx.query.get("container").filter(|value| !value.is_empty()) {
            options["container"] = container.into();
        }
    }
    match subresource {
        "exec" => {
            let command: Vec<&str> = cx.query.all("command").collect();
            options["command"] = if command.is_empty() { Value::Null } else { command.into() };
        }
        "portforward" => {
            let ports = cx.query.all("ports").filter_map(|port| port.parse::<i32>().ok());
            let ports: Vec<i32> = ports.collect();
            if !ports.is_empty() {
                options["ports"] = ports.into();
            }
        }
        "proxy" if !cx.subpath.is_empty() => options["path"] = (&*cx.subpath).into(),
        _ => {}
    }
    options
}
