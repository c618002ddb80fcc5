//! Whether an informer is synced, as a whole and per namespace, and waits for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_types::watch;
use parking_lot::RwLock;
use tokio::time::Instant;

use super::error::{ReadError, SyncError, WatchFailure};
use super::stats::Health;
use crate::kind::Kind;

/// How long a type may be forbidden or not served before a wait for it fails: permissions and CRDs
/// may be created at the same time.
const REJECTION_GRACE: Duration = Duration::from_secs(5);

/// The sync state of an informer.
#[derive(Debug)]
pub(super) struct SyncState {
    /// Whether the informer is synced; false once stopped.
    ready: AtomicBool,
    /// The watched namespaces and whether they are synced, unless all are watched.
    namespaces: Option<RwLock<BTreeMap<String, bool>>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) synced: bool,
    pub(super) stopped: bool,
    pub(super) absent: bool,
    pub(super) failure: Option<WatchFailure>,
    /// Since when the type is forbidden or not served.
    pub(super) rejected: Option<Instant>,
}

impl SyncState {
    /// Creates the state of an informer that watches all namespaces, or `by_namespace`.
    pub(super) fn new(by_namespace: bool) -> Self {
        Self {
            ready: AtomicBool::new(false),
            namespaces: by_namespace.then(RwLock::default),
            state: watch::Sender::default(),
        }
    }

    /// Returns whether reads in all watched namespaces can be served.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Sets which namespaces are watched, and whether they are synced.
    pub(super) fn set_namespaces(&self, watched: impl Iterator<Item = (String, bool)>) {
        if let Some(namespaces) = &self.namespaces {
            *namespaces.write() = watched.collect();
        }
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Release);
    }

    /// Sets the state, and notifies waiters.
    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Ends all waits; reads fail from now on.
    pub(super) fn stop(&self) {
        self.set_ready(false);
        self.state.send_modify(|state| state.stopped = true);
    }

    pub(super) fn health(&self, kind: &Kind) -> Health {
        let state = self.state.borrow();
        Health {
            kind: kind.clone(),
            synced: state.synced && !state.stopped,
            failure: state.failure.clone(),
            absent: state.absent,
        }
    }

    /// Waits until all scopes are synced.
    pub(super) async fn wait(&self, kind: &Kind, timeout: Duration) -> Result<(), SyncError> {
        let mut state = self.state.subscribe();
        let start = Instant::now();
        let latest = start + timeout;
        loop {
            let now = state.borrow_and_update().clone();
            if now.stopped {
                return Err(SyncError::Stopped { kind: kind.clone() });
            }
            if now.synced {
                return Ok(());
            }
            // Counted from the call, however long the type has been rejected: a caller that retries
            // in a loop must not spin.
            let rejected = now.rejected.map(|since| since.max(start) + REJECTION_GRACE);
            let deadline = rejected.map_or(latest, |rejected| latest.min(rejected));
            tokio::select! {
                biased;
                changed = state.changed() => if changed.is_err() {
                    return Err(SyncError::Stopped { kind: kind.clone() });
                },
                () = tokio::time::sleep_until(deadline) => {
                    return Err(SyncError::NotSynced { kind: kind.clone(), last: now.failure });
                }
            }
        }
    }

    /// Checks that reads in this namespace, or in all watched ones, can be served.
    pub(super) fn check(&self, kind: &Kind, namespace: Option<&str>) -> Result<(), ReadError> {
        let ready = match (&self.namespaces, namespace) {
            (Some(namespaces), Some(name)) => {
                let namespaces = namespaces.read();
                match namespaces.get(name) {
                    Some(synced) => *synced && !self.state.borrow().stopped,
                    None if self.state.borrow().stopped => false,
                    None => {
                        return Err(ReadError::OutsideNamespaces {
                            kind: kind.clone(),
                            namespace: name.to_owned(),
                            namespaces: namespaces.keys().cloned().collect(),
                        });
                    }
                }
            }
            _ => self.is_ready(),
        };
        if ready {
            return Ok(());
        }
        let (state, kind) = (self.state.borrow(), kind.clone());
        Err(match state.stopped {
            true => ReadError::Stopped { kind },
            false => ReadError::NotSynced { kind, last: state.failure.clone() },
        })
    }
}
