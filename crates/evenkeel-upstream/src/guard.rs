//! A child process that cannot outlive its parent.
//!
//! A small shell between parent and child reads from a pipe whose only writer is the parent. The
//! pipe closes on drop and when the parent exits for any reason: panic, Ctrl-C or `kill -9`. Then
//! the shell sends SIGTERM to the child, sends SIGKILL after a grace period, and removes the
//! child's directory. Shell and child have their own process group, so that Ctrl-C at a terminal
//! is sent to the parent only.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

/// `$1`: the grace period in tenths of a second; `$2`: the directory to remove, which contains the
/// log; the rest: the command.
const SCRIPT: &str = r#"
grace=$1 dir=$2; shift 2
exec 3<&0
"$@" 3<&- </dev/null &
child=$!
{
  cat <&3 >/dev/null
  kill -TERM "$child"
  while [ "$grace" -gt 0 ] && kill -0 "$child"; do sleep 0.1; grace=$((grace - 1)); done
  kill -KILL "$child"
} 2>/dev/null &
watcher=$!
exec 3<&-
wait "$child"; status=$?
kill "$watcher" 2>/dev/null
rm -rf "$dir"
rmdir "$(dirname "$dir")" 2>/dev/null
exit "$status"
"#;

/// The time between SIGTERM and SIGKILL. kube-apiserver with an open watch takes a minute to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Why a program cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program}")]
pub struct SpawnError {
    program: String,
    source: io::Error,
}

/// A running program. Dropping it stops the program and removes its files.
#[derive(Debug)]
pub struct ProcessGuard {
    shell: Child,
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl ProcessGuard {
    /// Starts `program`, which owns `dir`: its output is written to a file in `dir`, and `dir` is
    /// removed when it exits.
    ///
    /// # Errors
    ///
    /// If `dir` is not writable or there is no shell. A program that does not exist starts and
    /// exits immediately.
    pub fn spawn(program: &Path, arguments: &[String], dir: &Path) -> Result<Self, SpawnError> {
        let log = dir.join("output.log");
        let spawn = || -> io::Result<Child> {
            let output = File::create(&log)?;
            Command::new("/bin/sh")
                .args(["-c", SCRIPT, "guard", &(GRACE.as_millis() / 100).to_string()])
                .arg(dir)
                .arg(program)
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(output.try_clone()?)
                .stderr(output)
                .process_group(0)
                .spawn()
        };
        let failed = |source| SpawnError { program: program.display().to_string(), source };
        let mut shell = spawn().map_err(failed)?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe, log })
    }

    /// Whether the program is running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// Returns the last lines of the program's output.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Starts to stop the program without waiting; drop waits for it.
    pub fn begin_stop(&mut self) {
        self.pipe = None;
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        self.begin_stop();
        let pause = Duration::from_millis(10);
        let mut left = GRACE + Duration::from_secs(2);
        while !left.is_zero() {
            if !self.is_running() {
                return;
            }
            thread::sleep(pause);
            left = left.saturating_sub(pause);
        }
        // The shell hangs; the child has exited or cannot be killed.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests;
