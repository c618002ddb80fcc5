//! The edge to the operating system: arguments, signals, the clock, stderr and the exit code.
//!
//! Everything else in this crate is told what it needs, so that it can run inside a test.

use std::{
    env,
    error::Error as StdError,
    io::{self, Write as _},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What ends an executable early.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The signals that ask the process to stop, caught from the moment this exists.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Starts catching; must be called from within a tokio runtime.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first of them.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The command line without the program's name.
pub fn arguments() -> Result<Vec<String>, BoxError> {
    env::args_os()
        .skip(1)
        .map(|argument| {
            argument.into_string().map_err(|bad| format!("{bad:?} is not valid UTF-8").into())
        })
        .collect()
}

/// The wall clock in seconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "real time enters the process here")]
pub fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Writes one line to stderr, where the real executables log.
pub fn log(line: &str) {
    // A closed stderr is no reason to stop serving.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes `text` to stdout, for `--help` and `--version`.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// The exit code for `result`; an error is written to stderr with its causes.
pub fn exit_code(result: Result<(), BoxError>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    log(&describe(&*error));
    ExitCode::FAILURE
}

fn describe(error: &dyn StdError) -> String {
    let mut text = format!("Error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
