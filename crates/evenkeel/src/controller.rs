//! Controllers: a reconciler with its watches, its workqueue and its workers.

mod builder;

mod core;

mod counts;

pub(crate) mod environment;

mod remote;

mod run;

mod throttle;

mod watches;

mod worker;

use std::sync::Arc;
use std::time::Duration;

pub use builder::ControllerBuilder;
pub use counts::ReconcileCounts;
pub use watches::{Watch, WatchError, WatchGuard, WatchKind};

use self::core::Core;
pub(crate) use self::core::RegisteredTypes;
pub use crate::context::Context;
use crate::journal::Journal;
use crate::key::Key;
use crate::kind::Kind;
use crate::queue::{Cause, Queue};
pub(crate) use environment::{Environment, OnReconcile};
pub(crate) use run::wait_retrying;
pub(crate) use worker::message;

/// The target of what is logged for traces alone.
pub(crate) const TRACE_TARGET: &str = "evenkeel::trace";

/// A handle to a registered controller.
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// # async fn example(manager: Manager, maps: impl Reconciler<Object = ConfigMap>) -> Result<()> {
/// let controller = manager.controller(maps).named("maps").register()?;
/// controller.enqueue(Key::namespaced("shop", "web"), "requested by an operator");
/// if controller.wait_until_synced().await {
///     println!("{}: {} errors", controller.name(), controller.reconcile_counts().error);
/// }
/// for alarm in controller.journal().alarms() {
///     println!("{alarm}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerHandle(Arc<Core>);

/// The phase of a controller.
///
/// ```
/// use evenkeel::controller::{ControllerHandle, Phase};
///
/// fn report(controller: &ControllerHandle) {
///     match controller.phase() {
///         Phase::Syncing(waits) => println!("waits for {}", waits.join(", ")),
///         Phase::SyncTimedOut(reason) => println!("cannot start: {reason}"),
///         phase => println!("{phase:?}"),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The controller has not started.
    New,
    /// The controller waits for these watches and caches to sync.
    Syncing(Vec<String>),
    /// The caches have not synced within the timeout, for this reason. The watches are retried.
    SyncTimedOut(String),
    /// The caches have synced and the queue has every object; the controller waits until this process
    /// is the leader.
    Standby,
    /// The workers run.
    Running,
    /// The controller has stopped.
    Stopped,
}

impl ControllerHandle {
    /// Returns the types that the controller was registered with.
    pub(crate) fn registered_types(&self) -> &RegisteredTypes {
        &self.0.types
    }

    /// Returns the controller's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the kind of the objects it reconciles.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Returns the controller's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.state.get()
    }

    /// Waits until the caches of the types it watches and reads have synced and its workers run, or
    /// wait until this process is the leader.
    ///
    /// Returns false if the controller has stopped.
    pub async fn wait_until_synced(&self) -> bool {
        self.0.state.synced().await
    }

    /// Returns the timeout of a reconcile.
    #[must_use]
    pub fn reconcile_timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Returns the journal of its latest reconciles.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// Returns its workqueue.
    #[must_use]
    pub fn queue(&self) -> &Queue<Key> {
        &self.0.queue
    }

    /// Returns the reconcile counts by outcome.
    #[must_use]
    pub fn reconcile_counts(&self) -> ReconcileCounts {
        self.0.counters.snapshot(self.0.queue.processing())
    }

    /// Pauses the controller, or resumes it: while it is paused, no reconcile starts and keys stay in
    /// the workqueue.
    pub fn set_paused(&self, paused: bool) {
        self.0.pause.set(paused);
    }

    /// Returns whether the controller is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.pause.get()
    }

    /// Adds `key` to the workqueue; `reason` is the cause in the journal.
    pub fn enqueue(&self, key: Key, reason: &str) {
        self.0.queue.add(key, Cause::External(reason.into()));
    }

    /// Adds a watch to the running controller; dropping the returned guard removes it.
    ///
    /// # Errors
    /// When the type is not cached.
    pub fn watch(&self, watch: Watch) -> Result<WatchGuard, WatchError> {
        self.0.attach(watch)
    }
}

impl std::fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.0.name)
            .field("phase", &self.phase())
            .finish()
    }
}
