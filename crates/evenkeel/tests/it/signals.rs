//! Signals, sent to a child process: this test binary, started as an operator.

#![cfg(unix)]
#![expect(clippy::print_stderr, reason = "the process under test is heard by what it prints")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;

use crate::harness::{World, each};

/// Set in the child process.
pub(crate) const ROLE: &str = "EVENKEEL_TESTED_BY_SIGNALS";
/// The timeout for output of the child process.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn first_signal_shuts_down_gracefully() {
    if std::env::var_os(ROLE).is_some() {
        return operator();
    }
    for signal in ["TERM", "INT"] {
        let mut operator = Operator::start("signals::first_signal_shuts_down_gracefully");
        operator.expect_output("working");
        operator.send(signal);
        operator.expect_output("stopping");
        operator.let_finish();
        operator.expect_output("finished");
        operator.expect_output("ended");
        assert_eq!(operator.status().code(), Some(0), "after SIG{signal}");
    }
}

#[test]
fn second_signal_exits_immediately() {
    if std::env::var_os(ROLE).is_some() {
        return operator();
    }
    for (first, second) in [("TERM", "TERM"), ("INT", "INT"), ("TERM", "INT"), ("INT", "TERM")] {
        let mut operator = Operator::start("signals::second_signal_exits_immediately");
        operator.expect_output("working");
        operator.send(first);
        operator.expect_output("stopping");
        operator.send(second);
        assert_eq!(operator.next(), None, "still running after SIG{first} and SIG{second}");
        assert_eq!(operator.status().code(), Some(1), "after SIG{first} and SIG{second}");
    }
}

/// A reconcile that blocks its thread cannot be cancelled, but the process exits.
#[test]
fn blocked_process_exits_after_the_grace_period() {
    if std::env::var_os(ROLE).is_some() {
        return blocked(Some(Duration::from_millis(300)));
    }
    let test = "signals::blocked_process_exits_after_the_grace_period";
    let mut operator = Operator::start(test);
    operator.expect_output("working");
    operator.send("TERM");
    assert_eq!(operator.next(), None, "still running");
    assert_eq!(operator.status().code(), Some(1));
}

#[test]
fn second_signal_exits_a_blocked_process() {
    if std::env::var_os(ROLE).is_some() {
        return blocked(None);
    }
    let mut operator = Operator::start("signals::second_signal_exits_a_blocked_process");
    operator.expect_output("working");
    // Two signals in quick succession are merged.
    let begun = tokio::time::Instant::now();
    while operator.child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "still running");
        operator.send("TERM");
    }
    assert_eq!(operator.status().code(), Some(1));
}

/// The operator: a reconcile that blocks the only thread forever.
fn blocked(grace: Option<Duration>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        world.create_map("a").await;
        let manager =
            Manager::builder("test").seed(1).graceful_shutdown_timeout(grace).build(world.client());
        let reconciler = each::<ConfigMap, _, _>(|_, _, _| async {
            eprintln!("working");
            loop {
                std::thread::park();
            }
        });
        manager.controller(reconciler).register().unwrap();
        let _ = manager.run().await;
        eprintln!("ended");
    });
}

/// The operator: a reconcile that waits for a line on standard input.
fn operator() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        world.create_map("a").await;
        let manager = world.manager();
        let reconciler = each::<ConfigMap, _, _>(|_, _, _| async {
            eprintln!("working");
            let line = || std::io::stdin().read_line(&mut String::new());
            tokio::task::spawn_blocking(line).await??;
            eprintln!("finished");
            Ok(Action::done())
        });
        manager.controller(reconciler).register().unwrap();
        let received = |stop: evenkeel::manager::Stop| async move {
            stop.requested().await;
            eprintln!("stopping");
            Ok(())
        };
        manager.spawn_without_leader_election("received", received).unwrap();
        manager.run().await.unwrap();
        eprintln!("ended");
    });
}

/// The child process of the operator; killed when dropped.
pub(crate) struct Operator {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Operator {
    /// Starts the test of this name as the operator.
    pub(crate) fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(ROLE, "operator")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let output = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, stdin, lines }
    }

    /// Returns the next line of output; `None` if the process has exited.
    fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no output and no exit"),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn expect_output(&self, expected: &str) {
        assert_eq!(self.next().as_deref(), Some(expected));
    }

    fn send(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success(), "kill -s {signal}: {sent}");
    }

    fn let_finish(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn status(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Cleans up after a failed test; fails if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
