//! The open connections of a server and their bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The open connections.
pub(super) struct Slots {
    bound: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    opened: u64,
    open: BTreeMap<u64, Arc<Activity>>,
}

struct Activity {
    /// Since when there is no request in flight; `None` if there is one.
    idle_since: Mutex<Option<Instant>>,
    close: CancellationToken,
}

/// The place of one connection; dropping it frees the place.
pub(super) struct Slot {
    id: u64,
    slots: Arc<Slots>,
    activity: Arc<Activity>,
}

/// A request in flight; dropping it ends the request.
pub(super) struct Busy(Arc<Activity>);

impl Slots {
    pub(super) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound: bound.max(1), state: Mutex::default() })
    }

    /// Adds a connection. At the bound, closes the connection that has been idle for longest; if
    /// all are busy, returns `None`.
    pub(super) fn open(self: &Arc<Self>) -> Option<Slot> {
        let mut state = self.state.lock();
        if state.open.len() >= self.bound {
            let idle = |(id, activity): (&u64, &Arc<Activity>)| {
                activity.idle_since.lock().map(|since| (since, *id))
            };
            let (_, longest) = state.open.iter().filter_map(idle).min()?;
            // Removed here and not when its task has ended, so that the next new connection closes
            // another one.
            if let Some(closed) = state.open.remove(&longest) {
                closed.close.cancel();
            }
        }
        state.opened += 1;
        let activity = Arc::new(Activity {
            idle_since: Mutex::new(Some(Instant::now())),
            close: CancellationToken::new(),
        });
        let id = state.opened;
        state.open.insert(id, activity.clone());
        Some(Slot { id, slots: self.clone(), activity })
    }
}

impl Slot {
    /// Records a request in flight.
    pub(super) fn begin_request(&self) -> Busy {
        *self.activity.idle_since.lock() = None;
        Busy(self.activity.clone())
    }

    /// Waits until the connection is to be closed in favour of another one.
    pub(super) async fn closed(&self) {
        self.activity.close.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.state.lock().open.remove(&self.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Some(Instant::now());
    }
}
