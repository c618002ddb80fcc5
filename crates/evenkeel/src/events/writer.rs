//! The task that writes events to the API server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::series::SeriesWriter;
use super::{Counters, PendingEvent};
use crate::clock::Clock;
use crate::random::Random;

/// How long the writer may take to write the queued events after the manager has stopped.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the series are checked for counts to write.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The task that writes queued events.
pub(crate) struct EventWriter {
    pub(super) receiver: Mutex<mpsc::Receiver<PendingEvent>>,
    pub(super) counters: Arc<Counters>,
}

impl EventWriter {
    /// Writes events until `stop` is cancelled, then the queued ones and the counts of all series
    /// within [`FLUSH_TIMEOUT`].
    pub(crate) async fn run(&self, clock: Clock, random: Random, stop: CancellationToken) {
        let mut receiver = self.receiver.lock().await;
        let mut series = SeriesWriter::new(clock, random, self.counters.clone());
        let write = async {
            let mut check = Instant::now() + CHECK_INTERVAL;
            loop {
                let idle = series.is_empty();
                let next = tokio::select! {
                    biased;
                    () = sleep_until(check), if !idle => {
                        series.check().await;
                        check = Instant::now() + CHECK_INTERVAL;
                        continue;
                    }
                    next = receiver.recv() => next,
                    () = stop.cancelled() => None,
                };
                let Some(event) = next else { break };
                if idle {
                    check = Instant::now() + CHECK_INTERVAL;
                }
                series.write(event).await;
            }
            series.flush().await;
        };
        let flush_timeout = async {
            stop.cancelled().await;
            sleep(FLUSH_TIMEOUT).await;
        };
        // What is not written by then is dropped.
        tokio::select! {
            biased;
            () = write => {}
            () = flush_timeout => {}
        }
    }
}
