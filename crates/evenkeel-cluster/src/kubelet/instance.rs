//! The state of one container.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::image::PullError;
use super::process::{KILLED, Process};

/// The least time that a container has between SIGTERM and SIGKILL.
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// One container on its node.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) state: State,
    pub(super) restarts: i32,
    /// How it ended before its present state.
    pub(super) last: Option<Termination>,
    /// Whether it no longer holds back the containers that come after it.
    pub(super) initialized: bool,
    /// How long its next restart is put off.
    pub(super) backoff: Duration,
    /// How long its next pull is put off.
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
    /// Whether the next pull is being put off.
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
    /// Up to which age failed probes were reported.
    pub(super) probed: Option<Duration>,
    pub(super) stop: Option<Stop>,
}

#[derive(Clone, Debug)]
pub(super) struct Exited {
    pub(super) end: Termination,
    pub(super) at: Instant,
    /// When it is restarted, and how long that is put off.
    pub(super) restart: Option<(Instant, Duration)>,
    /// Whether the restart is being put off.
    pub(super) backs_off: bool,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Termination {
    pub(super) code: i32,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: Option<String>,
    pub(super) started_at: Option<Time>,
    pub(super) finished_at: Option<Time>,
    pub(super) container_id: Option<String>,
}

/// A container that its kubelet is stopping.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    /// When its grace period is over.
    pub(super) deadline: Instant,
    /// When its preStop hook is done.
    hook: Instant,
    /// When it gets SIGTERM; None while it waits for other containers to exit first.
    pub(super) term: Option<Instant>,
    /// Whether it is killed to be restarted.
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

    /// Whether it was ever started.
    pub(super) fn has_run(&self) -> bool {
        self.last.is_some() || matches!(self.state, State::Running(_) | State::Exited(_))
    }

    /// Whether it exited and stays so.
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
    /// Stops a container whose preStop hook takes `hook`. One that has to wait for others gets its
    /// SIGTERM later.
    pub(super) fn begin(now: Instant, grace: Duration, hook: Duration, waits: bool) -> Self {
        let deadline = later(now, grace);
        let hook = later(now, hook).min(deadline);
        Self { deadline, hook, term: (!waits).then_some(hook), restart: false }
    }

    /// Sends SIGTERM as soon as the preStop hook is done.
    pub(super) fn terminate(&mut self, now: Instant) {
        self.term.get_or_insert(now.max(self.hook));
    }

    /// Ends the grace period `grace` from now if that is sooner.
    pub(super) fn shorten(&mut self, now: Instant, grace: Duration) {
        self.deadline = self.deadline.min(later(now, grace));
        self.hook = self.hook.min(self.deadline);
        self.term = self.term.map(|term| term.min(self.deadline.max(now)));
    }

    /// When the process exits, and with which code, once it gets SIGTERM.
    pub(super) fn exit(&self, process: &Process) -> Option<(Instant, i32)> {
        let term = self.term?;
        let kill = self.deadline.max(later(term, LEAST_GRACE));
        let exit = process.term.map(|(time, code)| (later(term, time), code));
        Some(exit.filter(|(at, _)| *at <= kill).unwrap_or((kill, KILLED)))
    }
}

/// Returns the identifier of a container.
pub(super) fn container_id(uid: &str, name: &str, restarts: i32) -> String {
    format!("evenkeel://{uid}/{name}/{restarts}")
}

/// Returns the time this much later; a time out of range becomes one that is decades away.
pub(super) fn later(time: Instant, delay: Duration) -> Instant {
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
    async fn a_container_stops_in_its_own_time_or_is_killed() {
        for (grace, hook, term, wanted) in [
            (30, 0, Some(4), (4, 0)),
            (30, 0, None, (30, 137)),
            (30, 10, Some(4), (14, 0)),
            (30, 28, Some(4), (30, 137)),
            // A hook that takes too long is cut off; then there are 2 s left.
            (30, 60, Some(1), (31, 0)),
            (30, 60, None, (32, 137)),
            (1, 0, None, (2, 137)),
            (30, 0, Some(30), (30, 0)),
        ] {
            assert_eq!(exit(grace, hook, term), wanted, "{grace} {hook} {term:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_grace_period_counts_from_when_it_is_asked_for() {
        let now = Instant::now();
        let mut stop = Stop::begin(now, Duration::from_secs(30), Duration::ZERO, false);
        let deaf = Process { exit: None, term: None };
        let after = now + Duration::from_secs(10);
        stop.shorten(after, Duration::from_secs(5));
        assert_eq!(stop.exit(&deaf), Some((after + Duration::from_secs(5), 137)));
        stop.shorten(after, Duration::from_secs(9));
        assert_eq!(stop.exit(&deaf), Some((after + Duration::from_secs(5), 137)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_grace_period_does_no_harm() {
        let stop = Stop::begin(Instant::now(), Duration::MAX, Duration::MAX, false);
        assert!(stop.exit(&Process { exit: None, term: Some((Duration::MAX, 0)) }).is_some());
    }
}
