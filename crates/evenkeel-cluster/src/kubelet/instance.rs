//! The state of one container.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::image::PullError;
use super::process::{KILLED, Process};

/// The minimum time between SIGTERM and SIGKILL.
const MIN_GRACE: Duration = Duration::from_secs(2);

/// The state of one container on its node.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) state: State,
    pub(super) restarts: i32,
    /// The termination before the current state.
    pub(super) last: Option<Termination>,
    /// Whether later containers may start.
    pub(super) initialized: bool,
    /// The backoff of the next restart.
    pub(super) backoff: Duration,
    /// The backoff of the next pull.
    pub(super) pull_backoff: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Not started yet.
    Waiting,
    NoImage(NoImage),
    Running(Running),
    Exited(Exited),
}

/// The image cannot be used.
#[derive(Clone, Debug)]
pub(super) struct NoImage {
    pub(super) image: String,
    pub(super) error: PullError,
    pub(super) since: Instant,
    pub(super) retry: Instant,
    /// Whether the next pull is in backoff.
    pub(super) backs_off: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) image: String,
    pub(super) since: Instant,
    pub(super) started_at: Time,
    /// The results of its probes.
    pub(super) started: bool,
    pub(super) ready: bool,
    /// The age up to which failed probes were reported.
    pub(super) probed: Option<Duration>,
    pub(super) stop: Option<Stop>,
}

#[derive(Clone, Debug)]
pub(super) struct Exited {
    pub(super) end: Termination,
    pub(super) at: Instant,
    /// When it is restarted, and the backoff.
    pub(super) restart: Option<(Instant, Duration)>,
    /// Whether the restart is in backoff.
    pub(super) backs_off: bool,
}

/// How a container terminated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Termination {
    pub(super) code: i32,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: Option<String>,
    pub(super) started_at: Option<Time>,
    pub(super) finished_at: Option<Time>,
    pub(super) container_id: Option<String>,
}

/// A container that the kubelet is stopping.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    /// When its grace period ends.
    pub(super) deadline: Instant,
    /// When its preStop hook completes.
    hook: Instant,
    /// When SIGTERM is sent; `None` while it waits for other containers to exit.
    pub(super) term: Option<Instant>,
    /// Whether it is restarted after it was killed.
    pub(super) restart: bool,
}

impl Instance {
    pub(super) fn new() -> Self {
        Self {
            state: State::Waiting,
            restarts: 0,
            last: None,
            initialized: false,
            backoff: Duration::ZERO,
            pull_backoff: Duration::ZERO,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    /// Whether it has been started at least once.
    pub(super) fn has_run(&self) -> bool {
        self.last.is_some() || matches!(self.state, State::Running(_) | State::Exited(_))
    }

    /// Whether it has exited and is not restarted.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.state, State::Exited(exited) if exited.restart.is_none())
    }
}

impl Termination {
    pub(super) fn new(code: i32, oom_killed: bool, started_at: Time, finished_at: Time) -> Self {
        let reason = match code {
            _ if oom_killed => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        Self {
            code,
            reason: reason.into(),
            message: None,
            started_at: Some(started_at),
            finished_at: Some(finished_at),
            container_id: None,
        }
    }
}

impl Stop {
    /// Starts stopping a container whose preStop hook takes `hook`. If it `waits` for other
    /// containers, SIGTERM is sent later.
    pub(super) fn begin(now: Instant, grace: Duration, hook: Duration, waits: bool) -> Self {
        let deadline = add_saturating(now, grace);
        let hook = add_saturating(now, hook).min(deadline);
        Self { deadline, hook, term: (!waits).then_some(hook), restart: false }
    }

    /// Sends SIGTERM once the preStop hook has completed.
    pub(super) fn terminate(&mut self, now: Instant) {
        self.term.get_or_insert(now.max(self.hook));
    }

    /// Shortens the grace period to `grace` from now.
    pub(super) fn shorten(&mut self, now: Instant, grace: Duration) {
        self.deadline = self.deadline.min(add_saturating(now, grace));
        self.hook = self.hook.min(self.deadline);
        self.term = self.term.map(|term| term.min(self.deadline.max(now)));
    }

    /// Returns when the process exits after SIGTERM, and its exit code.
    pub(super) fn exit(&self, process: &Process) -> Option<(Instant, i32)> {
        let term = self.term?;
        let kill = self.deadline.max(add_saturating(term, MIN_GRACE));
        let exit = process.term.map(|(time, code)| (add_saturating(term, time), code));
        Some(exit.filter(|(at, _)| *at <= kill).unwrap_or((kill, KILLED)))
    }
}

/// Returns the container ID.
pub(super) fn container_id(uid: &str, name: &str, restarts: i32) -> String {
    format!("evenkeel://{uid}/{name}/{restarts}")
}

/// Adds `delay`; a time out of range becomes one that is decades away.
pub(super) fn add_saturating(time: Instant, delay: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    time.checked_add(delay.min(FAR)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(grace: u64, hook: u64, term: Option<u64>) -> (u64, i32) {
        let seconds = Duration::from_secs;
        let process = Process { exit: None, term: term.map(|time| (seconds(time), 0)) };
        let now = Instant::now();
        let stop = Stop::begin(now, seconds(grace), seconds(hook), false);
        let (at, code) = stop.exit(&process).unwrap();
        ((at - now).as_secs(), code)
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_exits_after_sigterm_or_is_killed() {
        for (grace, hook, term, wanted) in [
            (30, 0, Some(4), (4, 0)),
            (30, 0, None, (30, 137)),
            (30, 10, Some(4), (14, 0)),
            (30, 28, Some(4), (30, 137)),
            // A hook that takes too long is aborted; 2 s are left then.
            (30, 60, Some(1), (31, 0)),
            (30, 60, None, (32, 137)),
            (1, 0, None, (2, 137)),
            (30, 0, Some(30), (30, 0)),
        ] {
            assert_eq!(exit(grace, hook, term), wanted, "{grace} {hook} {term:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_grace_period_counts_from_its_request() {
        let now = Instant::now();
        let mut stop = Stop::begin(now, Duration::from_secs(30), Duration::ZERO, false);
        let ignores_term = Process { exit: None, term: None };
        let after = now + Duration::from_secs(10);
        stop.shorten(after, Duration::from_secs(5));
        assert_eq!(stop.exit(&ignores_term), Some((after + Duration::from_secs(5), 137)));
        stop.shorten(after, Duration::from_secs(9));
        assert_eq!(stop.exit(&ignores_term), Some((after + Duration::from_secs(5), 137)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_grace_period_does_not_overflow() {
        let stop = Stop::begin(Instant::now(), Duration::MAX, Duration::MAX, false);
        assert!(stop.exit(&Process { exit: None, term: Some((Duration::MAX, 0)) }).is_some());
    }
}
