//! Status updates.
//!
//! Several controllers may write one status concurrently, so an update is a merge patch of the
//! changed fields. A patch that replaces a list has the resourceVersion as precondition.

mod extract;

mod fields;

use std::sync::Arc;

use kube::api::Patch;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Context;
use crate::cache::Version;
use crate::client::{Client, Error, ErrorKind, RequestInfo, Target};
use crate::condition::Condition;
use crate::difference;
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
pub(crate) use fields::StatusFields;
use fields::{Automatic, CONDITIONS, OBSERVED};

/// A status update; see [`Context::status`].
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// use evenkeel::prelude::*;
///
/// # async fn example(cx: &Context<Deployment>, deployment: &Deployment) -> Result<()> {
/// cx.status(deployment)
///     .condition(Condition::new("Ready", true, "Reconciled", ""))
///     .write()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a status update is sent by `write`"]
pub struct StatusUpdate<'a, K> {
    context: &'a Context<K>,
    object: &'a K,
    conditions: Vec<Condition>,
    /// Changes to the typed status.
    changes: Vec<Change<'a, K>>,
}

type Change<'a, K> = Box<dyn FnOnce(&mut K) + Send + 'a>;

impl<K: AnyObject> Context<K> {
    /// Returns a status update of `object`:
    /// `cx.status(&app).condition(Condition::new("Available", true, "Up", "")).write().await?`.
    ///
    /// It sets the observedGeneration of the conditions and, if the type has it, of the status to
    /// the generation of `object`, and the lastTransitionTime of changed conditions. Nothing is
    /// sent if nothing changes. Fields and conditions that the update does not set are kept.
    ///
    /// Of a type that is known only at run time, observedGeneration is omitted where the schema of
    /// the type does not have it.
    pub fn status<'a>(&'a self, object: &'a K) -> StatusUpdate<'a, K> {
        StatusUpdate { context: self, object, conditions: Vec::new(), changes: Vec::new() }
    }
}

impl<'a, K: AnyObject> StatusUpdate<'a, K> {
    /// Sets a condition.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Changes the typed status, starting from its current value.
    pub fn set(mut self, change: impl FnOnce(&mut K::Status) + Send + 'a) -> Self
    where
        K: HasStatus<Status: Default>,
    {
        self.changes
            .push(Box::new(|object: &mut K| change(object.status_mut().get_or_insert_default())));
        self
    }

    /// Changes the status of an object whose type does not implement `HasStatus`, such as those of
    /// `k8s_openapi`; only the status of the changed object is sent.
    pub fn set_in(mut self, change: impl FnOnce(&mut K) + Send + 'a) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Sends the update and returns the resulting object; `None` if nothing changed or the object
    /// was deleted.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond; a conflict if another writer
    /// changed the object concurrently.
    pub async fn write(self) -> Result<Option<Arc<K>>, Error> {
        let Self { context, object, conditions, changes } = self;
        let key = Key::of(object);
        let client = context.client();
        // Read again: the reconcile may have written the object since it started.
        let cached = client.get_as::<K>(context.kind.clone(), &key).await?;
        let Some(present) = newest(object, cached) else { return Ok(None) };
        let before = fields(&*present);
        let changed = match changes.is_empty() {
            true => None,
            false => {
                let mut next = (*present).clone();
                changes.into_iter().for_each(|change| change(&mut next));
                Some(fields(&next))
            }
        };
        let mut refused = None;
        loop {
            let automatic = context.status_fields.automatic();
            let status = changed.as_ref().unwrap_or(&before).clone();
            let update = Update { context, conditions: &conditions, automatic };
            let Some(status) = update.status(&*present, object, &before, status)? else {
                return Ok(None);
            };
            let Some(patch) = difference::between_fields(&before, &status) else { return Ok(None) };
            let meta = present.meta();
            let mut metadata = json!({ "uid": meta.uid });
            if patch.values().any(difference::has_list) {
                metadata["resourceVersion"] = json!(meta.resource_version);
            }
            let patch = Patch::Merge(json!({ "metadata": metadata, "status": patch }));
            let write = client.subresource_of(context.kind.clone(), &key, "status").patch(&patch);
            match write.return_cached().await {
                Ok(written) => {
                    context.status_fields.confirm(automatic);
                    return Ok(Some(written));
                }
                Err(error) if update.retries(&error) => refused = refused.or(Some(error)),
                Err(error) => return Err(refused.unwrap_or(error)),
            }
        }
    }
}

/// How the next status is computed.
struct Update<'a, K> {
    context: &'a Context<K>,
    conditions: &'a [Condition],
    automatic: Automatic,
}

impl<K: AnyObject> Update<'_, K> {
    /// Returns the next status, or `None` if nothing changes; `status` has the changes of the
    /// reconciler.
    fn status(
        &self,
        present: &K,
        object: &K,
        before: &Map<String, Value>,
        mut status: Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let Self { context, conditions, automatic } = self;
        let generation = object.meta().generation;
        if !conditions.is_empty() {
            let stored = status.entry(CONDITIONS).or_insert(Value::Null);
            if stored.is_null() {
                *stored = json!([]);
            }
            let Value::Array(stored) = stored else {
                let reason = "status.conditions is not a list";
                return Err(refused(&context.kind, &Key::of(object), reason));
            };
            let generation = generation.filter(|_| automatic.in_conditions());
            for condition in *conditions {
                condition.set_json(stored, generation, context.clock().now());
            }
        }
        let observed = generation.filter(|_| {
            automatic.in_status() && !context.status_fields.lacks_observed_generation()
        });
        if let Some(generation) = observed {
            status.insert(OBSERVED.to_owned(), generation.into());
        }
        // Equal before the type is checked for dropped fields.
        if status == *before {
            return Ok(None);
        }
        let (observed, conditions) = (observed.is_some(), !conditions.is_empty());
        Ok(Some(context.status_fields.kept(present, status, observed, conditions)))
    }

