//! The seats and queues of one priority level.
//!
//! Follows upstream's fair queuing: a flow is dealt a few of the queues, and its request joins the
//! one with the least waiting work. A progress meter `r` advances with time at the rate at which
//! each busy queue is served; the queue whose next request would finish first in those terms is
//! served next. Work is in seat-seconds, estimated when a request is dispatched and corrected when
//! it ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{self, Instant};

use super::demand::{Demand, Observed};

/// How long a request is expected to take.
const SERVICE_SECONDS: f64 = 0.003;

/// What a priority level does with requests beyond its seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// It has no limit.
    Exempt,
    Reject,
    Queue {
        queues: usize,
        hand_size: usize,
        length: usize,
    },
}

/// The seats of a priority level.
pub(super) struct QueueSet(Mutex<State>);

struct State {
    response: Response,
    /// The number of seats.
    limit: usize,
    queues: Vec<Queue>,
    /// The progress meter, in seat-seconds, and when it was read.
    r: f64,
    read_at: Instant,
    /// The queue that was served last.
    robin: usize,
    enqueues: usize,
    next_id: u64,
    executing: usize,
    seats_in_use: usize,
    waiting: usize,
    seats_waiting: usize,
    demand: Demand,
    counts: Counts,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    executing: usize,
    seats_in_use: usize,
    /// The reading of the meter at which the next request begins.
    next_r: f64,
}

struct Waiting {
    id: u64,
    seats: usize,
    arrival_r: f64,
    grant: oneshot::Sender<Seats>,
}

/// The requests of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) dispatched: u64,
    pub(crate) rejected: u64,
    pub(crate) timed_out: u64,
    pub(crate) executing: usize,
    pub(crate) waiting: usize,
    pub(crate) limit: usize,
}

/// Seats that a request occupies until it is dropped.
pub(crate) struct Seats {
    /// `None` if they were returned already.
    set: Option<Arc<QueueSet>>,
    queue: Option<usize>,
    seats: usize,
    started: Instant,
}

impl std::fmt::Debug for Seats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Seats").field(&self.seats).finish()
    }
}

/// A place in a queue, left when it is dropped.
struct Place<'a> {
    set: &'a QueueSet,
    queue: usize,
    id: u64,
}

/// What happens to a new request.
enum Started {
    Granted(Seats),
    Queued { queue: usize, id: u64, grant: oneshot::Receiver<Seats> },
    Rejected,
}

impl QueueSet {
    pub(super) fn new(response: Response, limit: usize) -> Self {
        let now = Instant::now();
        let mut state = State {
            response,
            limit,
            queues: Vec::new(),
            r: 0.0,
            read_at: now,
            robin: 0,
            enqueues: 0,
            next_id: 0,
            executing: 0,
            seats_in_use: 0,
            waiting: 0,
            seats_waiting: 0,
            demand: Demand::new(now),
            counts: Counts::default(),
        };
        state.add_queues();
        Self(Mutex::new(state))
    }

    /// Waits for `seats`, at most for `wait`. The flow of the request is `hash`.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        hash: u64,
        seats: usize,
        wait: Duration,
    ) -> Option<Seats> {
        match self.start(hash, seats) {
            Started::Granted(seats) => Some(seats),
            Started::Rejected => None,
            Started::Queued { queue, id, grant } => {
                let _place = Place { set: self, queue, id };
                time::timeout(wait, grant).await.ok()?.ok()
            }
        }
    }

    fn start(self: &Arc<Self>, hash: u64, seats: usize) -> Started {
        let state = &mut *self.0.lock();
        state.advance();
        let Response::Queue { queues, hand_size, length } = state.response else {
            if !state.has_room(seats) {
                state.counts.rejected += 1;
                return Started::Rejected;
            }
            state.occupy(None, seats);
            return Started::Granted(self.seats(state, None, seats));
        };
        let index = state.choose_queue(hash, queues, hand_size);
        if state.seats_in_use >= state.limit && state.queues[index].waiting.len() >= length {
            state.counts.rejected += 1;
            return Started::Rejected;
        }
        let (grant, granted) = oneshot::channel();
        let id = state.next_id;
        state.next_id += 1;
        let r = state.r;
        let queue = &mut state.queues[index];
        if queue.is_idle() {
            queue.next_r = r;
        }
        queue.waiting.push_back(Waiting { id, seats, arrival_r: r, grant });
        state.waiting += 1;
        state.seats_waiting += seats;
        state.queues[index].bound_next();
        state.note_demand();
        self.dispatch(state);
        Started::Queued { queue: index, id, grant: granted }
    }

    /// Sets the response and the number of seats, and serves what fits now.
    pub(super) fn configure(self: &Arc<Self>, response: Response, limit: usize) {
        let state = &mut *self.0.lock();
        state.advance();
        state.response = response;
        state.limit = limit;
        state.add_queues();
        self.dispatch(state);
    }

    /// Returns the demand for seats since the last call.
    pub(super) fn take_demand(&self) -> Observed {
        let state = &mut *self.0.lock();
        state.demand.take(Instant::now())
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.0.lock();
        let (executing, waiting, limit) = (state.executing, state.waiting, state.limit);
        Counts { executing, waiting, limit, ..state.counts }
    }

    fn seats(self: &Arc<Self>, state: &State, queue: Option<usize>, seats: usize) -> Seats {
        Seats { set: Some(self.clone()), queue, seats, started: state.read_at }
    }

    /// Serves queued requests as long as seats are free.
    fn dispatch(self: &Arc<Self>, state: &mut State) {
        while state.waiting > 0 && state.seats_in_use < state.limit {
            let Some(index) = state.next_queue() else { return };
            let Some(request) = state.queues[index].waiting.pop_front() else { return };
            state.waiting -= 1;
            state.seats_waiting -= request.seats;
            state.occupy(Some(index), request.seats);
            let seats = self.seats(state, Some(index), request.seats);
            match request.grant.send(seats) {
                Ok(()) => state.queues[index].next_r += work(request.seats),
                // The request was cancelled; its seats must not be returned under this lock.
                Err(mut seats) => {
                    seats.set = None;
                    state.vacate(Some(index), request.seats);
                    state.counts.dispatched -= 1;
                }
            }
            state.queues[index].bound_next();
        }
    }
}

