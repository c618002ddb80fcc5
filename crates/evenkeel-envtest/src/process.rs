//! The boundary to the operating system: arguments, signals, the clock, stderr and the exit code.
//!
//! The rest of this crate takes these as parameters, so that it can run inside a test.

use std::{
    env,
    error::Error as StdError,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// An error that ends an executable.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Handlers of the signals that stop the process, SIGTERM and SIGINT.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Installs the handlers. Must be called from within a tokio runtime.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Returns the command line without the program name.
pub fn arguments() -> Result<Vec<String>, BoxError> {
    env::args_os()
        .skip(1)
        .map(|argument| {
            argument.into_string().map_err(|bad| format!("{bad:?} is not valid UTF-8").into())
        })
        .collect()
}

/// Returns the path in an environment variable, unless it is empty.
pub fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the wall clock time in seconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "real time enters the process here")]
pub fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Writes one line to stderr, where the upstream executables log.
pub fn log(line: &str) {
    // A closed stderr must not stop the server.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes `text` to stdout, for `--help` and `--version`.
pub fn print(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// Returns the exit code for `result` and writes an error with its causes to stderr.
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