    /// Returns whether the update is retried with fewer automatic fields: the schema of a type that
    /// is known only at run time may lack them, and the server then rejects the whole update.
    fn retries(&self, error: &Error) -> bool {
        let rejected =
            error.is_invalid() || error.status().is_some_and(|status| status.code == 400);
        let dynamic = !self.context.kind.is_compiled();
        dynamic && rejected && self.context.status_fields.reduce(self.automatic)
    }
}

impl Client {
    /// Patches the status of `object` from `old` to `new`, for a controller that computes the whole
    /// status and is its only writer.
    ///
    /// Sends the difference as a merge patch, which replaces lists. The uid is a precondition, the
    /// resourceVersion is not: concurrent changes of another writer to the same fields are
    /// overwritten. [`Context::status`] is for a status with several writers, and sets
    /// `observedGeneration` and the times of conditions, which this does not.
    ///
    /// Returns the resulting object, or `None` if nothing changed or the object was deleted.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
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
            Err(error) => Err(refused(&Kind::of::<K>(), &key, &error.to_string())),
        };
        let old = old.map(encoded).transpose()?.unwrap_or_else(|| json!({}));
        let Some(patch) = difference::between(&old, &encoded(new)?) else { return Ok(None) };
        let patch = json!({ "metadata": { "uid": object.meta().uid }, "status": patch });
        let write = self.subresource::<K>(&key, "status").patch::<K>(&Patch::Merge(patch));
        match write.return_cached().await {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the newer of `object` and its cached state; `None` if it was deleted.
fn newest<K: AnyObject>(object: &K, cached: Option<Arc<K>>) -> Option<Arc<K>> {
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

/// Returns the fields of the object's status.
fn fields<K: AnyObject>(object: &K) -> Map<String, Value> {
    match extract::status(object) {
        Some(Value::Object(status)) => status,
        _ => Map::new(),
    }
}

fn refused(kind: &Kind, key: &Key, reason: &str) -> Error {
    let (kind, target) = (kind.clone(), Target::Object(key.clone()));
    let request_info = RequestInfo { verb: "patch", kind, subresource: Some("status"), target };
    ErrorKind::NotSent { request_info, reason: reason.to_owned() }.into()
}
