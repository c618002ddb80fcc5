//! The only writer of a durable store: batches writes, logs them with one flush, and publishes
//! them.
//!
//! It runs on its own thread, which ends when the last handle of the store is dropped. The order
//! matters: conditions are checked against memory and the batch so far, the batch is written to
//! disk, then it becomes visible, then it is acknowledged. A batch that cannot be written leaves
//! nothing behind; the next one is tried again.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::codec::put_event;
use super::log::Log;
use super::snapshot;
use crate::storage::table::TableInner;
use crate::storage::write::Change;
use crate::storage::{Event, Key, Record, Shared, WriteError, wake_all};

/// Queued writes before writers wait.
const QUEUE: usize = 1024;
/// The maximum number of writes in a batch.
const BATCH_WRITES: usize = 1024;
/// The maximum number of bytes in a batch.
const BATCH_BYTES: usize = 8 << 20;

type Outcome = Result<Arc<Record>, WriteError>;

/// The handle of the committer's thread. Dropping it waits until everything is written and the
/// thread has ended.
pub(in crate::storage) struct Committer {
    /// `None` only while being dropped.
    requests: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<WriteError>>>,
}

enum Message {
    Write(Request),
    /// Checks whether the disk accepts writes again.
    Probe,
}

struct Request {
    table: Arc<TableInner>,
    key: Key,
    change: Change,
    reply: oneshot::Sender<Outcome>,
}

/// A request with its outcome.
struct Decided {
    table: Arc<TableInner>,
    reply: oneshot::Sender<Outcome>,
    outcome: Result<Event, WriteError>,
}

/// The state of the thread.
struct Worker {
    shared: Arc<Shared>,
    log: Log,
    /// Why the last batch could not be written.
    failure: Arc<Mutex<Option<WriteError>>>,
    snapshot: Option<Snapshot>,
    closing: Arc<AtomicBool>,
    /// The size of the log below which no snapshot is written.
    floor: u64,
    /// The size of the log at which the live data is measured again.
    check_at: u64,
}

/// A snapshot being written.
struct Snapshot {
    thread: JoinHandle<io::Result<()>>,
    /// The size of the log it will replace.
    replaces: u64,
}

// === impl Committer ===

impl Committer {
    pub(super) fn start(shared: Arc<Shared>, log: Log, floor: u64) -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let mut worker = Worker::new(shared, log, floor);
        let (closing, failure) = (worker.closing.clone(), worker.failure.clone());
        let thread = thread::Builder::new().name("storage-commit".into());
        let thread = thread.spawn(move || worker.run(inbox))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), closing, failure })
    }

    pub(in crate::storage) async fn write(
        &self,
        table: Arc<TableInner>,
        key: Key,
        change: Change,
    ) -> Outcome {
        let closed = || WriteError::Unavailable("its thread has ended".into());
        let (reply, outcome) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(closed)?;
        let request = Request { table, key, change, reply };
        requests.send(Message::Write(request)).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }

    /// Returns why writes currently fail. Also retries the disk, so that an idle server detects
    /// freed space.
    pub(in crate::storage) fn failure(&self) -> Option<WriteError> {
        let failure = self.failure.lock().clone()?;
        if let Some(requests) = &self.requests {
            // If the queue is full, the next write retries.
            drop(requests.try_send(Message::Probe));
        }
        Some(failure)
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("storage thread panicked");
        }
    }
}

// === impl Worker ===

impl Worker {
    fn new(shared: Arc<Shared>, log: Log, floor: u64) -> Self {
        let (failure, closing) = (Arc::default(), Arc::default());
        Self { shared, log, failure, snapshot: None, closing, floor, check_at: floor }
    }

    fn run(&mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut batch = Vec::new();
        while let Some(message) = inbox.blocking_recv() {
            let (mut bytes, mut probe) = (0, false);
            let mut next = Some(message);
            while let Some(message) = next {
                match message {
                    Message::Write(request) => {
                        bytes += request.size();
                        batch.push(request);
                    }
                    Message::Probe => probe = true,
                }
                let full = batch.len() >= BATCH_WRITES || bytes >= BATCH_BYTES;
                next = if full { None } else { inbox.try_recv().ok() };
            }
            if !batch.is_empty() {
                self.commit(&mut batch);
                self.snapshot_if_due();
            } else if probe {
                self.probe();
            }
        }
        if let Some(snapshot) = self.snapshot.take() {
            self.finish(snapshot);
        }
    }

    fn commit(&mut self, batch: &mut Vec<Request>) {
        let decided = self.decide(batch);
        let changes = decided.iter().any(|it| it.outcome.is_ok());
        if changes && let Err(error) = self.log.commit() {
            let failure = self.fail(&error);
            for Decided { reply, .. } in decided {
                // Also for rejected requests: they may depend on a write that failed in this batch.
                send_reply(reply, Err(failure.clone()));
            }
            return;
        }
        if changes {
            // Before the replies are sent, so that a client with a reply finds the server healthy.
            self.recovered();
        }
        self.publish(decided);
        if changes {
            self.log.acknowledge(self.shared.revision());
        }
    }

    fn probe(&mut self) {
        if self.failure.lock().is_some() {
            match self.log.probe() {
                Ok(()) => self.recovered(),
                Err(error) => drop(self.fail(&error)),
            }
        }
    }

