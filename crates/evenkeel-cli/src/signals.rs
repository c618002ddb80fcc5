//! The signals that stop a command: SIGINT (Ctrl-C) and SIGTERM.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers of the signals.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let install = |kind| signal(kind).context("cannot wait for signals");
        Ok(Self {
            interrupt: install(SignalKind::interrupt())?,
            terminate: install(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
