//! Cleaning up before an object goes.
//!
//! A finalizer keeps a deleted object until its name is taken off, so that what the object stands
//! for outside the cluster can be taken down first.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use kube::api::Patch;
use parking_lot::Mutex;
use serde_json::json;

use crate::controller::Context;
use crate::error::{Result, chain};
use crate::kind::Object;
use crate::uid::Uid;

/// Clean-ups that are done although their finalizer is still there: the write that takes it off was
/// refused or lost. They are not run again by this process.
#[derive(Default)]
pub(crate) struct Cleaned(Mutex<VecDeque<(Uid, String)>>);

/// How many are remembered. Each is forgotten when its finalizer is off, but somebody else may have
/// taken that off.
const REMEMBERED: usize = 4096;

impl Cleaned {
    fn has(&self, id: &(Uid, String)) -> bool {
        self.0.lock().contains(id)
    }

    fn add(&self, id: (Uid, String)) {
        let mut cleaned = self.0.lock();
        if cleaned.len() == REMEMBERED {
            cleaned.pop_front();
        }
        cleaned.push_back(id);
    }

    fn forget(&self, id: &(Uid, String)) {
        self.0.lock().retain(|other| other != id);
    }
}

impl<K: Object> Context<K> {
    /// Sees to a finalizer: gives the object while it is to be kept as declared, and nothing once it
    /// is gone or on its way out.
    ///
    /// A live object gets the finalizer before this returns, so that nothing is made outside that
    /// could be left behind. For a deleted one `cleanup` runs, and when it succeeds the finalizer is
    /// taken off. A clean-up that fails is an error of this reconcile like any other: it is retried,
    /// and the journal and an event say why the object stays. It may run again after the process died in
    /// between, so it must not mind that its work is done.
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
    /// What `cleanup` or the API server answered.
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
        if !self.cleaned().has(&id) {
            if let Err(error) = cleanup(object.clone()).await {
                // Who deleted the object and sees it stay looks at its events.
                self.warning_event("CleanupFailed", &format!("{name}: {}", chain(&*error)));
                return Err(error);
            }
            self.cleaned().add(id.clone());
        }
        let finalizers: Vec<String> =
            present.iter().filter(|finalizer| *finalizer != name).cloned().collect();
        match self.set_finalizers(&object, &finalizers).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        self.cleaned().forget(&id);
        Ok(None)
    }

    /// Sets the whole list, only if the object is still what was read: somebody else's finalizer is
    /// never lost.
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
        self.client().patch::<K>(self.key(), &patch).await
    }
}