    /// Decides each request against memory and the requests before it, and encodes the accepted
    /// ones.
    fn decide(&mut self, batch: &mut Vec<Request>) -> Vec<Decided> {
        let mut next = self.shared.revision() + 1;
        self.log.begin(next);
        // Used for lookups only, so its order does not matter.
        let mut pending: HashMap<(*const TableInner, Key), Option<Arc<Record>>> = HashMap::new();
        let decide = |Request { table, key, change, reply }: Request| {
            let entry = (Arc::as_ptr(&table), key);
            let key = &entry.1;
            let outcome = match pending.get(&entry) {
                Some(current) => change.decide(key, current.as_ref(), next),
                None => {
                    let current = table.state.read().get(key).cloned();
                    change.decide(key, current.as_ref(), next)
                }
            };
            if let Ok(event) = &outcome {
                put_event(&mut self.log.buffer, &table.name, event);
                pending.insert(entry, (!event.deleted).then(|| event.record.clone()));
                next += 1;
            }
            Decided { table, reply, outcome }
        };
        batch.drain(..).map(decide).collect()
    }

    fn publish(&self, decided: Vec<Decided>) {
        let mut wake = Vec::with_capacity(decided.len());
        let mut replies = Vec::with_capacity(decided.len());
        for Decided { table, reply, outcome } in decided {
            let outcome = outcome.map(|event| {
                let record = event.record.clone();
                wake.push(self.shared.publish(&table, table.state.write(), event));
                record
            });
            replies.push((reply, outcome));
        }
        wake.into_iter().for_each(wake_all);
        for (reply, outcome) in replies {
            send_reply(reply, outcome);
        }
    }

    /// Starts a snapshot when the log has outgrown the data in it.
    fn snapshot_if_due(&mut self) {
        match self.snapshot.take() {
            Some(running) if !running.thread.is_finished() => {
                self.snapshot = Some(running);
                return;
            }
            Some(done) => self.finish(done),
            None => {}
        }
        if self.log.bytes < self.check_at || self.failure.lock().is_some() {
            return;
        }
        let limit = self.floor + 2 * self.shared.live_bytes();
        if self.log.bytes < limit {
            self.check_at = limit;
            return;
        }
        self.check_at = self.log.bytes + self.floor;
        self.start_snapshot();
    }

    fn start_snapshot(&mut self) {
        let revision = self.shared.revision();
        // There is no other publisher, so this is the current revision, which can always be pinned.
        let Ok(tables) = self.shared.pin_all(revision) else { return };
        let replaces = self.log.bytes;
        if let Err(error) = self.log.rotate(revision) {
            self.abandon_snapshot(0, &error);
            return;
        }
        self.check_at = self.floor;
        let (dir, closing) = (self.log.dir().to_owned(), self.closing.clone());
        let work = move || snapshot::write(&dir, revision, &tables, &closing);
        match thread::Builder::new().name("storage-snapshot".into()).spawn(work) {
            Ok(thread) => self.snapshot = Some(Snapshot { thread, replaces }),
            Err(error) => self.abandon_snapshot(replaces, &error),
        }
    }

    fn finish(&mut self, snapshot: Snapshot) {
        match snapshot.thread.join() {
            Ok(Ok(())) => tracing::debug!(bytes = snapshot.replaces, "a snapshot replaced the log"),
            Ok(Err(error)) => self.abandon_snapshot(snapshot.replaces, &error),
            Err(_) => {
                let panicked = io::Error::other("the snapshot thread panicked");
                self.abandon_snapshot(snapshot.replaces, &panicked);
            }
        }
    }

    /// Keeps the existing logs; the next attempt is made after another `floor` bytes.
    fn abandon_snapshot(&mut self, replaces: u64, error: &io::Error) {
        if !self.closing.load(Ordering::Relaxed) {
            tracing::warn!(%error, "cannot write a snapshot; the log keeps growing");
        }
        self.log.bytes += replaces;
        self.check_at = self.log.bytes + self.floor;
    }

    fn fail(&self, error: &io::Error) -> WriteError {
        let path = self.log.path().display();
        let reason: Arc<str> = format!("cannot write {path}: {error}").into();
        let failure = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                WriteError::NoSpace(reason)
            }
            _ => WriteError::Unavailable(reason),
        };
        if self.failure.lock().replace(failure.clone()).is_none() {
            tracing::error!(%path, %error, "cannot write the log; rejecting writes");
        }
        failure
    }

    fn recovered(&self) {
        if self.failure.lock().take().is_some() {
            let path = self.log.path().display();
            tracing::warn!(%path, "the log can be written again; accepting writes");
        }
    }
}

impl Request {
    fn size(&self) -> usize {
        match &self.change {
            Change::Create(unsaved) | Change::Update { unsaved, .. } => unsaved.size(),
            Change::Delete { .. } => 0,
        }
    }
}

fn send_reply(reply: oneshot::Sender<Outcome>, outcome: Outcome) {
    // The writer may no longer wait for it.
    drop(reply.send(outcome));
}

/// Commits in the thread of a test, so that its seed determines the order of all changes.
#[cfg(test)]
pub(super) struct Inline(Worker);

#[cfg(test)]
impl Inline {
    pub(super) fn new(shared: Arc<Shared>, log: Log, floor: u64) -> Self {
        Self(Worker::new(shared, log, floor))
    }

    /// Commits one batch and returns the outcome of each write.
    pub(super) fn commit(&mut self, batch: Vec<(Arc<TableInner>, Key, Change)>) -> Vec<Outcome> {
        let (mut requests, mut outcomes) = (Vec::new(), Vec::new());
        for (table, key, change) in batch {
            let (reply, outcome) = oneshot::channel();
            requests.push(Request { table, key, change, reply });
            outcomes.push(outcome);
        }
        self.0.commit(&mut requests);
        outcomes.into_iter().map(|mut outcome| outcome.try_recv().unwrap()).collect()
    }

    /// Starts a snapshot if it is due, and waits for its end.
    pub(super) fn snapshot_if_due(&mut self) {
        self.0.snapshot_if_due();
        if let Some(snapshot) = self.0.snapshot.take() {
            self.0.finish(snapshot);
        }
    }
}
