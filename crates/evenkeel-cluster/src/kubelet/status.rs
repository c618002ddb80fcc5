//! Computes the pod status that a kubelet reports.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodIP, PodStatus, VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::ConditionInputs;
use super::events::{DEADLINE_EXCEEDED, PodName};
use super::image::PullError;
use super::instance::{Exited, Instance, NoImage, State, Termination, container_id};
use super::lifecycle::Lifecycle;
use super::phase;
use super::pod_containers::{self, PodContainer, Role};
use super::process::KILLED;
use crate::nodes::NodeProperties;
use crate::pods;

/// Returns the status of a pod.
pub(super) fn of(
    pod: &Pod,
    lifecycle: &Lifecycle,
    properties: &NodeProperties,
    wall: &Time,
) -> PodStatus {
    let old = pod.status.clone().unwrap_or_default();
    let over = lifecycle.is_over();
    let mut lists: [Vec<ContainerStatus>; 3] = Default::default();
    let containers = pod_containers::of(pod).zip(&lifecycle.containers);
    for (container, instance) in containers {
        let list = match container.role {
            Role::Init | Role::Sidecar => 0,
            Role::App => 1,
            Role::Ephemeral => 2,
        };
        lists[list].push(container_status(pod, lifecycle, &container, instance));
    }
    let [mut inits, mut apps, mut ephemeral] = lists;
    let initialized = apps.iter().any(|status| status.container_id.is_some());
    let phase = {
        let statuses: Vec<&ContainerStatus> = inits.iter().chain(&apps).collect();
        phase(pod, lifecycle, &statuses, initialized)
    };
    if over {
        mark_lost(pod, &mut inits, &mut apps, initialized);
    }
    // The kubelet sorts them by name.
    apps.sort_by(|one, other| one.name.cmp(&other.name));
    ephemeral.sort_by(|one, other| one.name.cmp(&other.name));
    let statuses: Vec<&ContainerStatus> = inits.iter().chain(&apps).collect();
    let inputs =
        ConditionInputs { pod, statuses: &statuses, phase, sandbox: lifecycle.sandbox, wall };
    let conditions = inputs.conditions(&old);
    let host = properties.address.clone();
    let on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let address = match lifecycle.address {
        _ if on_host => host.clone(),
        Some(address) if lifecycle.sandbox || initialized => Some(address.to_string()),
        _ => None,
    };
    let address = address.or(old.pod_ip.clone());
    let deadline_exceeded = lifecycle.deadline_exceeded && phase == "Failed";
    let reason = deadline_exceeded.then(|| "DeadlineExceeded".to_owned());
    let message = deadline_exceeded.then(|| DEADLINE_EXCEEDED.to_owned());
    let listed = |list: Vec<ContainerStatus>| Some(list).filter(|list| !list.is_empty());
    PodStatus {
        conditions: Some(conditions),
        init_container_statuses: listed(inits),
        container_statuses: listed(apps),
        ephemeral_container_statuses: listed(ephemeral),
        phase: Some(phase.to_owned()),
        reason: reason.or(old.reason.clone()),
        message: message.or(old.message.clone()),
        host_ip: host.clone(),
        host_ips: host.map(|ip| vec![HostIP { ip }]),
        pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: address,
        start_time: old.start_time.clone().or_else(|| Some(wall.clone())),
        observed_generation: pod.metadata.generation,
        ..old
    }
}

/// A terminal phase is final, and none is reported before all containers have stopped.
fn phase<'a>(
    pod: &'a Pod,
    lifecycle: &Lifecycle,
    statuses: &[&ContainerStatus],
    initialized: bool,
) -> &'a str {
    if pods::is_terminal(pod) {
        return pods::phase(pod);
    }
    let over = lifecycle.is_over();
    let phase = phase::of(pod, statuses, over, initialized);
    match (phase, over) {
        ("Succeeded" | "Failed", false) => pods::phase(pod),
        // Containers that never ran are given up.
        ("Pending" | "Running", true) => "Failed",
        ("Succeeded", true) if lifecycle.deadline_exceeded => "Failed",
        _ => phase,
    }
}

