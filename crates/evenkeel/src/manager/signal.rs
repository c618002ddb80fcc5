//! Signals: the first ends in order, the second at once, and so does the end of the grace period.
//!
//! They are waited for in a thread of their own. The threads of the program's runtime may all be
//! blocked, by a reconciler that does not await, and then no task of theirs would ever notice.

use std::time::Duration;

use tokio::sync::oneshot;

/// How much longer than the grace period an orderly end may take, for what comes after it.
const MARGIN: Duration = Duration::from_millis(500);

/// Calls `first` on the first SIGINT or SIGTERM. Ends the process on the second, or when the grace
/// period is over. Returns as soon as signals are handled.
pub(super) async fn watch(grace: Option<Duration>, first: impl FnOnce() + Send + 'static) {
    let (ready, is_ready) = oneshot::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(listen(ready, grace, first)),
            Err(error) => tracing::warn!(%error, "signals are not handled"),
        }
    };
    // The thread lasts as long as the process: once signals are handled, the system no longer ends
    // the process by itself.
    if let Err(error) = std::thread::Builder::new().name("signals".to_owned()).spawn(listen) {
        tracing::warn!(%error, "signals are not handled");
    }
    // Without handlers the system's own take effect: the process ends at the first signal.
    let _ = is_ready.await;
}

async fn listen(ready: oneshot::Sender<()>, grace: Option<Duration>, first: impl FnOnce()) {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::warn!(%error, "signals are not handled");
            return;
        }
    };
    let _ = ready.send(());
    signals.next().await;
    tracing::info!("stopping; a second signal ends at once");
    first();
    let over = async {
        match grace {
            Some(grace) => tokio::time::sleep(grace + MARGIN).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = signals.next() => {}
        () = over => tracing::error!("the grace period is over and the process has not ended"),
    }
    std::process::exit(1)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
