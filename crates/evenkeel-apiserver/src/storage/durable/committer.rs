//! The one writer of a durable store: gathers writes, logs them with one flush, publishes them.
//!
//! It runs on a thread of its own, which ends when the last handle of the store goes. Order is
//! everything: conditions are checked against memory and the batch so far, the batch reaches the
//! disk, then it becomes visible, then it is acknowledged. A batch that does not reach the disk
//! leaves nothing behind; the next one is tried anew.

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

/// Writes that may wait before writers themselves do.
const QUEUE: usize = 1024;
/// A batch is full at this many writes, or
const BATCH_WRITES: usize = 1024;
/// with this many bytes.
const BATCH_BYTES: usize = 8 << 20;

type Outcome = Result<Arc<Record>, WriteError>;

/// The way to the committer's thread. Dropping it waits until all is written and the thread gone.
pub(in crate::storage) struct Committer {
    /// None only while being dropped.
    requests: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<WriteError>>>,
}

enum Message {
    Write(Request),
    /// Try whether the disk takes writes again.
    Probe,
}

struct Request {
    table: Arc<TableInner>,
    key: Key,
    change: Change,
    reply: oneshot::Sender<Outcome>,
}

/// A request with its fate.
struct Decided {
    table: Arc<TableInner>,
    reply: oneshot::Sender<Outcome>,
    outcome: Result<Event, WriteError>,
}

/// What lives on the thread.
struct Worker {
    shared: Arc<Shared>,
    log: Log,
    /// Why the last batch could not be written.
    failure: Arc<Mutex<Option<WriteError>>>,
    snapshot: Option<Snapshot>,
    closing: Arc<AtomicBool>,
    /// The log may always grow to this before a snapshot is thought of.
    floor: u64,
    /// The length of the log at which to look at the live data again.
    check_at: u64,
}

/// A snapshot being written.
struct Snapshot {
    thread: JoinHandle<io::Result<()>>,
    /// The length of the log it will replace.
    replaces: u64,
}

// === impl Committer ===

impl Committer {
    pub(super) fn start(shared: Arc<Shared>, log: Log, floor: u64) -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel(QUEUE);
        let closing = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(Mutex::new(None));
        let mut worker = Worker {
            shared,
            log,
            failure: failure.clone(),
            snapshot: None,
            closing: closing.clone(),
            floor,
            check_at: floor,
        };
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

    /// Why writes are refused at present. Also has the disk tried again, so that an idle server
    /// notices when there is space.
    pub(in crate::storage) fn failure(&self) -> Option<WriteError> {
        let failure = self.failure.lock().clone()?;
        if let Some(requests) = &self.requests {
            // With a full queue the next write tries.
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
            tracing::error!("the storage thread has panicked");
        }
    }
}

// === impl Worker ===

impl Worker {
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
                // Refusals too: they may rest on what has just failed to be written.
                send_reply(reply, Err(failure.clone()));
            }
            return;
        }
        if changes {
            // Before the writers get their answers: a client that got one finds the server healthy.
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

    /// Settles each request against memory and those before it, and encodes the accepted ones.
    fn decide(&mut self, batch: &mut Vec<Request>) -> Vec<Decided> {
        let mut next = self.shared.revision() + 1;
        self.log.begin(next);
        // Only ever looked up in, so its order does not matter.
        let mut pending: HashMap<(*const TableInner, Key), Option<Arc<Record>>> = HashMap::new();
        let decide = |Request { table, key, change, reply }: Request| {
            let place = (Arc::as_ptr(&table), key);
            let key = &place.1;
            let outcome = match pending.get(&place) {
                Some(current) => change.decide(key, current.as_ref(), next),
                None => {
                    let current = table.state.read().get(key).cloned();
                    change.decide(key, current.as_ref(), next)
                }
            };
            if let Ok(event) = &outcome {
                put_event(&mut self.log.buffer, &table.name, event);
                pending.insert(place, (!event.deleted).then(|| event.record.clone()));
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

    /// Has a snapshot written when the log has outgrown the data in it.
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
        // Nobody else publishes, so this is the present, which can always be pinned.
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
                let panicked = io::Error::other("its thread has panicked");
                self.abandon_snapshot(snapshot.replaces, &panicked);
            }
        }
    }

    /// The logs so far stay, and the next attempt waits until there is a floor's worth more.
    fn abandon_snapshot(&mut self, replaces: u64, error: &io::Error) {
        if !self.closing.load(Ordering::Relaxed) {
            tracing::warn!(%error, "cannot write a snapshot; the log goes on growing");
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
            tracing::error!(%path, %error, "cannot write the log; refusing writes until it can be");
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
    // A writer that no longer waits does not want to know.
    drop(reply.send(outcome));
}
