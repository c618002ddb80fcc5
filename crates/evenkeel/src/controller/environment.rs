//! What the controllers of a manager share: client, clock, randomness, events, and their list.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::ControllerHandle;
use super::watches::WatchError;
use crate::client::Client;
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::error::{BoxError, Result};
use crate::events::EventSender;
use crate::journal::Record;
use crate::leader::Elections;
use crate::lifecycle::{Group, Lifecycle, Pending, Stopping};
use crate::metrics::Metrics;
use crate::random::Random;

/// A callback after each reconcile.
pub(crate) type OnReconcile = Arc<dyn Fn(&Record) + Send + Sync>;

/// The environment of the controllers of one manager.
pub(crate) struct Environment {
    pub(crate) client: Client,
    pub(crate) clusters: Clusters,
    pub(crate) clock: Clock,
    pub(crate) event_sender: EventSender,
    pub(crate) on_reconcile: Option<OnReconcile>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) elections: Elections,
    random: Mutex<Random>,
    /// In the order of registration.
    controllers: Mutex<Vec<ControllerHandle>>,
}

/// Why a controller, a runnable or a webhook cannot be added to a manager.
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// # fn example(manager: &Manager, maps: impl Reconciler<Object = ConfigMap>) {
/// match manager.controller(maps).register() {
///     Err(RegisterError::NameTaken(name)) => println!("{name} runs already"),
///     registered => println!("{registered:?}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another controller of the manager has the same name.
    #[error("a controller named {0:?} is already registered; set another name with `named`")]
    NameTaken(String),
    /// A type cannot be cached with the options of the controller.
    #[error("controller {controller:?} cannot be registered")]
    Watch {
        /// The controller.
        controller: String,
        /// The cause.
        source: Box<WatchError>,
    },
    /// A runnable that can run only once needs leader election, and a lost leader becomes a standby.
    #[error(
        "{0} cannot be started again in a later term; add it with `spawn_each_term`, or do not set \
         `LeaderElection::reelect`"
    )]
    RunsOnce(String),
    /// A webhook cannot be added.
    #[error("webhook cannot be registered")]
    Webhook(#[source] BoxError),
    /// A health check of the same name exists.
    #[error("a health check named {0:?} is already registered")]
    CheckTaken(String),
    /// The manager is stopping or has stopped.
    #[error("the manager is stopping")]
    Stopping,
}

impl Environment {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        mut random: Random,
        event_sender: EventSender,
        on_reconcile: Option<OnReconcile>,
        metrics: Arc<Metrics>,
        elections: Elections,
    ) -> Self {
        let clusters = Clusters::new(&client, Random::new(random.next()));
        Self {
            client,
            clusters,
            clock,
            event_sender,
            on_reconcile,
            lifecycle: Lifecycle::default(),
            metrics,
            elections,
            random: Mutex::new(random),
            controllers: Mutex::default(),
        }
    }

    /// Adds a controller.
    ///
    /// # Errors
    /// When the name is taken or the manager is stopping.
    pub(super) fn add<F>(
        &self,
        handle: ControllerHandle,
        needs_leader_election: bool,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut controllers = self.controllers.lock();
        if controllers.iter().any(|present| present.name() == handle.name()) {
            return Err(RegisterError::NameTaken(handle.name().to_owned()));
        }
        let pending = Pending::new(Group::of(needs_leader_election), handle.name(), run);
        self.lifecycle.push(pending).map_err(|Stopping| RegisterError::Stopping)?;
        controllers.push(handle);
        Ok(())
    }

    /// Returns the controllers in the order of registration.
    pub(crate) fn controllers(&self) -> Vec<ControllerHandle> {
        self.controllers.lock().clone()
    }

    /// Returns a new random stream.
    pub(crate) fn random(&self) -> Random {
        Random::new(self.random.lock().next())
    }
}
