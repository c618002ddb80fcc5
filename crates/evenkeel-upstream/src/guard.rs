//! A child process that cannot outlive us.
//!
//! A small shell stands between us and the child and reads from a pipe that only we hold. The pipe
//! ends when we let go of it or when we are no more, however that happened: drop, panic, Ctrl-C or
//! `kill -9`. Then the shell asks the child to stop, kills it if it has not done so in time, and
//! removes the child's dir. Both are in a process group of their own, so that Ctrl-C at a
//! terminal reaches us alone.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

/// `$1`: tenths of a second between asking and killing; `$2`: the dir to remove, which
/// holds the log; the rest: the command.
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

/// How long a child may take to stop by itself. A real API server with an open watch would take a
/// minute.
const GRACE: Duration = Duration::from_secs(5);

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program}: {source}")]
pub struct SpawnError {
    program: String,
    source: io::Error,
}

/// A running program, ended with everything it wrote when this is dropped.
#[derive(Debug)]
pub struct ProcessGuard {
    shell: Child,
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl ProcessGuard {
    /// Starts `program`, which owns `dir`: its output goes to a file in there, and all of the
    /// dir is removed when it ends.
    ///
    /// # Errors
    ///
    /// If the dir cannot be written to or there is no shell. A program that is not there shows
    /// as one that ended at once.
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

    /// Whether the program still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// The last lines of what the program said.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Begins to end the program; dropping then waits for it.
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
        // The shell itself hangs; the child is gone or beyond anyone's reach.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests;
