//! ComponentStatus: whether the parts of a control plane are healthy. Not stored, read only.

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::negotiate::{Output, View};
use crate::pipeline::encode::{self, Answer, Include};
use crate::route::Verb;
use crate::status::Status;

/// The components that upstream probes, and the ports it probes them at. etcd is part of this
/// server, which answers, so it is healthy.
const PROBED: [(&str, u16); 2] = [("controller-manager", 10257), ("scheduler", 10259)];

/// The components that run beside the server.
#[derive(Default)]
pub(crate) struct Components(Mutex<Vec<String>>);

impl Components {
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().push(name.to_owned());
    }

    /// Why a component is not healthy.
    fn failure(&self, name: &str, port: u16) -> Option<String> {
        let running = self.0.lock().iter().any(|running| running == name);
        (!running).then(|| {
            format!(
                "Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: \
                 connection refused"
            )
        })
    }
}

pub(super) fn answer(call: &Call, output: Output) -> Result<Answer, Status> {
    let probed = PROBED.map(|(name, port)| (name, call.core.components.failure(name, port)));
    let all = probed.into_iter().chain([("etcd-0", None)]);
    let mut all = all.map(|(name, failure)| status(name, failure));
    match (call.verb, call.name()) {
        (Verb::Get, name) => match all.find(|status| status["metadata"]["name"] == name) {
            Some(status) => Ok(Answer::Object(StatusCode::OK, status)),
            None => Err(Status::not_found(call.resource.named(), name)),
        },
        (Verb::List, _) => Ok(Answer::Other(StatusCode::OK, list(call, output, all)?)),
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

fn list(call: &Call, output: Output, all: impl Iterator<Item = Value>) -> Result<Value, Status> {
    let shown = match output.view {
        View::Table => {
            let include = Include::parse(&call.query)?;
            let now = call.core.sources.now();
            let rows = all.map(|status| encode::to_row(&call.resource, &status, now, include));
            let columns = encode::table_definitions(&call.resource);
            encode::table(Map::new(), Some(columns), rows.collect())
        }
        View::Metadata | View::MetadataList => {
            let items = all.map(|status| encode::to_metadata(call.resource.gvk(), &status));
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {}, "items": items.collect::<Vec<_>>(),
            })
        }
        View::Whole => {
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
