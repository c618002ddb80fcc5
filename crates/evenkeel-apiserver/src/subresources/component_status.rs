//! ComponentStatus: the health of control plane components. Not stored, read only.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::context::RequestContext;
use crate::pipeline::encode::{self, Include, Reply};
use crate::request::negotiate::{Output, View};
use crate::request::route::Verb;
use crate::status::Status;

/// The components that upstream probes, with their ports. etcd is part of this server, and so
/// always healthy here.
const PROBED: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];

/// Returns why a component is not healthy.
fn failure(cx: &RequestContext, name: &str, port: u16) -> Option<String> {
    (!cx.core.components.is_running(name)).then(|| {
        format!(
            "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: \
             connection refused"
        )
    })
}

pub(crate) fn handle(cx: &RequestContext, output: Output) -> Result<Reply, Status> {
    let probed = PROBED.map(|(name, port)| (name, failure(cx, name, port)));
    let all = probed.into_iter().chain([("etcd-0", None)]);
    let mut all = all.map(|(name, failure)| status(name, failure));
    match (cx.verb, cx.name()) {
        (Verb::Get, name) => match all.find(|status| status["metadata"]["name"] == name) {
            Some(status) => Ok(Reply::Object(StatusCode::OK, status)),
            None => Err(Status::not_found(cx.resource.group_resource(), name)),
        },
        (Verb::List, _) => Ok(Reply::Other(StatusCode::OK, list(cx, output, all)?)),
        _ => Err(Status::method_not_allowed()),
    }
}

fn status(name: &str, failure: Option<String>) -> Value {
    let healthy = if failure.is_none() { "True" } else { "False" };
    let message = failure.unwrap_or_else(|| "ok".to_owned());
    json!({
        "kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": healthy, "message": message}],
    })
}

fn list(
    cx: &RequestContext,
    output: Output,
    all: impl Iterator<Item = Value>,
) -> Result<Value, Status> {
    let shown = match output.view {
        View::Table => {
            let include = Include::parse(&cx.query)?;
            let now = cx.core.clock_rng.now();
            let rows = all.map(|status| encode::to_row(&cx.resource, &status, now, include));
            let columns = encode::table_definitions(&cx.resource);
            encode::table(Map::new(), Some(columns), rows.collect())
        }
        View::Metadata | View::MetadataList => {
            let items = all.map(|status| encode::to_metadata(cx.resource.gvk(), &status));
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {}, "items": items.collect::<Vec<_>>(),
            })
        }
        View::Object => {
            let items = all.map(|status| {
                json!({"metadata": status["metadata"], "conditions": status["conditions"]})
            });
            return Ok(json!({
                "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {},
                "items": items.collect::<Vec<_>>(),
            }));
        }
    };
    Ok(encode::in_version(output.beta, shown))
}
