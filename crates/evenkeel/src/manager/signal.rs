//! Signals: the first ends in order, the second at once.

use std::convert::Infallible;

/// Calls `first` on the first SIGINT or SIGTERM and ends the process on the second.
pub(super) async fn watch(first: impl FnOnce()) -> Infallible {
    let Ok(mut signals) = Signals::new() else {
        // Without handlers the system's own take effect: the process ends at the first signal.
        return std::future::pending().await;
    };
    signals.next().await;
    tracing::info!("stopping; a second signal ends at once");
    first();
    signals.next().await;
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
