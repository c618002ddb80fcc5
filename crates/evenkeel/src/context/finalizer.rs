//! Finalizers.
//!
//! A finalizer delays the deletion of an object until external resources have been cleaned up.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use kube::api::Patch;
use parking_lot::Mutex;
use serde_json::json;

use super::Context;
use crate::client::Write;
use crate::error::{Result, chain};
use crate::kind::AnyObject;
use crate::uid::Uid;

/// Clean-ups that succeeded while the finalizer is still set, because the write that removes it
/// failed. This process does not run them again.
#[derive(Default)]
pub(crate) struct CompletedCleanups(Mutex<VecDeque<(Uid, String)>>);

/// The maximum number of entries. An entry is removed with its finalizer, but another client may
/// have removed the finalizer.
const REMEMBERED: usize = 4096;

impl CompletedCleanups {
    fn has(&self, id: &(Uid, String)) -> bool {
        self.0.lock().contains(id)
    }

    fn add(&self, id: (Uid, String)) {
        let mut completed_cleanups = self.0.lock();
        if completed_cleanups.len() == REMEMBERED {
            completed_cleanups.pop_front();
        }
        completed_cleanups.push_back(id);
    }

    fn forget(&self, id: &(Uid, String)) {
        self.0.lock().retain(|other| other != id);
    }
}

impl<K: AnyObject> Context<K> {
    /// Adds the finalizer `name` and returns the object, or runs `cleanup` and returns `None` if
    /// the object is being deleted.
    ///
    /// The finalizer is set before this returns, so that no external resource is created without
    /// it. When the object is being deleted, `cleanup` runs and the finalizer is removed if it
    /// succeeds. If it fails, the reconcile fails and is retried, and a warning event on the object
    /// states the error. `cleanup` must be idempotent: it can run again after the process has
    /// restarted.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn remove_record(name: &str) -> Result<()> { Ok(()) }
    /// # async fn reconcile(cx: &Context<ConfigMap>) -> Result<Action> {
    /// let name = cx.key().name();
    /// let Some(map) = cx.finalize("example.com/dns", |_| remove_record(name)).await? else {
    ///     return Ok(Action::done());
    /// };
    /// # let _ = map;
    /// # Ok(Action::done())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of `cleanup` or of the API server.
    pub async fn finalize<F: Future<Output = Result<()>>>(
        &self,
        name: &str,
        cleanup: impl FnOnce(Arc<K>) -> F,
    ) -> Result<Option<Arc<K>>> {
        let Some(object) = self.object() else { return Ok(None) };
        let meta = object.meta();
        let present = meta.finalizers.as_deref().unwrap_or_default();
        let held = present.iter().any(|finalizer| finalizer == name);
        let deleting = meta.deletion_timestamp.is_some();
        match (deleting, held) {
            (false, true) => return Ok(Some(object)),
            (true, false) => return Ok(None),
            (false, false) => {
                let mut finalizers = present.to_vec();
                finalizers.push(name.to_owned());
                return Ok(Some(self.set_finalizers(&object, &finalizers).await?));
            }
            (true, true) => {}
        }
        let id = (Uid::new(meta.uid.as_deref().unwrap_or_default()), name.to_owned());
        if !self.completed_cleanups.has(&id) {
            if let Err(error) = cleanup(object.clone()).await {
                // `kubectl describe` then shows why the object is not deleted.
                self.warning_event("CleanupFailed", &format!("{name}: {}", chain(&*error)));
                return Err(error);
            }
            self.completed_cleanups.add(id.clone());
        }
        let finalizers: Vec<String> =
            present.iter().filter(|finalizer| *finalizer != name).cloned().collect();
        match self.set_finalizers(&object, &finalizers).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        self.completed_cleanups.forget(&id);
        Ok(None)
    }

    /// Sets the list of finalizers, with resourceVersion as precondition so that no finalizer of
    /// another client is lost.
    async fn set_finalizers(
        &self,
        object: &K,
        finalizers: &[String],
    ) -> Result<Arc<K>, crate::client::Error> {
        let meta = object.meta();
        let patch = Patch::Merge(json!({ "metadata": {
            "finalizers": finalizers,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }}));
        Write::patch(self.client(), self.kind.clone(), self.key.clone(), None, &patch).await
    }
}
