//! Telling how an object is.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Stored;
use kube::core::object::HasStatus;
use serde_json::{Map, Value, json};

use crate::client::Error;
use crate::condition::Condition;
use crate::controller::Context;
use crate::key::Key;
use crate::kind::Object;

/// A status in the making; see [`Context::status`].
#[must_use = "a status is sent by `write`"]
pub struct Status<'a, K> {
    context: &'a Context<K>,
    object: &'a K,
    conditions: Vec<Condition>,
    /// The author's part, made from the typed status.
    set: Option<Result<Value, serde_json::Error>>,
}

impl<K: Object> Context<K> {
    /// Begins to tell how `object` is:
    /// `cx.status(&app).condition(Condition::yes("Available", "Up", "")).write().await?`.
    ///
    /// The framework fills in what must not be forgotten: which generation the conditions speak of,
    /// when they last changed, and `observedGeneration` where the status has such a field. Nothing
    /// is sent when it would change nothing.
    pub fn status<'a>(&'a self, object: &'a K) -> Status<'a, K> {
        Status { context: self, object, conditions: Vec::new(), set: None }
    }
}

impl<'a, K: Object> Status<'a, K> {
    /// Adds a condition.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Sets fields of the typed status, starting from what it is.
    pub fn set(mut self, change: impl FnOnce(&mut K::Status)) -> Self
    where
        K: HasStatus<Status: Clone + Default + serde::Serialize>,
    {
        let mut status = self.object.status().cloned().unwrap_or_default();
        change(&mut status);
        self.set = Some(serde_json::to_value(&status));
        self
    }

    /// Sends it, unless nothing changes; gives the object as it is then.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn write(self) -> Result<Option<Arc<K>>, Error> {
        let cx = self.context;
        let key = Key::of(self.object);
        let present = match serde_json::to_value(self.object) {
            Ok(Value::Object(object)) => object,
            _ => Map::new(),
        };
        let old = present.get("status").cloned().unwrap_or(Value::Null);
        let status = match self.set {
            Some(Ok(status)) => status,
            Some(Err(error)) => {
                let write = cx.client().subresource::<K>(&key, "status").apply_value::<K>(old);
                return write.refuse(error.to_string()).await.map(Some);
            }
            None => old.clone(),
        };
        let mut status = match status {
            Value::Object(status) => status,
            _ => Map::new(),
        };
        let generation = self.object.meta().generation;
        if !self.conditions.is_empty() {
            let stored = status.get("conditions").cloned().unwrap_or_default();
            let mut stored: Vec<Stored> = serde_json::from_value(stored).unwrap_or_default();
            for condition in &self.conditions {
                condition.set(&mut stored, generation, cx.clock().now());
            }
            status.insert("conditions".to_owned(), json!(stored));
        }
        if let Some(generation) = generation {
            status.insert("observedGeneration".to_owned(), generation.into());
        }
        let status = known::<K>(present, status);
        if status == old || (old.is_null() && status == json!({})) {
            return Ok(None);
        }
        let body = json!({
            "metadata": { "name": key.name(), "namespace": key.namespace() },
            "status": status,
        });
        let applied = cx.client().subresource::<K>(&key, "status").apply_value::<K>(body);
        applied.force().await.map(Some)
    }
}

/// What of `status` the type has: not every status has an `observedGeneration`, and conditions of
/// built-in types lack some fields of the common ones. What a type does not know, it drops.
fn known<K: Object>(mut object: Map<String, Value>, status: Map<String, Value>) -> Value {
    object.insert("status".to_owned(), Value::Object(status.clone()));
    let typed = serde_json::from_value::<K>(Value::Object(object)).ok();
    let kept = typed.and_then(|object| serde_json::to_value(object).ok());
    match kept {
        Some(mut object) => object["status"].take(),
        None => Value::Object(status),
    }
}
