//! All connections of a listener, by user, with their limits.
//!
//! File descriptors are scarce and a connection costs its client nothing, so the number of
//! connections is bounded: for anonymous clients, for each user, and in total. At a bound the
//! connection that has been idle for longest is closed. An anonymous connection is never preferred
//! to a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ListenOptions;

/// The open connections, by user and age.
#[derive(Debug)]
pub(super) struct Connections {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    total: usize,
    anonymous: usize,
    user: usize,
}

#[derive(Debug, Default)]
struct State {
    opened: u64,
    total: usize,
    anonymous: BTreeMap<u64, Arc<TrackedConnection>>,
    users: HashMap<Arc<str>, BTreeMap<u64, Arc<TrackedConnection>>>,
}

/// The state of one connection.
#[derive(Debug)]
pub(in crate::listen) struct TrackedConnection {
    id: u64,
    opened: Instant,
    all: Weak<Connections>,
    state: Mutex<Activity>,
    changed: Notify,
}

#[derive(Debug)]
struct Activity {
    user: Option<Arc<str>>,
    requests: usize,
    /// When the connection last became idle or busy.
    since: Instant,
    /// Whether the current HTTP/1 request is long-running; `None` for HTTP/2.
    http1_long_running: Option<Arc<AtomicBool>>,
    close_mode: CloseMode,
}

/// Whether and how a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CloseMode {
    KeepOpen,
    /// Finish the current requests and accept no more.
    Drain,
    /// Close immediately.
    Close,
}

/// The entry of a connection; dropping it removes the connection.
#[derive(Debug)]
pub(super) struct ConnectionGuard(Arc<TrackedConnection>);

/// A request being served; dropping it ends the request.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<TrackedConnection>);

// === impl Connections ===

