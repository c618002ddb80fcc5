//! The status a kubelet would report of a pod in this state.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::life::{End, Life, Stage};
use super::plan::Plan;
use crate::nodes::Facts;
use crate::pods;
use crate::settings::Delays;

/// Everything a status is drawn from.
struct Scene<'a> {
    pod: &'a Pod,
    life: &'a Life,
    ready: bool,
    pull_backs_off: bool,
    wall: &'a Time,
}

pub(super) fn of(
    pod: &Pod,
    life: &Life,
    plan: &Plan,
    delays: &Delays,
    facts: &Facts,
    now: Instant,
    wall: &Time,
) -> PodStatus {
    let ready =
        life.ready_at(pod, plan, delays).is_some_and(|at| at <= now) && !pods::is_terminating(pod);
    let pull_backs_off = life.pull_backs_off(now);
    Scene { pod, life, ready, pull_backs_off, wall }.draw(facts)
}

impl Scene<'_> {
    fn draw(&self, facts: &Facts) -> PodStatus {
        let old = self.pod.status.clone().unwrap_or_default();
        let spec = self.pod.spec.as_ref();
        let own = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let inits = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let on_host = spec.and_then(|spec| spec.host_network) == Some(true);
        let host = facts.address.clone();
        let network = match self.life.stage {
            // The address is known once there is something behind it.
            Stage::Creating { .. } | Stage::PullFailing { .. } if !on_host => None,
            _ if on_host => host.clone(),
            _ => self.life.address.map(|address| address.to_string()),
        };
        let network = network.or(old.pod_ip.clone());
        let (phase, reason, message) = self.phase();
        let containers: Vec<ContainerStatus> =
            own.iter().map(|container| self.container(container)).collect();
        let inits: Vec<ContainerStatus> =
            inits.iter().map(|container| self.init(container)).collect();
        PodStatus {
            conditions: Some(self.conditions(&old, own)),
            container_statuses: Some(containers).filter(|list| !list.is_empty()),
            init_container_statuses: Some(inits).filter(|list| !list.is_empty()),
            phase: Some(phase.to_owned()),
            reason: reason.or(old.reason.clone()),
            message: message.or(old.message.clone()),
            host_ip: host.clone(),
            host_ips: host.map(|ip| vec![HostIP { ip }]),
            pod_ips: network.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip: network,
            start_time: old.start_time.clone().or_else(|| Some(self.wall.clone())),
            observed_generation: self.pod.metadata.generation,
            ..old
        }
    }

    /// Whether the containers ended for good, and how.
    fn ended(&self) -> Option<i32> {
        match self.life.stage {
            Stage::Done { .. } | Stage::Stopped => {
                Some(self.life.last.as_ref().map_or(0, |end| end.code))
            }
            _ => None,
        }
    }

    /// The phase, and what is to be said about it.
    fn phase(&self) -> (&'static str, Option<String>, Option<String>) {
        let phase = match (&self.life.stage, self.ended()) {
            // What never ran was given up, unless it had ended before this process looked.
            (_, Some(_)) if pods::is_terminal(self.pod) && self.life.last.is_none() => {
                if pods::phase(self.pod) == "Failed" {
                    "Failed"
                } else {
                    "Succeeded"
                }
            }
            (Stage::Stopped, Some(_)) if self.life.last.is_none() => "Failed",
            (_, Some(0)) => "Succeeded",
            (_, Some(_)) => "Failed",
            (Stage::Creating { .. } | Stage::PullFailing { .. }, None) => "Pending",
            (_, None) => "Running",
        };
        if matches!(self.life.stage, Stage::Done { overdue: true }) {
            let message = "Pod was active on the node longer than the specified deadline";
            return (phase, Some("DeadlineExceeded".to_owned()), Some(message.to_owned()));
        }
        (phase, None, None)
    }

    fn blank(&self, container: &Container) -> ContainerStatus {
        let image = container.image.clone().unwrap_or_default();
        ContainerStatus { name: container.name.clone(), image, ..ContainerStatus::default() }
    }

    fn container(&self, container: &Container) -> ContainerStatus {
        let mut status = self.blank(container);
        let name = &container.name;
        let ran = !matches!(self.life.stage, Stage::Creating { .. } | Stage::PullFailing { .. });
        let (id, restarts) = (&self.life.uid, self.life.restarts);
        if ran && (self.life.last.is_some() || matches!(self.life.stage, Stage::Running { .. })) {
            status.container_id = Some(format!("evenkeel://{id}/{name}/{restarts}"));
            status.image_id = format!("evenkeel://{}", status.image);
        }
        status.restart_count = restarts;
        status.ready = self.ready;
        status.started = Some(matches!(self.life.stage, Stage::Running { .. }));
        let last = self.life.last.as_ref().map(ended);
        status.state = Some(match &self.life.stage {
            Stage::Creating { .. } => waiting(self.creating(), None),
            Stage::PullFailing { .. } => self.pull_failure(&status.image),
            Stage::Running { started, .. } => {
                status.last_state = last.filter(|_| restarts > 0);
                running(started)
            }
            Stage::BackOff { delay, .. } => {
                status.last_state = last;
                let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
                let pod = self.pod.metadata.name.as_deref().unwrap_or_default();
                let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
                let message = format!(
                    "back-off {} restarting failed container={name} pod={pod}_{namespace}({uid})",
                    go_duration(delay.as_secs()),
                );
                waiting("CrashLoopBackOff", Some(message))
            }
            Stage::Done { .. } | Stage::Stopped => match last {
                Some(end) => end,
                None => return self.unended(container, status),
            },
        });
        status
    }

    /// A container that ended without this process seeing it keeps what was said of it; one that
    /// never ran was never made.
    fn unended(&self, container: &Container, mut status: ContainerStatus) -> ContainerStatus {
        let old = self.pod.status.as_ref().and_then(|old| old.container_statuses.as_deref());
        let old = old.unwrap_or_default().iter().find(|old| old.name == container.name);
        if let Some(old) = old.filter(|_| pods::is_terminal(self.pod)) {
            return old.clone();
        }
        status.state = Some(waiting("ContainerCreating", None));
        status
    }

    fn creating(&self) -> &'static str {
        let inits = self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
        if inits.is_some_and(|inits| !inits.is_empty()) {
            "PodInitializing"
        } else {
            "ContainerCreating"
        }
    }

    fn pull_failure(&self, image: &str) -> ContainerState {
        if self.pull_backs_off {
            waiting("ImagePullBackOff", Some(format!("Back-off pulling image \"{image}\"")))
        } else {
            waiting("ErrImagePull", Some(format!("failed to pull image \"{image}\": not found")))
        }
    }

    /// Init containers are done as soon as the others begin; those that stay run along.
    fn init(&self, container: &Container) -> ContainerStatus {
        let mut status = self.blank(container);
        let stays = container.restart_policy.as_deref() == Some("Always");
        let start = self.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let start = start.unwrap_or(self.wall);
        match &self.life.stage {
            Stage::Creating { .. } => status.state = Some(waiting("PodInitializing", None)),
            Stage::PullFailing { .. } => status.state = Some(self.pull_failure(&status.image)),
            Stage::Done { .. } | Stage::Stopped if stays => {
                status.state = self.life.last.as_ref().map(ended);
                status.started = Some(false);
            }
            _ => {
                status.container_id =
                    Some(format!("evenkeel://{}/{}/0", self.life.uid, container.name));
                status.image_id = format!("evenkeel://{}", status.image);
                status.ready = true;
                status.started = Some(stays);
                let end = End { code: 0, started: Some(start.clone()), finished: start.clone() };
                status.state = Some(if stays { running(start) } else { ended(&end) });
            }
        }
        status
    }

    fn conditions(&self, old: &PodStatus, containers: &[Container]) -> Vec<PodCondition> {
        let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
        let unready = || Some(format!("containers with unready status: [{}]", names.join(" ")));
        let begun = !matches!(self.life.stage, Stage::Creating { .. } | Stage::PullFailing { .. });
        let inits = self.pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
        let waits = !begun && inits.is_some_and(|inits| !inits.is_empty());
        let done = self.ended() == Some(0) && self.life.last.is_some();
        let gated = self.closed_gate(old);
        let (why, what) = match (self.ready, done, self.ended()) {
            (true, ..) => (None, None),
            (false, true, _) => (Some("PodCompleted"), None),
            (false, false, Some(_)) => (Some("PodFailed"), None),
            (false, false, None) => (Some("ContainersNotReady"), unready()),
        };
        let ready = match (&gated, self.ready) {
            (Some(message), true) => (false, Some("ReadinessGatesNotReady"), Some(message.clone())),
            _ => (self.ready, why, what.clone()),
        };
        let initialized = match (waits, done) {
            (true, _) => (false, Some("ContainersNotInitialized"), None),
            (false, true) => (true, Some("PodCompleted"), None),
            (false, false) => (true, None, None),
        };
        let alive = begun && self.ended().is_none();
        let wanted = [
            ("PodReadyToStartContainers", (alive, None, None)),
            ("Initialized", initialized),
            ("Ready", ready),
            ("ContainersReady", (self.ready, why, what)),
            ("PodScheduled", (true, None, None)),
        ];
        // What others say of the pod stays where it stands.
        let mut conditions = old.conditions.clone().unwrap_or_default();
        for (name, (holds, reason, message)) in wanted {
            self.put(&mut conditions, name, holds, reason, message);
        }
        conditions
    }

    fn put(
        &self,
        conditions: &mut Vec<PodCondition>,
        name: &str,
        holds: bool,
        reason: Option<&str>,
        message: Option<String>,
    ) {
        let status = if holds { "True" } else { "False" };
        let mut condition = PodCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: Some(self.wall.clone()),
            observed_generation: self.pod.metadata.generation,
            ..PodCondition::default()
        };
        match conditions.iter_mut().find(|present| present.type_ == name) {
            Some(present) => {
                if present.status == condition.status {
                    condition.last_transition_time = present.last_transition_time.clone();
                }
                condition.last_probe_time = present.last_probe_time.clone();
                *present = condition;
            }
            None => conditions.push(condition),
        }
    }

    /// What the first readiness gate that is not open says.
    fn closed_gate(&self, old: &PodStatus) -> Option<String> {
        let gates = self.pod.spec.as_ref()?.readiness_gates.as_ref()?;
        let conditions = old.conditions.as_deref().unwrap_or_default();
        let open = |name: &str| conditions.iter().any(|c| c.type_ == name && c.status == "True");
        let gate = gates.iter().find(|gate| !open(&gate.condition_type))?;
        let name = &gate.condition_type;
        Some(match conditions.iter().any(|condition| condition.type_ == *name) {
            true => {
                format!("the status of pod readiness gate \"{name}\" is not \"True\", but False")
            }
            false => {
                format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")
            }
        })
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn running(started: &Time) -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(started.clone()) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn ended(end: &End) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: end.code,
        reason: Some(if end.code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: end.started.clone(),
        finished_at: Some(end.finished.clone()),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// As Go prints whole seconds.
fn go_duration(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