impl State {
    fn add_queues(&mut self) {
        if let Response::Queue { queues, .. } = self.response
            && queues > self.queues.len()
        {
            // There are never fewer: those beyond the configured number are no longer dealt.
            self.queues.resize_with(queues, Queue::default);
        }
    }

    /// Advances the progress meter to now.
    fn advance(&mut self) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.read_at).as_secs_f64();
        self.read_at = now;
        let busy = self.queues.iter().filter(|queue| !queue.is_idle()).count();
        if busy > 0 {
            let wanted = (self.seats_in_use + self.seats_waiting).min(self.limit);
            self.r += passed * wanted as f64 / busy as f64;
        }
    }

    /// Deals the flow a hand of queues, and returns the one with the least waiting work.
    fn choose_queue(&mut self, hash: u64, queues: usize, hand_size: usize) -> usize {
        let hand = deal(hash, queues, hand_size);
        let offset = self.enqueues % hand.len().max(1);
        self.enqueues = self.enqueues.wrapping_add(1);
        let seats = |index: &usize| -> usize {
            self.queues[*index].waiting.iter().map(|request| request.seats).sum()
        };
        let (after, before) = hand.split_at(offset);
        before.iter().chain(after).copied().min_by_key(seats).unwrap_or(0)
    }

    /// Returns the queue whose oldest request would finish first, if it can be served now.
    fn next_queue(&mut self) -> Option<usize> {
        let mut best: Option<(usize, f64, usize)> = None;
        for step in 1..=self.queues.len() {
            let index = (self.robin + step) % self.queues.len();
            let queue = &self.queues[index];
            let Some(oldest) = queue.waiting.front() else { continue };
            let finish = queue.next_r + work(oldest.seats);
            if best.is_none_or(|(_, first, _)| finish < first) {
                best = Some((index, finish, oldest.seats));
            }
        }
        let (index, _, seats) = best?;
        if !self.has_room(seats) {
            return None;
        }
        self.robin = index;
        Some(index)
    }

    fn has_room(&self, seats: usize) -> bool {
        match self.response {
            Response::Exempt => true,
            // A request with more seats than there are waits until it is alone.
            _ if seats > self.limit => self.executing == 0,
            _ => self.seats_in_use + seats <= self.limit,
        }
    }

    fn occupy(&mut self, queue: Option<usize>, seats: usize) {
        self.executing += 1;
        self.seats_in_use += seats;
        self.counts.dispatched += 1;
        if let Some(queue) = queue.and_then(|index| self.queues.get_mut(index)) {
            queue.executing += 1;
            queue.seats_in_use += seats;
        }
        self.note_demand();
    }

    fn vacate(&mut self, queue: Option<usize>, seats: usize) {
        self.executing -= 1;
        self.seats_in_use -= seats;
        if let Some(queue) = queue.and_then(|index| self.queues.get_mut(index)) {
            queue.executing -= 1;
            queue.seats_in_use -= seats;
        }
        self.note_demand();
    }

    fn note_demand(&mut self) {
        self.demand.set(self.read_at, self.seats_in_use + self.seats_waiting);
    }
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }

    /// A request cannot have begun before it arrived.
    fn bound_next(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_r = self.next_r.max(oldest.arrival_r);
        }
    }
}

/// Returns the expected work of a request, in seat-seconds.
fn work(seats: usize) -> f64 {
    seats as f64 * SERVICE_SECONDS
}

/// Deals `hand_size` different cards of a deck, by upstream's shuffle sharding.
fn deal(mut hash: u64, deck: usize, hand_size: usize) -> Vec<usize> {
    let hand_size = hand_size.clamp(1, deck.max(1));
    let mut remainders = Vec::with_capacity(hand_size);
    let mut hand = Vec::with_capacity(hand_size);
    for index in 0..hand_size {
        let cards = (deck - index).max(1) as u64;
        remainders.push((hash % cards) as usize);
        hash /= cards;
        let mut card = remainders[index];
        for earlier in remainders[..index].iter().rev() {
            if card >= *earlier {
                card += 1;
            }
        }
        hand.push(card);
    }
    hand
}

impl Drop for Seats {
    fn drop(&mut self) {
        let Some(set) = self.set.take() else { return };
        let state = &mut *set.0.lock();
        state.advance();
        state.vacate(self.queue, self.seats);
        if let Some(queue) = self.queue.and_then(|index| state.queues.get_mut(index)) {
            // Corrects the work that was expected when the request was dispatched.
            let took = state.read_at.saturating_duration_since(self.started).as_secs_f64();
            queue.next_r -= self.seats as f64 * (SERVICE_SECONDS - took);
            queue.bound_next();
        }
        set.dispatch(state);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let state = &mut *self.set.0.lock();
        state.advance();
        let queue = &mut state.queues[self.queue];
        // It is not there if seats were granted.
        if let Some(at) = queue.waiting.iter().position(|request| request.id == self.id)
            && let Some(request) = queue.waiting.remove(at)
        {
            queue.bound_next();
            state.waiting -= 1;
            state.seats_waiting -= request.seats;
            state.counts.timed_out += 1;
            state.note_demand();
        }
    }
}

#[cfg(test)]
mod tests;
