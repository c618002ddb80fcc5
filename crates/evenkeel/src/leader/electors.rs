//! Runs the electors of a manager.

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::elections::Elections;
use super::elector::Elector;
use super::lost::LeaderElectionLost;
use crate::clock::Clock;
use crate::events::EventSender;
use crate::key::Key;
use crate::random::Random;

/// The running electors. Dropping it ends them without releasing their leases.
#[derive(Default)]
pub(crate) struct Electors {
    set: JoinSet<Result<(), LeaderElectionLost>>,
    started: BTreeSet<Key>,
    signals: Signals,
}

/// How electors are stopped.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// A standby ends; a leader stays while its work ends.
    pub(super) withdraw: CancellationToken,
    /// A leader releases the lease.
    pub(super) release: CancellationToken,
}

impl Electors {
    /// Starts the elections that have not been started.
    pub(crate) fn start(
        &mut self,
        elections: &Elections,
        clock: &Clock,
        events: &EventSender,
        mut random: impl FnMut() -> Random,
    ) {
        let (Some(settings), Some((client, manager))) = (elections.settings(), elections.owner())
        else {
            return;
        };
        for seat in elections.seats() {
            if !self.started.insert(seat.key.clone()) {
                continue;
            }
            let recorder = events.recorder(manager, client.clone());
            let elector = Elector::new(seat, settings.clone(), clock.clone(), recorder, random());
            self.set.spawn(elector.run(client.clone(), self.signals.clone()));
        }
    }

    /// Waits until a lease is lost; pending forever if there are no elections.
    pub(crate) async fn lost(&mut self) -> LeaderElectionLost {
        loop {
            match self.set.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(lost))) => return lost,
                Some(Err(error)) => {
                    let lease = self.started.first().map(Key::to_string).unwrap_or_default();
                    return LeaderElectionLost::Panicked { lease, message: error.to_string() };
                }
                None => return std::future::pending().await,
            }
        }
    }

    /// Withdraws from elections that are not won: a manager that stops does not become the leader.
    pub(crate) fn withdraw(&self) {
        self.signals.withdraw.cancel();
    }

    /// Stops all electors after the work has ended; releases the leases if `drained`.
    ///
    /// # Errors
    /// When a lease was lost while the work was ending.
    pub(crate) async fn stop(mut self, drained: bool) -> Result<(), LeaderElectionLost> {
        if !drained {
            self.set.shutdown().await;
            return Ok(());
        }
        self.signals.release.cancel();
        let mut outcome = Ok(());
        while let Some(ended) = self.set.join_next().await {
            if let Ok(Err(lost)) = ended {
                outcome = Err(lost);
            }
        }
        outcome
    }
}
