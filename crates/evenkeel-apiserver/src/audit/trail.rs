//! What is recorded of one request while it is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Audit;
use super::event::{AuthenticationMetadata, Event, UserInfo};
use super::policy::{Decision, Level, Stage};
use crate::identity::Identity;
use crate::json;
use crate::object::Metadata as _;
use crate::status::Status;

/// The audit annotations of a request, in the extensions of its response.
///
/// Admission webhooks add them; the keys are those of kube-apiserver, such as
/// `<webhook>/<annotation>` and `mutation.webhook.admission.k8s.io/round_0_index_0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditAnnotations(BTreeMap<String, String>);

impl AuditAnnotations {
    /// Returns the value of an annotation.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Iterates over the annotations, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns whether there are no annotations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects what the audit log records of a request. Clones share it.
///
/// Without a policy, or if the policy records nothing of the request, only annotations are kept.
#[derive(Clone, Default)]
pub(crate) struct AuditTrail(Arc<Trail>);

#[derive(Default)]
struct Trail {
    annotations: Mutex<BTreeMap<String, String>>,
    recorded: Option<Recorded>,
}

struct Recorded {
    audit: Arc<Audit>,
    level: Level,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
    is_long_running: bool,
    event: Mutex<Event>,
}

impl AuditTrail {
    /// Begins the record of a request.
    pub(crate) fn new(
        audit: &Arc<Audit>,
        decision: &Decision,
        is_long_running: bool,
        event: Event,
    ) -> Self {
        let recorded = Recorded {
            level: decision.level,
            omit_stages: decision.omit_stages.clone(),
            omit_managed_fields: decision.omit_managed_fields,
            is_long_running,
            audit: audit.clone(),
            event: Mutex::new(event),
        };
        Self(Arc::new(Trail { annotations: Mutex::default(), recorded: Some(recorded) }))
    }

    /// Returns whether the request is recorded at this level or a higher one.
    pub(crate) fn records(&self, level: Level) -> bool {
        self.0.recorded.as_ref().is_some_and(|recorded| recorded.level >= level)
    }

    /// Adds an annotation; an existing one is kept, as upstream does.
    pub(crate) fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.0.annotations.lock().entry(key.into()).or_insert_with(|| value.into());
    }

    /// Adds an annotation that is not recorded below [`Level::Request`].
    pub(crate) fn annotate_request(&self, key: String, value: String) {
        if self.0.recorded.is_none() || self.records(Level::Request) {
            self.annotate(key, value);
        }
    }

    /// Returns the annotations that admission added, if there are any.
    pub(crate) fn annotations(&self) -> Option<AuditAnnotations> {
        let mut annotations = self.0.annotations.lock().clone();
        annotations.retain(|key, _| !key.starts_with("authorization.k8s.io/"));
        (!annotations.is_empty()).then_some(AuditAnnotations(annotations))
    }

    /// Records the decision of the authorizer.
    pub(crate) fn decided(&self, decision: &str, reason: &str) {
        self.annotate("authorization.k8s.io/decision", decision);
        self.annotate("authorization.k8s.io/reason", reason);
    }

    /// Records the user that the request continues as, and the verb that allowed it, if it is one
    /// of constrained impersonation.
    pub(crate) fn impersonated(&self, user: &Identity, constraint: &str) {
        self.edit(|event| {
            event.impersonated_user = Some(UserInfo::from(user));
            event.authentication_metadata = (!constraint.is_empty()).then(|| {
                AuthenticationMetadata { impersonation_constraint: constraint.to_owned() }
            });
        });
    }

    /// Records the decoded object of the request.
    pub(crate) fn request_object(&self, object: &Value) {
        let Some(recorded) = &self.0.recorded else { return };
        let body = self.records(Level::Request).then(|| recorded.encode(object)).flatten();
        self.edit(|event| {
            if let Some(reference) = &mut event.object_ref {
                for (field, key) in [
                    (&mut reference.namespace, "namespace"),
                    (&mut reference.name, "name"),
                    (&mut reference.uid, "uid"),
                    (&mut reference.resource_version, "resourceVersion"),
                ] {
                    if field.is_empty() {
                        object.meta_str(key).clone_into(field);
                    }
                }
            }
            event.request_object = body;
        });
    }

