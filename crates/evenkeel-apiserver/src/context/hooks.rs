//! Hooks: what a single kind does at fixed places of a write, as in upstream's generic registry
//! store. The stages call them without knowing the kind.

use std::pin::Pin;
use std::sync::Arc;

use evenkeel_schema::field;
use serde_json::Value;

use super::{Core, RequestContext};
use crate::object::Metadata as _;
use crate::registry::resource::{Part, Resource};
use crate::request::delete_options::DeleteOptions;
use crate::status::{GroupResource, Status};
use crate::storage::Record;

/// The future of a hook that awaits. Hooks that have nothing to do return `None`, so that other
/// kinds allocate nothing.
pub(crate) type HookFuture<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a write has reserved. Dropped without a commit, it is released.
pub(crate) trait Reservation: Send + Sync {
    /// Keeps the reservation: the write of `stored`, over `old`, is committed.
    fn commit(self: Box<Self>, old: Option<&Value>, stored: &Record);

    /// Releases the reservation of a write that failed, if that takes more than dropping it.
    fn release<'a>(self: Box<Self>, cx: &'a RequestContext) -> Option<HookFuture<'a>> {
        let _ = cx;
        None
    }
}

/// The behaviour of one kind. Every method has the behaviour of most kinds as its default.
pub(crate) trait Hooks: Send + Sync {
    /// Runs before a new object is prepared. May change the object and reserve what it needs.
    fn begin_create(
        &self,
        cx: &RequestContext,
        object: &mut Value,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        let _ = (cx, object);
        Ok(None)
    }

    /// Like [`begin_create`](Self::begin_create), for an update of `old`.
    fn begin_update(
        &self,
        cx: &RequestContext,
        object: &mut Value,
        old: &Value,
        part: Part<'_>,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        let _ = (cx, object, old, part);
        Ok(None)
    }

    /// Returns the error of a valid object that refers to what the user may not refer to. `old` is
    /// absent if the object is new. Not called for subresources.
    fn authorize(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
    ) -> Option<field::Error> {
        let _ = (cx, object, old);
        None
    }

    /// Returns the current object as an update sees it, if readers see it differently.
    fn update_view(&self, current: &Value) -> Option<Value> {
        let _ = current;
        None
    }

    /// Returns a stored object as its status subresource shows it, if other readers see it
    /// differently.
    fn status_view(&self, cx: &RequestContext, record: &Record) -> Option<Value> {
        let _ = (cx, record);
        None
    }

    /// Returns whether an update of `record` is written even if it changes nothing.
    fn always_writes(&self, record: &Record) -> bool {
        let _ = record;
        false
    }

    /// Returns whether an update of an object that is being deleted, and has no finalizers left,
    /// deletes it.
    fn should_delete_during_update(&self, object: &Value) -> bool {
        object.meta_i64("deletionGracePeriodSeconds").unwrap_or(0) == 0
    }

    /// Returns the warning about the options of a deletion.
    fn delete_warning(&self, options: &DeleteOptions) -> Option<&'static str> {
        let _ = options;
        None
    }

    /// Returns the error of a deletion whose precondition does not hold.
    fn failed_precondition(
        &self,
        cx: &RequestContext,
        name: &str,
        failed: &FailedPrecondition<'_>,
    ) -> Status {
        let FailedPrecondition { what, requested, stored } = failed;
        let since = if *what == "UID" { "deleted and then recreated" } else { "modified" };
        let why = format!(
            "the {what} in the precondition ({requested}) does not match the {what} in record \
             ({stored}). The object might have been {since}"
        );
        // Upstream's message contains the kind here, not the plural.
        let named = GroupResource { group: &cx.resource.group, resource: &cx.resource.kind };
        Status::conflict(named, name, &why)
    }

    /// Returns the grace period of the first deletion of `object`, in seconds; for kinds whose
    /// strategy has one.
    fn grace_period(&self, object: &Value, requested: Option<i64>) -> i64 {
        let _ = object;
        requested.unwrap_or(0)
    }

    /// Decides what a deletion does to `object`; `None` if the kind has no process of its own.
    fn decide_deletion(
        &self,
        cx: &RequestContext,
        options: &DeleteOptions,
        object: &Value,
    ) -> Option<Deletion> {
        let _ = (cx, options, object);
        None
    }

    /// Runs after a create or update is committed, as part of the write; also if its request is
    /// dropped. The hooks of concurrent writes run in any order: what depends on the order of commits
    /// observes the table instead, or reads it again.
    fn after_write<'a>(
        &'a self,
        cx: &'a RequestContext,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        let _ = (cx, record);
        None
    }

    /// Runs after a deletion is committed; `last` is the last state.
    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        last: &'a Value,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        let _ = (cx, last, record);
        None
    }

    /// Rebuilds state from the stored objects when the server starts.
    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        let _ = core;
        None
    }

    /// Returns whether every write of the kind is heavy, and so runs on its own thread.
    fn is_heavy(&self) -> bool {
        false
    }
}

/// A precondition of a deletion that does not hold.
pub(crate) struct FailedPrecondition<'a> {
    /// `UID` or `ResourceVersion`.
    pub(crate) what: &'static str,
    pub(crate) requested: &'a str,
    pub(crate) stored: &'a str,
}

/// What a deletion does to an object.
pub(crate) enum Deletion {
    /// Leaves it: it is being deleted already.
    Keep,
    /// Stores this object, which waits for finalizers or its grace period.
    Mark(Value),
    /// Stores this object, then deletes it: the grace period is zero, and watchers see the mark.
    MarkAndRemove(Value),
    /// Deletes it.
    Remove,
}

/// A kind without hooks.
struct NoHooks;

impl Hooks for NoHooks {}

/// The hooks of all kinds.
pub(crate) struct HookTable {
    builtin: Vec<(&'static str, &'static str, Arc<dyn Hooks>)>,
    custom: Arc<dyn Hooks>,
    none: Arc<dyn Hooks>,
}

impl HookTable {
    /// Creates a table of the hooks of built-in resources, by group and plural, and of the hooks of
    /// all custom resources.
    pub(crate) fn new(
        builtin: Vec<(&'static str, &'static str, Arc<dyn Hooks>)>,
        custom: Arc<dyn Hooks>,
    ) -> Self {
        Self { builtin, custom, none: Arc::new(NoHooks) }
    }

    /// Returns the hooks of a resource.
    pub(crate) fn of(&self, resource: &Resource) -> Arc<dyn Hooks> {
        if resource.is_custom() {
            return self.custom.clone();
        }
        let found = self.builtin.iter().find(|(group, plural, _)| resource.is(group, plural));
        found.map_or(&self.none, |(_, _, hooks)| hooks).clone()
    }

    /// Calls [`Hooks::restore`] of all kinds.
    pub(crate) async fn restore(&self, core: &Arc<Core>) -> Result<(), Status> {
        for (_, _, hooks) in &self.builtin {
            if let Some(restore) = hooks.restore(core) {
                restore.await?;
            }
        }
        Ok(())
    }
}
