//! All connections of a listener: whose they are, how many there may be, which one has to go.
//!
//! File descriptors are few and a connection costs its client nothing, so the number of connections
//! is bounded: for clients without credentials, for each user, and in all. At a bound the
//! connection that has been idle for longest makes room. One that has not presented credentials is
//! never worth more than a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Options;

/// The open connections, by owner and age.
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
    anonymous: BTreeMap<u64, Arc<Life>>,
    users: HashMap<Arc<str>, BTreeMap<u64, Arc<Life>>>,
}

/// What one connection is doing.
#[derive(Debug)]
pub(in crate::listen) struct Life {
    id: u64,
    opened: Instant,
    all: Weak<Connections>,
    state: Mutex<Doing>,
    changed: Notify,
}

#[derive(Debug)]
struct Doing {
    owner: Option<Arc<str>>,
    requests: usize,
    /// When the number of requests last became or ceased to be zero.
    since: Instant,
    /// Of the request under way over HTTP/1, which has one at a time: whether it has no end.
    single: Option<Arc<AtomicBool>>,
    order: Order,
}

/// What a connection is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Go,
    /// Finish the requests at hand and take no more.
    Retire,
    /// End now.
    Cut,
}

/// A connection's place among the others; dropping it leaves.
#[derive(Debug)]
pub(super) struct Member(Arc<Life>);

/// A request being served; dropping it ends it.
#[derive(Debug)]
pub(super) struct Request(Arc<Life>);

// === impl Connections ===

impl Connections {
    /// Bounds that `options` and the number of files the process may open set.
    pub(super) fn new(options: &Options) -> Arc<Self> {
        let total = options.connections_max.max(1);
        let bounds = Bounds {
            total,
            anonymous: options.anonymous_connections_max.clamp(1, total.div_ceil(4)),
            user: total.div_ceil(2),
        };
        Arc::new(Self { bounds, state: Mutex::default() })
    }

    /// Takes in a new connection, at the expense of an idle one if there are too many. `None` if
    /// all are busy.
    pub(super) fn open(self: &Arc<Self>) -> Option<Member> {
        let mut state = self.lock();
        if state.anonymous.len() >= self.bounds.anonymous {
            // The first in line, idle or not: a request without credentials is answered at once.
            state.cut_oldest_anonymous();
        } else if state.total >= self.bounds.total && !state.cut_idle() {
            return None;
        }
        state.opened += 1;
        let now = Instant::now();
        let life = Arc::new(Life {
            id: state.opened,
            opened: now,
            all: Arc::downgrade(self),
            state: Mutex::new(Doing {
                owner: None,
                requests: 0,
                since: now,
                single: None,
                order: Order::Go,
            }),
            changed: Notify::new(),
        });
        state.total += 1;
        state.anonymous.insert(life.id, life.clone());
        Some(Member(life))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cut_oldest_anonymous(&mut self) {
        // It leaves the count here and not when its task has ended, or all that come meanwhile
        // would cut the same one.
        if let Some((_, life)) = self.anonymous.pop_first() {
            self.total -= 1;
            life.order(Order::Cut);
        }
    }

    /// Cuts an idle connection: one without credentials, else one of the user with most of them.
    fn cut_idle(&mut self) -> bool {
        if !self.anonymous.is_empty() {
            self.cut_oldest_anonymous();
            return true;
        }
        let most = self.users.iter().max_by_key(|(_, own)| own.len());
        let Some(user) = most.map(|(user, _)| user.clone()) else { return false };
        self.cut_idle_of(&user)
    }

    /// Cuts the connection of `user` that has been idle for longest.
    fn cut_idle_of(&mut self, user: &Arc<str>) -> bool {
        let Some(own) = self.users.get(user) else { return false };
        let idle = own.values().filter_map(|life| Some((life.idle_since()?, life.clone())));
        let Some((_, life)) = idle.min_by_key(|(since, _)| *since) else { return false };
        self.remove(&life, Some(user));
        life.order(Order::Cut);
        true
    }

    fn remove(&mut self, life: &Life, owner: Option<&Arc<str>>) {
        let removed = match owner {
            None => self.anonymous.remove(&life.id),
            Some(owner) => {
                let own = self.users.get_mut(owner);
                let removed = own.and_then(|own| own.remove(&life.id));
                if self.users.get(owner).is_some_and(BTreeMap::is_empty) {
                    self.users.remove(owner);
                }
                removed
            }
        };
        if removed.is_some() {
            self.total -= 1;
        }
    }
}

// === impl Life ===

impl Life {
    /// Makes the connection `user`'s. The first user of a connection keeps it.
    pub(in crate::listen) fn promote(self: &Arc<Self>, user: &Arc<str>) {
        if self.doing().owner.is_some() {
            return;
        }
        let Some(all) = self.all.upgrade() else { return };
        let mut state = all.lock();
        if state.anonymous.remove(&self.id).is_none() {
            // Cut meanwhile.
            return;
        }
        let full = state.users.get(user).is_some_and(|own| own.len() >= all.bounds.user);
        if full && !state.cut_idle_of(user) {
            state.total -= 1;
            self.order(Order::Retire);
            return;
        }
        self.doing().owner = Some(user.clone());
        state.users.entry(user.clone()).or_default().insert(self.id, self.clone());
    }

