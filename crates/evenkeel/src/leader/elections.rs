//! The elections of a manager: one for all leader-bound work, and those of controllers with a lease
//! of their own.

use std::sync::Arc;

use parking_lot::Mutex;

use super::leadership::Leadership;
use super::options::{InvalidLeaderElection, LeaderElection, Settings, check_name};
use super::status::LeaderElectionHandle;
use crate::client::Client;
use crate::fence::Fence;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::random::Random;

/// The elections of one manager.
pub(crate) struct Elections(Option<Enabled>);

struct Enabled {
    options: LeaderElection,
    settings: Settings,
    /// The unfenced client.
    client: Client,
    /// The name of the manager, which records events.
    manager: String,
    /// One per Lease; the first is that of the manager.
    seats: Mutex<Vec<Arc<Seat>>>,
    metrics: Arc<Metrics>,
}

/// One Lease and the work that depends on it.
pub(crate) struct Seat {
    pub(super) key: Key,
    pub(super) fence: Fence,
    /// The client of the work.
    pub(super) client: Client,
    pub(super) handle: LeaderElectionHandle,
}

impl Elections {
    /// Creates the elections of the manager with this name; none without `options`.
    pub(crate) fn new(
        options: Option<LeaderElection>,
        manager: &str,
        client: &Client,
        metrics: &Arc<Metrics>,
        virtual_time: bool,
        random: &mut Random,
    ) -> Self {
        let Some(options) = options else { return Self(None) };
        let context = client.kube().default_namespace();
        let settings = Settings::new(&options, context, virtual_time, random);
        let (client, manager) = (client.clone(), manager.to_owned());
        let (metrics, seats) = (metrics.clone(), Mutex::default());
        let enabled = Enabled { options, settings, client, manager, seats, metrics };
        let lease = enabled.options.id.clone().unwrap_or_else(|| enabled.manager.clone());
        enabled.seat(&lease);
        Self(Some(enabled))
    }

    /// Checks the options.
    pub(crate) fn validate(&self) -> Result<(), InvalidLeaderElection> {
        let Some(enabled) = &self.0 else { return Ok(()) };
        enabled.options.validate()?;
        self.seats().iter().try_for_each(|seat| check_name(seat.key.name()))
    }

    /// Returns what leader-bound work waits for: the lease of the manager, or that named `lease`.
    pub(crate) fn leadership(&self, lease: Option<&str>) -> Leadership {
        Leadership(self.0.as_ref().map(|enabled| match lease {
            Some(lease) => enabled.seat(lease),
            None => enabled.first(),
        }))
    }

    /// Returns what work waits for that runs on every replica.
    pub(crate) fn none() -> Leadership {
        Leadership(None)
    }

    /// Returns whether a lost leader becomes a standby.
    pub(crate) fn reelect(&self) -> bool {
        self.settings().is_some_and(|settings| settings.reelect)
    }

    /// Returns a handle to each election.
    pub(crate) fn handles(&self) -> Vec<LeaderElectionHandle> {
        self.seats().iter().map(|seat| seat.handle.clone()).collect()
    }

    /// Ends the terms of all leases.
    pub(crate) fn end(&self) {
        for seat in self.seats() {
            seat.fence.end();
        }
    }

    pub(super) fn seats(&self) -> Vec<Arc<Seat>> {
        self.0.as_ref().map(|enabled| enabled.seats.lock().clone()).unwrap_or_default()
    }

    pub(super) fn settings(&self) -> Option<&Settings> {
        self.0.as_ref().map(|enabled| &enabled.settings)
    }

    /// Returns the unfenced client and the name of the manager.
    pub(super) fn owner(&self) -> Option<(&Client, &str)> {
        self.0.as_ref().map(|enabled| (&enabled.client, &*enabled.manager))
    }
}

impl Enabled {
    fn first(&self) -> Arc<Seat> {
        let lease = self.options.id.as_deref().unwrap_or(&self.manager);
        self.seat(lease)
    }

    /// Returns the seat of a Lease; creates it first if it is new.
    fn seat(&self, lease: &str) -> Arc<Seat> {
        let mut seats = self.seats.lock();
        if let Some(seat) = seats.iter().find(|seat| seat.key.name() == lease) {
            return seat.clone();
        }
        let key = Key::namespaced(&self.settings.namespace, lease);
        let fence = Fence::new(self.settings.clock.clone());
        let client = self.client.fenced(&fence);
        let handle = LeaderElectionHandle::new(
            key.clone(),
            &self.settings,
            self.metrics.leader.lease(lease),
        );
        let seat = Arc::new(Seat { key, fence, client, handle });
        seats.push(seat.clone());
        seat
    }
}