fn container_status(
    pod: &Pod,
    lifecycle: &Lifecycle,
    container: &PodContainer<'_>,
    instance: &Instance,
) -> ContainerStatus {
    let mut status = ContainerStatus {
        name: container.name.to_owned(),
        image: container.image.to_owned(),
        restart_count: instance.restarts,
        started: Some(false),
        volume_mounts: volume_mounts(container),
        ..ContainerStatus::default()
    };
    if instance.has_run() {
        let id = container_id(&lifecycle.uid, container.name, instance.restarts);
        status.container_id = Some(id);
        status.image_id = format!("evenkeel://{}", container.image);
        let resources = container.spec.map(|it| it.resources.clone().unwrap_or_default());
        status.allocated_resources = resources.as_ref().and_then(|it| it.requests.clone());
        status.resources = resources;
    }
    let last = instance.last.as_ref().map(terminated);
    status.state = Some(match &instance.state {
        State::Waiting => {
            let inits = pod_containers::has_inits(pod);
            waiting(if inits { "PodInitializing" } else { "ContainerCreating" }, None)
        }
        State::NoImage(failed) => {
            status.last_state = last;
            no_image(failed)
        }
        State::Running(running) => {
            status.last_state = last;
            status.started = Some(running.started);
            status.ready = running.ready && container.role != Role::Init;
            let running = ContainerStateRunning { started_at: Some(running.started_at.clone()) };
            ContainerState { running: Some(running), ..ContainerState::default() }
        }
        State::Exited(exited) if exited.backs_off => {
            status.last_state = Some(terminated(&exited.end));
            waiting("CrashLoopBackOff", Some(back_off(pod, container, exited)))
        }
        State::Exited(exited) => {
            status.last_state = last;
            status.ready = container.role == Role::Init && exited.end.code == 0;
            terminated(&exited.end)
        }
    });
    status
}

/// Marks containers without a recorded state as `ContainerStatusUnknown` once the pod has terminated.
fn mark_lost(
    pod: &Pod,
    inits: &mut [ContainerStatus],
    apps: &mut [ContainerStatus],
    initialized: bool,
) {
    let started = |status: &ContainerStatus| {
        let state = status.state.as_ref();
        state.is_none_or(|state| state.waiting.is_none()) || status.last_state.is_some()
    };
    let done = inits.last().is_none_or(|last| {
        let ended = last.state.as_ref().and_then(|state| state.terminated.as_ref());
        last.started == Some(true) || ended.is_some_and(|ended| ended.exit_code == 0)
    });
    let first = inits.iter().rposition(started).unwrap_or(0);
    let lost = inits.iter_mut().take(first + 1);
    let apps = apps.iter_mut().filter(|_| initialized || done || !pod_containers::has_inits(pod));
    for status in lost.chain(apps) {
        let ended = status.state.as_ref().is_some_and(|state| state.terminated.is_some());
        if !ended {
            let message = "The container could not be located when the pod was terminated";
            let end = Termination {
                code: KILLED,
                reason: "ContainerStatusUnknown".into(),
                message: Some(message.to_owned()),
                started_at: None,
                finished_at: None,
                container_id: None,
            };
            status.state = Some(terminated(&end));
        }
    }
}

fn no_image(failed: &NoImage) -> ContainerState {
    let (error, image) = (failed.error, &failed.image);
    let message = error.message(image);
    if error == PullError::NotFound && failed.backs_off {
        let message = format!("Back-off pulling image {image:?}: {}: {message}", error.reason());
        return waiting("ImagePullBackOff", Some(message));
    }
    waiting(error.reason(), Some(message))
}

fn back_off(pod: &Pod, container: &PodContainer<'_>, exited: &Exited) -> String {
    let delay = go_duration(exited.restart.map_or(0, |(_, delay)| delay.as_secs()));
    let (name, pod) = (container.name, PodName(pod));
    format!("back-off {delay} restarting failed container={name} pod={pod}")
}

fn volume_mounts(container: &PodContainer<'_>) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.spec?.volume_mounts.as_ref()?;
    let status = mounts.iter().map(|mount| {
        let read_only = mount.read_only == Some(true);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| "Disabled".to_owned()),
            ..VolumeMountStatus::default()
        }
    });
    Some(status.collect())
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(end: &Termination) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: end.code,
        reason: Some(end.reason.clone().into_owned()),
        message: end.message.clone(),
        started_at: end.started_at.clone(),
        finished_at: end.finished_at.clone(),
        container_id: end.container_id.clone(),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// Formats seconds like Go's `time.Duration`.
fn go_duration(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