    /// Lets the connection end with its requests.
    pub(in crate::listen) fn drain(&self) {
        self.order(Order::Retire);
    }

    pub(super) fn order(&self, order: Order) {
        let mut doing = self.doing();
        if doing.order < order {
            doing.order = order;
            self.changed.notify_one();
        }
    }

    /// Waits for an order other than `known`.
    pub(super) async fn ordered(&self, known: Order) -> Order {
        loop {
            let now = self.doing().order;
            if now != known {
                return now;
            }
            self.changed.notified().await;
        }
    }

    /// What becomes of the connection if it goes on like this, and when.
    fn limit(&self, options: &Options) -> Option<(Instant, Order)> {
        let doing = self.doing();
        let current = match (&doing.owner, doing.requests, &doing.single) {
            (Some(_), 0, _) => Some((doing.since + options.idle_timeout, Order::Retire)),
            (None, 0, _) => Some((doing.since + options.anonymous_idle_timeout, Order::Retire)),
            (_, _, Some(endless)) if !endless.load(Ordering::Relaxed) => {
                Some((doing.since + options.request_timeout, Order::Cut))
            }
            // The streams of HTTP/2 each have a limit of their own.
            _ => None,
        };
        let end = self.opened + options.anonymous_lifetime;
        let stranger = doing.owner.is_none().then_some((end, Order::Retire));
        current.into_iter().chain(stranger).min_by_key(|(when, _)| *when)
    }

    /// What is to become of a connection that has been idle, busy with one answer, or without
    /// credentials for too long; or when to ask again.
    pub(super) fn overdue(&self, options: &Options) -> Result<Order, Instant> {
        let now = Instant::now();
        // Soon enough for a request that begins meanwhile.
        let look = now + options.request_timeout;
        match self.limit(options) {
            Some((when, order)) if when <= now => Ok(order),
            Some((when, _)) => Err(look.min(when)),
            None => Err(look),
        }
    }

    /// Whether no credentials have been accepted yet.
    pub(super) fn is_anonymous(&self) -> bool {
        self.doing().owner.is_none()
    }

    /// Takes note of a request; `single` is set for HTTP/1 and tells whether it has no end.
    pub(super) fn begin_request(self: &Arc<Self>, single: Option<Arc<AtomicBool>>) -> Request {
        let mut doing = self.doing();
        doing.requests += 1;
        doing.single = single;
        if doing.requests == 1 {
            doing.since = Instant::now();
        }
        drop(doing);
        Request(self.clone())
    }

    /// Whether no request is served.
    pub(super) fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    /// Since when no request is served, if none is.
    fn idle_since(&self) -> Option<Instant> {
        let doing = self.doing();
        (doing.requests == 0).then_some(doing.since)
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    pub(super) fn life(&self) -> &Arc<Life> {
        &self.0
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Some(all) = self.0.all.upgrade() else { return };
        let mut state = all.lock();
        let owner = self.0.doing().owner.clone();
        state.remove(&self.0, owner.as_ref());
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut doing = self.0.doing();
        doing.requests -= 1;
        if doing.requests == 0 {
            doing.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests;
