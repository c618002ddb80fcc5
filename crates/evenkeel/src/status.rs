//! Telling how an object is.
//!
//! Others may tell of the same object at the same time, so a status is sent as what it changes, and
//! where it replaces a list, only if the object is still what the list was made from.

mod part;

mod shape;

use std::sync::Arc;

use kube::api::Patch;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cache::Version;
use crate::client::{Client, Error, RequestInfo, Target};
use crate::condition::Condition;
use crate::controller::Context;
use crate::difference;
use crate::key::Key;
use crate::kind::{Kind, Object};
pub(crate) use shape::Shape;
use shape::{CONDITIONS, OBSERVED};

/// A status in the making; see [`Context::status`].
#[must_use = "a status is sent by `write`"]
pub struct StatusUpdate<'a, K> {
    context: &'a Context<K>,
    object: &'a K,
    conditions: Vec<Condition>,
    /// The author's part.
    changes: Vec<Change<'a, K>>,
}

type Change<'a, K> = Box<dyn FnOnce(&mut K) + Send + 'a>;

impl<K: Object> Context<K> {
    /// Begins to tell how `object` is:
    /// `cx.status(&app).condition(Condition::new("Available", true, "Up", "")).write().await?`.
    ///
    /// The framework fills in what must not be forgotten: which generation the conditions speak of
    /// (that of `object`, which is what was looked at), when they last changed, and
    /// `observedGeneration` where the status has such a field. Nothing is sent when it would change
    /// nothing. What others tell is left alone, and so is what this reconcile told before.
    pub fn status<'a>(&'a self, object: &'a K) -> StatusUpdate<'a, K> {
        StatusUpdate { context: self, object, conditions: Vec::new(), changes: Vec::new() }
    }
}

impl<'a, K: Object> StatusUpdate<'a, K> {
    /// Adds a condition.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Sets fields of the typed status, starting from what it is.
    pub fn set(mut self, change: impl FnOnce(&mut K::Status) + Send + 'a) -> Self
    where
        K: HasStatus<Status: Default>,
    {
        self.changes
            .push(Box::new(|object: &mut K| change(object.status_mut().get_or_insert_default())));
        self
    }

    /// As [`set`](StatusUpdate::set), for types that `kube` does not know to have a status, as those of
    /// `k8s_openapi`: of what `change` makes of the object, the status is sent and nothing else.
    pub fn set_in(mut self, change: impl FnOnce(&mut K) + Send + 'a) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Sends it, unless nothing changes; gives the object as it is then.
    ///
    /// # Errors
    /// When the API server refuses or does not answer; a conflict when somebody else told something
    /// at the same time, which the next reconcile will see.
    pub async fn write(self) -> Result<Option<Arc<K>>, Error> {
        let Self { context, object, conditions, changes } = self;
        let key = Key::of(object);
        let client = context.client();
        // Not what was read when the reconcile began: it may have written something since.
        let Some(present) = newest(object, client.get::<K>(&key).await?) else { return Ok(None) };
        let before = fields(&*present);
        let mut status = match changes.is_empty() {
            true => before.clone(),
            false => {
                let mut next = (*present).clone();
                changes.into_iter().for_each(|change| change(&mut next));
                fields(&next)
            }
        };
        let generation = object.meta().generation;
        if !conditions.is_empty() {
            let stored = status.entry(CONDITIONS).or_insert(Value::Null);
            if stored.is_null() {
                *stored = json!([]);
            }
            let Value::Array(stored) = stored else {
                return Err(refused::<K>(&key, "its conditions are not a list"));
            };
            for condition in &conditions {
                condition.set_json(stored, generation, context.clock().now());
            }
        }
        let observed = generation.filter(|_| !context.shape.lacks_observed());
        if let Some(generation) = observed {
            status.insert(OBSERVED.to_owned(), generation.into());
        }
        // What came from the type itself is kept by it.
        if status == before {
            return Ok(None);
        }
        let (observed, conditions) = (observed.is_some(), !conditions.is_empty());
        let status = context.shape.kept(&*present, Value::Object(status), observed, conditions);
        let Some(patch) = difference::between(&Value::Object(before), &status) else {
            return Ok(None);
        };
        let meta = present.meta();
        let mut metadata = json!({ "uid": meta.uid });
        if difference::has_list(&patch) {
            metadata["resourceVersion"] = json!(meta.resource_version);
        }
        let patch = Patch::Merge(json!({ "metadata": metadata, "status": patch }));
        let write = client.subresource::<K>(&key, "status").patch::<K>(&patch);
        write.answer_as_cached().await.map(Some)
    }
}

impl Client {
    /// Makes the status of `object` be `new` where it was `old`, for a controller that computes the
    /// whole status and is the only one that writes it; of any type with a status subresource.
    ///
    /// Sends what differs between `old` and `new` as a merge patch, lists whole. The patch applies to
    /// this object and to no other of its name, and does not check that nothing changed since `old`
    /// was read: fields and lists of another writer that differ are overwritten.
    /// [`Context::status`] is for a status that is shared, and fills in conditions and
    /// `observedGeneration`; here they are the caller's.
    ///
    /// Returns the object as it is after the write, or none if there was nothing to send or the
    /// object is gone.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn patch_status<K: Object, S: Serialize + PartialEq>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
    ) -> Result<Option<Arc<K>>, Error> {
        if old == Some(new) {
            return Ok(None);
        }
        let key = Key::of(object);
        let encoded = |status: &S| match serde_json::to_value(status) {
            Ok(status) => Ok(status),
            Err(error) => Err(refused::<K>(&key, &error.to_string())),
        };
        let old = old.map(encoded).transpose()?.unwrap_or_else(|| json!({}));
        let Some(patch) = difference::between(&old, &encoded(new)?) else { return Ok(None) };
        let patch = json!({ "metadata": { "uid": object.meta().uid }, "status": patch });
        let write = self.subresource::<K>(&key, "status").patch::<K>(&Patch::Merge(patch));
        match write.answer_as_cached().await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What is known last of the object; none if it is gone.
fn newest<K: Object>(object: &K, cached: Option<Arc<K>>) -> Option<Arc<K>> {
    let cached = cached.filter(|cached| cached.meta().uid == object.meta().uid)?;
    if std::ptr::eq(&*cached, object) {
        return Some(cached);
    }
    let version = |object: &K| object.meta().resource_version.as_deref().and_then(Version::parse);
    if version(object) > version(&cached) {
        return Some(Arc::new(object.clone()));
    }
    Some(cached)
}

/// The fields of the object's status.
fn fields<K: Object>(object: &K) -> Map<String, Value> {
    match part::status(object) {
        Some(Value::Object(status)) => status,
        _ => Map::new(),
    }
}

fn refused<K: Object>(key: &Key, reason: &str) -> Error {
    let (kind, target) = (Kind::of::<K>(), Target::Object(key.clone()));
    let request_info = RequestInfo { verb: "patch", kind, subresource: Some("status"), target };
    Error::NotSent { request_info, reason: reason.to_owned() }
}