    /// Records the body of a patch: JSON, or the YAML of a server-side apply.
    pub(crate) fn request_patch(&self, body: &[u8]) {
        if !self.records(Level::Request) {
            return;
        }
        let raw = serde_json::from_slice::<Box<RawValue>>(body).ok().or_else(|| {
            let value = crate::yaml::decode(body).ok()?;
            serde_json::value::to_raw_value(&value).ok()
        });
        self.edit(|event| event.request_object = raw);
    }

    /// Records an error response.
    pub(crate) fn failed(&self, status: &Status) {
        if self.0.recorded.is_none() || status.plain_text().is_some() {
            return;
        }
        let value = status.to_value();
        self.response_object(&value);
    }

    /// Records the object of a response.
    pub(crate) fn response_object(&self, object: &Value) {
        let Some(recorded) = &self.0.recorded else { return };
        let body = self.records(Level::RequestResponse).then(|| recorded.encode(object)).flatten();
        let status = (object["kind"] == "Status").then(|| {
            let mut status = object.as_object().cloned().unwrap_or_default();
            status.remove("kind");
            status.remove("apiVersion");
            status.insert("metadata".to_owned(), json!({}));
            status
        });
        self.edit(|event| {
            if let Some(status) = status {
                event.response_status = Some(Value::Object(status));
            }
            event.response_object = body;
        });
    }

    /// Records the code of the response, and for watches that it starts.
    pub(crate) fn responded(&self, code: u16) {
        let Some(recorded) = &self.0.recorded else { return };
        self.edit(|event| {
            let status = event.response_status.get_or_insert_with(|| json!({"metadata": {}}));
            status["code"] = code.into();
        });
        if recorded.is_long_running {
            self.send(Stage::ResponseStarted);
        }
    }

    fn edit(&self, change: impl FnOnce(&mut Event)) {
        if let Some(recorded) = &self.0.recorded {
            change(&mut recorded.event.lock());
        }
    }

    pub(crate) fn send(&self, stage: Stage) {
        if let Some(recorded) = &self.0.recorded {
            let annotations = self.0.annotations.lock().clone();
            recorded.send(stage, &annotations);
        }
    }
}

impl Recorded {
    fn send(&self, stage: Stage, annotations: &BTreeMap<String, String>) {
        if self.omit_stages.contains(&stage) {
            return;
        }
        let mut event = self.event.lock();
        event.stage = stage;
        if stage != Stage::RequestReceived {
            event.stage_timestamp = self.audit.clock.now();
        }
        event.annotations.clone_from(annotations);
        self.audit.send(&event);
    }

    fn encode(&self, object: &Value) -> Option<Box<RawValue>> {
        let text = if self.omit_managed_fields {
            let mut object = object.clone();
            remove_managed_fields(&mut object);
            json::to_bytes(&object)
        } else {
            json::to_bytes(object)
        };
        RawValue::from_string(String::from_utf8(text).ok()?).ok()
    }
}

/// Removes the managed fields of an object, of the items of a list and of the rows of a table.
fn remove_managed_fields(object: &mut Value) {
    let remove = |object: &mut Value| {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
    };
    remove(object);
    for list in ["items", "rows"] {
        if let Some(Value::Array(items)) = object.get_mut(list) {
            for item in items {
                match list {
                    "items" => remove(item),
                    _ => remove(item.get_mut("object").unwrap_or(&mut Value::Object(Map::new()))),
                }
            }
        }
    }
}

/// Records the end of a response when it is dropped: after its last byte, or when the client is
/// gone.
pub(crate) struct Completion(AuditTrail);

impl Completion {
    pub(crate) fn new(trail: AuditTrail) -> Self {
        Self(trail)
    }

    pub(crate) fn trail(&self) -> AuditTrail {
        self.0.clone()
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let Some(recorded) = &self.0.0.recorded else { return };
        let is_early = recorded.event.lock().response_status.is_none();
        if is_early {
            self.0.edit(|event| {
                event.response_status = Some(json!({
                    "metadata": {}, "status": "Success", "message": "Connection closed early",
                    "code": 200,
                }));
            });
            if recorded.is_long_running {
                self.0.send(Stage::ResponseStarted);
            }
        }
        self.0.send(Stage::ResponseComplete);
    }
}
