//! What a pod has been through: a state machine on tokio's clock.
//!
//! It knows the pod's own plan and the cluster's delays, and nothing of how a status looks. All
//! containers of a pod share its fate.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::command::{self, Course};
use super::plan::Plan;
use super::probes;
use crate::pods;
use crate::settings::Delays;

/// The kubelet's back-off between restarts: at once, then this, doubling.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// One pod on its node.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) stage: Stage,
    pub(super) restarts: i32,
    /// How the containers ended last.
    pub(super) last: Option<End>,
    /// When the node took the pod on.
    accepted: Instant,
    /// When it was first asked to stop.
    stopping: Option<Instant>,
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    /// Images are fetched and containers made, until then.
    Creating { until: Instant },
    /// The image cannot be had, since then.
    PullFailing { since: Instant },
    /// Containers run.
    Running { since: Instant, started: Time },
    /// Containers ended and wait to be started again.
    BackOff { until: Instant, delay: Duration },
    /// Containers ended for good.
    Done { overdue: bool },
    /// The pod was deleted, its containers are stopped.
    Stopped,
}

/// How containers ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) code: i32,
    pub(super) started: Option<Time>,
    pub(super) finished: Time,
}

impl Life {
    /// A pod that the node hears of for the first time; one that ran already, before this process
    /// did, runs on.
    pub(super) fn begin(
        uid: &str,
        node: &str,
        address: Option<Ipv4Addr>,
        pod: &Pod,
        delays: &Delays,
    ) -> Self {
        let now = Instant::now();
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_deref());
        let first = containers.and_then(|containers| containers.first());
        let state = first.and_then(|container| container.state.as_ref());
        let running = state.and_then(|state| state.running.as_ref());
        let ended = state.and_then(|state| state.terminated.as_ref());
        let stage = if pods::is_terminal(pod) {
            Stage::Done { overdue: false }
        } else if let Some(started) = running.and_then(|running| running.started_at.clone()) {
            Stage::Running { since: now, started }
        } else {
            Stage::Creating { until: now + delays.start }
        };
        Self {
            uid: uid.to_owned(),
            node: node.to_owned(),
            address,
            stage,
            restarts: first.map_or(0, |container| container.restart_count),
            last: ended.and_then(|ended| {
                let finished = ended.finished_at.clone()?;
                Some(End { code: ended.exit_code, started: ended.started_at.clone(), finished })
            }),
            accepted: now,
            stopping: None,
        }
    }

    /// Does all that is due by now, and tells when something is due next.
    pub(super) fn advance(
        &mut self,
        pod: &Pod,
        plan: &Plan,
        delays: &Delays,
        now: Instant,
        wall: &Time,
    ) -> Option<Instant> {
        if pods::is_terminating(pod) {
            return self.stop(pod, plan, delays, now, wall);
        }
        let deadline = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let deadline = deadline.and_then(|seconds| u64::try_from(seconds).ok());
        let overdue = deadline.map(|seconds| self.accepted + Duration::from_secs(seconds));
        let next = loop {
            if let Some(at) = overdue
                && at <= now
                && !matches!(self.stage, Stage::Done { .. })
            {
                self.end(137, wall);
                self.stage = Stage::Done { overdue: true };
            }
            let next = self.due(pod, plan, delays);
            match next {
                Some(at) if at <= now => self.step(pod, plan, delays, now, wall),
                _ => break next,
            }
        };
        let lives = !matches!(self.stage, Stage::Done { .. });
        [next, overdue.filter(|_| lives), self.shows_next(pod, plan, delays, now)]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the stage ends, if it does.
    fn due(&self, pod: &Pod, plan: &Plan, delays: &Delays) -> Option<Instant> {
        match self.stage {
            Stage::Creating { until } | Stage::BackOff { until, .. } => Some(until),
            Stage::Running { since, .. } => exit(pod, plan, delays).map(|(time, _)| since + time),
            Stage::PullFailing { .. } | Stage::Done { .. } | Stage::Stopped => None,
        }
    }

    /// When the status changes although the stage does not.
    fn shows_next(&self, pod: &Pod, plan: &Plan, delays: &Delays, now: Instant) -> Option<Instant> {
        let at = match self.stage {
            Stage::PullFailing { since } => since + FIRST_BACKOFF,
            Stage::Running { .. } => self.ready_at(pod, plan, delays)?,
            _ => return None,
        };
        (at > now).then_some(at)
    }

    /// When the containers that run become ready: what the plan says, or else not before their
    /// probes would.
    pub(super) fn ready_at(&self, pod: &Pod, plan: &Plan, delays: &Delays) -> Option<Instant> {
        let Stage::Running { since, .. } = self.stage else { return None };
        let probed = || delays.ready.max(probes::first_ready(pod));
        (!plan.never_ready).then(|| since + plan.ready_after.unwrap_or_else(probed))
    }

    /// Whether a pull has failed long enough for the kubelet to hold off.
    pub(super) fn pull_backs_off(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::PullFailing { since } if since + FIRST_BACKOFF <= now)
    }

    fn step(&mut self, pod: &Pod, plan: &Plan, delays: &Delays, now: Instant, wall: &Time) {
        match self.stage {
            Stage::Creating { .. } if plan.image_pull_error => {
                self.stage = Stage::PullFailing { since: now };
            }
            Stage::Creating { .. } => {
                self.stage = Stage::Running { since: now, started: wall.clone() };
            }
            Stage::BackOff { .. } => {
                self.restarts += 1;
                self.stage = Stage::Running { since: now, started: wall.clone() };
            }
            Stage::Running { .. } => {
                let code = exit(pod, plan, delays).map_or(0, |(_, code)| code);
                self.end(code, wall);
                self.stage = if restarts(pod, code) {
                    let delay = backoff(self.restarts);
                    Stage::BackOff { until: now + delay, delay }
                } else {
                    Stage::Done { overdue: false }
                };
            }
            Stage::PullFailing { .. } | Stage::Done { .. } | Stage::Stopped => {}
        }
    }

    fn end(&mut self, code: i32, wall: &Time) {
        let started = match &self.stage {
            Stage::Running { started, .. } => Some(started.clone()),
            _ => None,
        };
        if started.is_some() || self.last.is_none() {
            self.last = Some(End { code, started, finished: wall.clone() });
        }
    }

    fn stop(
        &mut self,
        pod: &Pod,
        plan: &Plan,
        delays: &Delays,
        now: Instant,
        wall: &Time,
    ) -> Option<Instant> {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let time = match self.stage {
            Stage::Running { .. } if plan.ignore_term => grace,
            Stage::Running { .. } => delays.stop.min(grace),
            _ => Duration::ZERO,
        };
        let since = *self.stopping.get_or_insert(now);
        if since + time > now {
            return Some(since + time);
        }
        let killed = plan.ignore_term || time < delays.stop;
        if matches!(self.stage, Stage::Running { .. }) {
            self.end(if killed { 137 } else { 0 }, wall);
        }
        self.stage = Stage::Stopped;
        None
    }
}

/// When and how the containers of this pod end by themselves: as planned, or else when the last has
/// done what its command says, with the first code that is not 0.
fn exit(pod: &Pod, plan: &Plan, delays: &Delays) -> Option<(Duration, i32)> {
    if plan.exit.is_some() {
        return plan.exit;
    }
    // What is not always restarted is there to get something done.
    let unknown = match policy(pod) {
        "Always" => Course::RunsOn,
        _ => Course::Ends(delays.run, 0),
    };
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let mut end = None;
    for container in containers {
        let Course::Ends(time, code) = command::course(container).unwrap_or(unknown) else {
            return None;
        };
        let (latest, worst) = end.unwrap_or((time, 0));
        end = Some((time.max(latest), if worst == 0 { code } else { worst }));
    }
    end
}

fn policy(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

fn restarts(pod: &Pod, code: i32) -> bool {
    match policy(pod) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

fn backoff(restarts: i32) -> Duration {
    match u32::try_from(restarts) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(count) => (FIRST_BACKOFF * (1 << (count - 1).min(5))).min(LONGEST_BACKOFF),
    }
}
