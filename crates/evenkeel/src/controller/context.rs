//! What a reconciler gets: which object, and everything to do something about it.

use std::ops::Deref;
use std::sync::Arc;

use crate::client::{Client, Write};
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::finalizer::Cleaned;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::owner;
use crate::queue::Causes;
use crate::status::Shape;
use crate::uid::Uid;

/// One reconcile: the object in question, and a [`Client`] that notes what it does.
///
/// It derefs to the client: `cx.get::<Secret>(&key)`, `cx.list::<Pod>()`, `cx.delete(&pod)`.
pub struct Context<K> {
    pub(crate) key: Key,
    pub(crate) object: Option<Arc<K>>,
    pub(crate) client: Client,
    pub(super) causes: Causes,
    pub(super) failures: u32,
    pub(super) clock: Clock,
    pub(super) cleaned: Arc<Cleaned>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) event_recorder: EventRecorder,
}

impl<K: Object> Context<K> {
    /// Which object is to be reconciled.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The object as the cache has it, if it exists.
    #[must_use]
    pub fn object(&self) -> Option<Arc<K>> {
        self.object.clone()
    }

    /// Why the reconcile runs. For people and logs: what is to be done follows from what is.
    #[must_use]
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// How often it has failed in a row before.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Where wall-clock time comes from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The client, for functions that take one.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn cleaned(&self) -> &Cleaned {
        &self.cleaned
    }

    /// Applies `child` as the object's own: the object becomes its controller, and a namespaced
    /// child without a namespace goes into the object's.
    ///
    /// An object of that name that exists and is not controlled by this one is left alone: it is
    /// another owner's, or a former object's of the same name that is about to be collected. It can
    /// be [adopted](Client::adopt) first. The cache answers whose it is; for a type that is not
    /// cached the API server is asked, which needs the `get` permission. The apply then carries what
    /// was found as a precondition, so that an object created in between is left alone too.
    ///
    /// See [`Client::apply`]; [`Client::apply`] itself is for objects that are not owned.
    pub fn apply<C: Object>(&self, mut child: C) -> Write<'_, C> {
        if Kind::of::<C>().namespaced() && child.meta().namespace.is_none() {
            child.meta_mut().namespace = self.key.namespace().map(str::to_owned);
        }
        let owned = match &self.object {
            Some(owner) => owner::set_controller_reference(&**owner, &mut child)
                .map(|()| Uid::new(owner.meta().uid.as_deref().unwrap_or_default()))
                .map_err(|error| error.to_string()),
            None => Err(format!("{} {} that should own it is gone", Kind::of::<K>(), self.key)),
        };
        let write = self.client.apply(&child);
        match owned {
            Ok(uid) => write.owned_by(uid, format!("{} {}", Kind::of::<K>(), self.key)),
            Err(reason) => write.refuse(reason),
        }
    }
}

impl<K> Deref for Context<K> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Copies no object: a clone is for a task or a closure that needs the context for itself.
impl<K> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            object: self.object.clone(),
            client: self.client.clone(),
            causes: self.causes.clone(),
            failures: self.failures,
            clock: self.clock.clone(),
            cleaned: self.cleaned.clone(),
            shape: self.shape.clone(),
            event_recorder: self.event_recorder.clone(),
        }
    }
}

impl<K> std::fmt::Debug for Context<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("key", &self.key)
            .field("causes", &self.causes)
            .finish_non_exhaustive()
    }
}
