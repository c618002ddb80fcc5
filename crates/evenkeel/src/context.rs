//! The context of a reconcile, with helpers for events, finalizers and the status.

mod cluster;

mod events;

mod finalizer;

mod status;

use std::sync::Arc;

use kube::core::DynamicObject;

use crate::client::{Client, Write};
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::events::EventRecorder;
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
use crate::owner;
use crate::queue::Causes;
use crate::uid::Uid;
pub(crate) use finalizer::CompletedCleanups;
pub(crate) use status::StatusFields;
pub use status::StatusUpdate;

/// The context of one reconcile: the object, what is done for it, and the [`client`](Self::client)
/// for everything else.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
/// # fn config_for(secret: &Secret) -> ConfigMap { ConfigMap::default() }
/// # async fn reconcile(cx: &Context<ConfigMap>) -> Result<Action> {
/// let Some(map) = cx.object() else { return Ok(Action::done()) };
/// let secret = cx.client().get::<Secret>(&cx.key().sibling("token")).await?;
/// if let Some(secret) = secret {
///     cx.apply_owned(config_for(&secret)).await?;
/// }
/// cx.status(&map).condition(Condition::new("Ready", true, "Copied", "")).write().await?;
/// # Ok(Action::done())
/// # }
/// ```
pub struct Context<K> {
    /// The kind of the object; of a dynamic type, it is known only at run time.
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<K>>,
    pub(crate) client: Client,
    pub(crate) causes: Causes,
    pub(crate) failures: u32,
    pub(crate) clock: Clock,
    pub(crate) completed_cleanups: Arc<CompletedCleanups>,
    pub(crate) status_fields: Arc<StatusFields>,
    pub(crate) event_recorder: EventRecorder,
    /// The engaged cluster of the object; none for the manager's own.
    pub(crate) cluster: Option<Arc<str>>,
    pub(crate) clusters: Clusters,
    pub(crate) fencing_token: Option<u64>,
}

impl<K: AnyObject> Context<K> {
    /// Returns the kind of the object to reconcile.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the key of the object to reconcile, without its [cluster](Context::cluster_name).
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the object from the cache as of the start of the reconcile, if it exists.
    #[must_use]
    pub fn object(&self) -> Option<Arc<K>> {
        self.object.clone()
    }

    /// Returns why the key was enqueued. For logs only: a reconciler decides by the observed state.
    #[must_use]
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Returns the number of consecutive failures of this key before this reconcile.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the wall clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns a number that is higher for each leader than for those before it, if this controller
    /// has [leader election](crate::leader): how often the Lease has changed hands. It may start again
    /// only if the Lease is deleted and no process is left that has seen it.
    ///
    /// A system outside the cluster that rejects numbers lower than the highest it has seen is safe
    /// from the late requests of a former leader.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.fencing_token
    }

    /// Returns the client. The journal records its operations for this reconcile.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Applies `child` with the reconciled object as its controller. A namespaced child without a
    /// namespace gets the object's namespace.
    ///
    /// If an object of that name exists and is not controlled by the reconciled object, the apply
    /// fails and the object is not changed: it has another owner, or belongs to a deleted object of
    /// the same name and is about to be garbage-collected. [Adopt](Client::adopt) it first. The
    /// controller reference is read from the cache, or from the API server for a type that is not
    /// cached, which needs the `get` permission. The apply carries the result as a precondition, so
    /// that an object created in between is not changed either.
    ///
    /// [`Client::apply`] is for objects that are not owned.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # async fn example(cx: &Context<Pod>) -> Result<()> {
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some(evenkeel::child_name(cx.key().name(), "settings"));
    /// cx.apply_owned(map).force().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn apply_owned<C: Object>(&self, child: C) -> Write<'_, C> {
        self.apply_owned_as(Kind::of::<C>(), child)
    }

    /// Same as [`apply_owned`](Context::apply_owned), for a child whose kind is known at run time.
    pub fn apply_owned_dynamic(
        &self,
        kind: &Kind,
        child: DynamicObject,
    ) -> Write<'_, DynamicObject> {
        self.apply_owned_as(kind.clone(), child)
    }

    fn apply_owned_as<C: AnyObject>(&self, kind: Kind, mut child: C) -> Write<'_, C> {
        if kind.namespaced() && child.meta().namespace.is_none() {
            child.meta_mut().namespace = self.key.namespace().map(str::to_owned);
        }
        let owned = match &self.object {
            Some(owner) => owner::set_controller(&self.kind, owner.meta(), &kind, child.meta_mut())
                .map(|()| Uid::new(owner.meta().uid.as_deref().unwrap_or_default()))
                .map_err(|error| error.to_string()),
            None => Err(format!("{} {} that should own it was deleted", self.kind, self.key)),
        };
        let body = serde_json::to_value(&child).map_err(|error| error.to_string());
        let write = Write::apply(&self.client, kind, Key::of(&child), None, body);
        match owned {
            Ok(uid) => write.owned_by(uid, format!("{} {}", self.kind, self.key)),
            Err(reason) => write.refuse(reason),
        }
    }
}

/// Cheap: the object is shared. For tasks and closures that need a context of their own.
impl<K> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            key: self.key.clone(),
            object: self.object.clone(),
            client: self.client.clone(),
            causes: self.causes.clone(),
            failures: self.failures,
            clock: self.clock.clone(),
            completed_cleanups: self.completed_cleanups.clone(),
            status_fields: self.status_fields.clone(),
            event_recorder: self.event_recorder.clone(),
            cluster: self.cluster.clone(),
            clusters: self.clusters.clone(),
            fencing_token: self.fencing_token,
        }
    }
}

impl<K> std::fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("kind", &self.kind)
            .field("key", &self.key)
            .field("causes", &self.causes)
            .finish_non_exhaustive()
    }
}
