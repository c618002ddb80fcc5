//! A child process that never outlives this one's commands.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};

/// The variable that makes an operator stop when its standard input is closed; see
/// `evenkeel::manager`.
const STOP_WITH_STDIN: &str = "EVENKEEL_STOP_WITH_STDIN";

/// How long a process may take to stop.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The time between two checks whether a process has ended.
const INTERVAL: Duration = Duration::from_millis(10);

/// A running process, killed on drop with the processes that it started.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a process in its own process group: a Ctrl-C reaches only this process, which stops
    /// the other gracefully.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        Self::spawn(command.stdin(Stdio::null()))
    }

    /// Same as [`start`](Self::start), for an operator. It also stops if this process is killed: its
    /// standard input is a pipe that is closed then.
    ///
    /// # Errors
    /// Same as [`start`](Self::start).
    pub(crate) fn start_operator(command: &mut Command) -> anyhow::Result<Self> {
        Self::spawn(command.stdin(Stdio::piped()).env(STOP_WITH_STDIN, "1"))
    }

    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.process_group(0).spawn();
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Self(child.with_context(|| format!("cannot run {name}"))?))
    }

    /// Returns how the process ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Returns its output, if it was started with a pipe.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    fn signal(&mut self, signal: Signal) {
        // The group has the id of its first process.
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let (Some(group), Ok(None)) = (group, self.0.try_wait()) {
            // An error means that it has just ended.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Stops the process gracefully; it is killed if that takes too long.
    pub(crate) async fn stop(mut self) {
        self.terminate();
        let _ = tokio::time::timeout(TIMEOUT, self.wait()).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            let _ = self.0.wait();
        }
    }
}
