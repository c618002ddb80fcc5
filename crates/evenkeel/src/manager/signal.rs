//! Signals: the first shuts down gracefully, the second exits, as does the end of the grace period.
//! The end of the command that started the operator counts as the first signal.
//!
//! A dedicated thread waits for them: the threads of the program's runtime may all be blocked by a
//! reconciler that does not await.

use std::time::Duration;

use tokio::sync::oneshot;

use super::parent;

/// Time beyond the grace period for the rest of the shutdown.
const MARGIN: Duration = Duration::from_millis(500);

/// Calls `first` on the first SIGINT or SIGTERM. Exits the process on the second signal, or after
/// the grace period. Returns once the handlers are installed.
pub(super) async fn watch(grace_period: Option<Duration>, first: impl FnOnce() + Send + 'static) {
    let (ready, is_ready) = oneshot::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(listen(ready, grace_period, first)),
            Err(error) => tracing::warn!(%error, "failed to install signal handlers"),
        }
    };
    // The thread runs as long as the process: with handlers installed, a signal no longer
    // terminates the process by default.
    if let Err(error) = std::thread::Builder::new().name("signals".to_owned()).spawn(listen) {
        tracing::warn!(%error, "failed to install signal handlers");
    }
    // Without handlers the default action applies: the first signal terminates the process.
    let _ = is_ready.await;
}

async fn listen(ready: oneshot::Sender<()>, grace_period: Option<Duration>, first: impl FnOnce()) {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::warn!(%error, "failed to install signal handlers");
            return;
        }
    };
    let _ = ready.send(());
    tokio::select! {
        biased;
        () = signals.next() => {
            tracing::info!("received signal, shutting down; a second signal exits immediately");
        }
        () = parent::ended() => {
            tracing::warn!("the command that started the operator has ended, shutting down");
        }
    }
    first();
    let over = async {
        match grace_period {
            Some(grace) => tokio::time::sleep(grace + MARGIN).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = signals.next() => {}
        () = over => tracing::error!("grace period exceeded, exiting"),
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
