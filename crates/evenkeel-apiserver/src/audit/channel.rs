//! Audit events for the same process.

use tokio::sync::mpsc;

use super::{Event, Sink};

/// Sends audit events to a [`Receiver`]. Events beyond its capacity are dropped.
#[derive(Clone, Debug)]
pub struct ChannelSink(mpsc::Sender<Event>);

/// Receives the audit events of a server.
#[derive(Debug)]
pub struct Receiver(mpsc::Receiver<Event>);

/// Returns a sink and its receiver, which holds up to `capacity` events.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use evenkeel_apiserver::ApiServer;
/// use evenkeel_apiserver::audit::{self, Level, Policy};
///
/// let (sink, mut events) = audit::channel(1000);
/// let server = ApiServer::builder().audit(Policy::all(Level::Metadata), sink).build().await?;
/// // … requests …
/// while let Some(event) = events.try_next() {
///     println!("{} {} {}", event.user.username, event.verb, event.request_uri);
/// }
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel(capacity: usize) -> (ChannelSink, Receiver) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (ChannelSink(sender), Receiver(receiver))
}

impl Sink for ChannelSink {
    fn process(&self, event: &Event) -> bool {
        self.0.try_send(event.clone()).is_ok()
    }
}

impl Receiver {
    /// Waits for the next event; `None` when the server is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// Returns the next event, if there is one.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}
