//! The end of the command that started the operator.
//!
//! `evenkeel dev`, `run` and `plan` start an operator with a pipe as its standard input, to which they
//! write nothing, and set the variable `EVENKEEL_STOP_WITH_STDIN`. The system closes the pipe when they
//! end, also if they are killed and cannot stop the operator.

use std::io::{ErrorKind, Read as _};

use tokio::sync::oneshot;

/// The variable.
const VARIABLE: &str = "EVENKEEL_STOP_WITH_STDIN";

/// Waits for the end of the standard input; without the variable, forever.
pub(super) async fn ended() {
    if std::env::var_os(VARIABLE).is_none() {
        return std::future::pending().await;
    }
    let (closed, is_closed) = oneshot::channel();
    let read = move || {
        let mut buffer = [0; 64];
        loop {
            match std::io::stdin().read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let _ = closed.send(());
    };
    // The thread runs as long as the process; a blocking task would delay the end of its runtime.
    if let Err(error) = std::thread::Builder::new().name("stdin".to_owned()).spawn(read) {
        tracing::warn!(%error, "failed to watch the standard input");
        return std::future::pending().await;
    }
    // The thread sends before it ends.
    let _ = is_closed.await;
}