impl Connections {
    /// Creates a registry with the bounds of `options`.
    pub(super) fn new(options: &ListenOptions) -> Arc<Self> {
        let total = options.connections_max.max(1);
        let bounds = Bounds {
            total,
            anonymous: options.anonymous_connections_max.clamp(1, total.div_ceil(4)),
            user: total.div_ceil(2),
        };
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// Adds a new connection, and closes an idle one if there are too many. Returns `None` if all
    /// are busy.
    pub(super) fn open(self: &Arc<Self>) -> Option<ConnectionGuard> {
        let mut state = self.lock();
        if state.anonymous.len() >= self.bounds.anonymous {
            // The oldest one, idle or not: requests without credentials are short.
            state.close_oldest_anonymous();
        } else if state.total >= self.bounds.total && !state.close_idle() {
            return None;
        }
        state.opened += 1;
        let now = Instant::now();
        let tracked = Arc::new(TrackedConnection {
            id: state.opened,
            opened: now,
            all: Arc::downgrade(self),
            state: Mutex::new(Activity {
                user: None,
                requests: 0,
                since: now,
                http1_long_running: None,
                close_mode: CloseMode::KeepOpen,
            }),
            changed: Notify::new(),
        });
        state.total += 1;
        state.anonymous.insert(tracked.id, tracked.clone());
        Some(ConnectionGuard(tracked))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn close_oldest_anonymous(&mut self) {
        // It is removed here and not when its task has ended, or all new connections meanwhile
        // would close the same one.
        if let Some((_, tracked)) = self.anonymous.pop_first() {
            self.total -= 1;
            tracked.request_close(CloseMode::Close);
        }
    }

    /// Closes an idle connection: an anonymous one, or one of the user with the most connections.
    fn close_idle(&mut self) -> bool {
        if !self.anonymous.is_empty() {
            self.close_oldest_anonymous();
            return true;
        }
        let most = self.users.iter().max_by_key(|(_, own)| own.len());
        let Some(user) = most.map(|(user, _)| user.clone()) else { return false };
        self.close_idle_of(&user)
    }

    /// Closes the connection of `user` that has been idle for longest.
    fn close_idle_of(&mut self, user: &Arc<str>) -> bool {
        let Some(own) = self.users.get(user) else { return false };
        let idle =
            own.values().filter_map(|tracked| Some((tracked.idle_since()?, tracked.clone())));
        let Some((_, tracked)) = idle.min_by_key(|(since, _)| *since) else { return false };
        self.remove(&tracked, Some(user));
        tracked.request_close(CloseMode::Close);
        true
    }

    fn remove(&mut self, tracked: &TrackedConnection, user: Option<&Arc<str>>) {
        let removed = match user {
            None => self.anonymous.remove(&tracked.id),
            Some(user) => {
                let own = self.users.get_mut(user);
                let removed = own.and_then(|own| own.remove(&tracked.id));
                if self.users.get(user).is_some_and(BTreeMap::is_empty) {
                    self.users.remove(user);
                }
                removed
            }
        };
        if removed.is_some() {
            self.total -= 1;
        }
    }
}

// === impl TrackedConnection ===

impl TrackedConnection {
    /// Assigns the connection to `user`. The first user of a connection keeps it.
    pub(in crate::listen) fn assign_user(self: &Arc<Self>, user: &Arc<str>) {
        if self.activity().user.is_some() {
            return;
        }
        let Some(all) = self.all.upgrade() else { return };
        let mut state = all.lock();
        if state.anonymous.remove(&self.id).is_none() {
            // Closed meanwhile.
            return;
        }
        let full = state.users.get(user).is_some_and(|own| own.len() >= all.bounds.user);
        if full && !state.close_idle_of(user) {
            state.total -= 1;
            self.request_close(CloseMode::Drain);
            return;
        }
        self.activity().user = Some(user.clone());
        state.users.entry(user.clone()).or_default().insert(self.id, self.clone());
    }

    /// Closes the connection after its current requests.
    pub(in crate::listen) fn drain(&self) {
        self.request_close(CloseMode::Drain);
    }

    pub(super) fn request_close(&self, mode: CloseMode) {
        let mut activity = self.activity();
        if activity.close_mode < mode {
            activity.close_mode = mode;
            self.changed.notify_one();
        }
    }

    /// Waits for a close mode other than `known`.
    pub(super) async fn close_mode_changed(&self, known: CloseMode) -> CloseMode {
        loop {
            let now = self.activity().close_mode;
            if now != known {
                return now;
            }
            self.changed.notified().await;
        }
    }

    /// Returns the next timeout of the connection, and how it is closed then.
    fn next_timeout(&self, options: &ListenOptions) -> Option<(Instant, CloseMode)> {
        let activity = self.activity();
        let current = match (&activity.user, activity.requests, &activity.http1_long_running) {
            (Some(_), 0, _) => Some((activity.since + options.idle_timeout, CloseMode::Drain)),
            (None, 0, _) => {
                Some((activity.since + options.anonymous_idle_timeout, CloseMode::Drain))
            }
            (_, _, Some(long_running)) if !long_running.load(Ordering::Relaxed) => {
                Some((activity.since + options.request_timeout, CloseMode::Close))
            }
            // Each HTTP/2 stream has its own timeout.
            _ => None,
        };
        let end = self.opened + options.anonymous_lifetime;
        let anonymous = activity.user.is_none().then_some((end, CloseMode::Drain));
        current.into_iter().chain(anonymous).min_by_key(|(when, _)| *when)
    }

    /// Returns how to close a connection that has been idle, busy with one HTTP/1 response, or
    /// anonymous for too long; otherwise when to check again.
    pub(super) fn check_timeouts(&self, options: &ListenOptions) -> Result<CloseMode, Instant> {
        let now = Instant::now();
        // Early enough for a request that begins meanwhile.
        let recheck = now + options.request_timeout;
        match self.next_timeout(options) {
            Some((when, mode)) if when <= now => Ok(mode),
            Some((when, _)) => Err(recheck.min(when)),
            None => Err(recheck),
        }
    }

    /// Returns whether no credentials have been accepted yet.
    pub(super) fn is_anonymous(&self) -> bool {
        self.activity().user.is_none()
    }

    /// Records a request; `http1_long_running` is set for HTTP/1.
    pub(super) fn begin_request(
        self: &Arc<Self>,
        http1_long_running: Option<Arc<AtomicBool>>,
    ) -> RequestGuard {
        let mut activity = self.activity();
        activity.requests += 1;
        activity.http1_long_running = http1_long_running;
        if activity.requests == 1 {
            activity.since = Instant::now();
        }
        drop(activity);
        RequestGuard(self.clone())
    }

    /// Returns whether no request is being served.
    pub(super) fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    /// Returns since when no request is being served, if none is.
    fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        (activity.requests == 0).then_some(activity.since)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.state.lock()
    }
}

impl ConnectionGuard {
    pub(super) fn tracked(&self) -> &Arc<TrackedConnection> {
        &self.0
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let Some(all) = self.0.all.upgrade() else { return };
        let mut state = all.lock();
        let user = self.0.activity().user.clone();
        state.remove(&self.0, user.as_ref());
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.requests -= 1;
        if activity.requests == 0 {
            activity.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
