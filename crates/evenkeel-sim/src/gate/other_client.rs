//! Other clients: they touch, edit, delete and recreate the objects of the operator, and evict its
//! pods.

use serde_json::{Value, json};

use super::service::OperatorService;
use super::{Call, Write};
use crate::state;
use crate::trace::Lane;

/// What a client does with an object that the operator has just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherWrite {
    Delete,
    Recreate,
    Edit,
    Evict,
}

impl OperatorService {
    /// Changes the object as another client.
    pub(super) async fn touch(&self, call: &Call) {
        if call.name.is_empty() {
            return;
        }
        let value = self.gate.cluster.server().revision().to_string();
        let patch = json!({"metadata": {"annotations": {state::TOUCHED: value}}});
        if self.gate.user.merge(&call.path, &patch).await.is_ok() {
            let text = format!("another client touches {} {}", call.resource, call.object());
            self.gate.recorder.fault(Lane::User, text);
        }
    }

    /// Deletes, recreates, edits or evicts the object of the last write. `sent` is the body of the request.
    pub(super) async fn write_as_other_client(
        &self,
        call: &Call,
        sent: &Value,
        other_write: OtherWrite,
    ) {
        let last = self.gate.state.lock().requests.writes.last().cloned();
        let Some(write) = last else { return };
        let path = match call.name.is_empty() {
            true => format!("{}/{}", call.path, write.name),
            false => call.path.clone(),
        };
        match other_write {
            OtherWrite::Edit => self.edit(&path, sent, &write).await,
            OtherWrite::Evict => self.evict(&path, &write).await,
            OtherWrite::Delete => drop(self.delete(&path, &write).await),
            OtherWrite::Recreate => {
                let Some(mut object) = self.delete(&path, &write).await else { return };
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.retain(|field, _| matches!(&**field, "name" | "namespace" | "labels"));
                }
                if self.gate.user.create(&object).await.is_ok() {
                    self.record(format!("another client creates {}", write.object()));
                }
            }
        }
    }

    async fn delete(&self, path: &str, write: &Write) -> Option<Value> {
        let object = self.gate.user.get(path).await?;
        self.gate.user.delete(path).await.ok()?;
        self.record(format!("another client deletes {}", write.object()));
        Some(object)
    }

    /// Fails a pod as a kubelet does whose node is short of memory.
    async fn evict(&self, path: &str, write: &Write) {
        let message = "The node was low on resource: memory.";
        let status = json!({"phase": "Failed", "reason": "Evicted", "message": message});
        let patch = json!({"status": status});
        if self.gate.user.merge(&format!("{path}/status"), &patch).await.is_ok() {
            self.record(format!("the node evicts {}", write.object()));
        }
    }

    /// Changes the first field of the request that the server allows to be changed.
    async fn edit(&self, path: &str, sent: &Value, write: &Write) {
        let mut edits = Vec::new();
        for part in ["data", "spec"] {
            edits_of(&sent[part], &mut vec![part.to_owned()], &mut edits);
        }
        for (field, value) in edits {
            let patch = crate::workload::patch_at(&field, value.clone());
            let before = self.gate.cluster.server().revision();
            if self.gate.user.merge(path, &patch).await.is_ok()
                && self.gate.cluster.server().revision() > before
            {
                let (object, field) = (write.object(), field.join("."));
                self.record(format!("another client sets {field} of {object} to {value}"));
                return;
            }
        }
    }

    fn record(&self, text: String) {
        self.gate.recorder.fault(Lane::User, text);
    }
}

/// Collects other values of the fields below `value`. Elements of lists are left out: a merge patch
/// replaces the whole list.
fn edits_of(value: &Value, path: &mut Vec<String>, edits: &mut Vec<(Vec<String>, Value)>) {
    let edit = match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                path.push(name.clone());
                edits_of(value, path, edits);
                path.pop();
            }
            return;
        }
        Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 1),
        Value::Bool(flag) => json!(!flag),
        Value::String(text) => json!(format!("{text}-edited")),
        Value::Array(_) | Value::Null => return,
    };
    edits.push((path.clone(), edit));
}
