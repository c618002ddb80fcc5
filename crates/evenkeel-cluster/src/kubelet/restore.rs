//! Restores the state of pods from their status after a restart of the process.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::instance::{Exited, Instance, Running, State, Termination};
use super::lifecycle::{Ending, Lifecycle};
use super::pod_containers::{self, PodContainer, Role};
use super::restart;
use crate::pods;

impl Lifecycle {
    /// Restores the state from the pod status.
    pub(super) fn restore(&mut self, pod: &Pod, now: Instant, wall: &Time) {
        if pods::is_terminal(pod) {
            self.ending = Some(Ending::AlreadyTerminal);
        }
        let Some(status) = &pod.status else { return };
        if let Some(start) = &status.start_time {
            let age = Duration::try_from(wall.0.duration_since(start.0)).unwrap_or_default();
            self.accepted = now.checked_sub(age).unwrap_or(now);
        }
        let init = status.init_container_statuses.iter().flatten();
        let app = status.container_statuses.iter().flatten();
        let ephemeral = status.ephemeral_container_statuses.iter().flatten();
        let statuses: Vec<&ContainerStatus> = init.chain(app).chain(ephemeral).collect();
        if statuses.is_empty() {
            return;
        }
        let shown = |container: &PodContainer<'_>| {
            statuses.iter().find(|status| status.name == container.name).copied()
        };
        let instances: Vec<(Role, Instance)> = pod_containers::of(pod)
            .map(|container| {
                let instance = shown(&container)
                    .map_or_else(Instance::new, |old| instance(pod, &container, old, now));
                (container.role, instance)
            })
            .collect();
        // Containers that precede a started container must have been initialized.
        let last =
            instances.iter().rposition(|(role, it)| *role != Role::Ephemeral && it.has_run());
        self.containers = instances.into_iter().map(|(_, instance)| instance).collect();
        for instance in self.containers.iter_mut().take(last.unwrap_or(0)) {
            instance.initialized = true;
        }
    }
}

fn instance(
    pod: &Pod,
    container: &PodContainer<'_>,
    old: &ContainerStatus,
    now: Instant,
) -> Instance {
    let mut instance = Instance::new();
    instance.restarts = old.restart_count;
    let last = old.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    instance.last = last.map(termination);
    let Some(state) = &old.state else { return instance };
    if let Some(running) = &state.running {
        instance.state = State::Running(Running {
            image: container.image.to_owned(),
            since: now,
            started_at: running.started_at.clone().unwrap_or(Time(jiff::Timestamp::UNIX_EPOCH)),
            started: false,
            ready: false,
            probed: None,
            stop: None,
        });
        return instance;
    }
    let end = match (&state.terminated, instance.last.take()) {
        (Some(ended), last) => {
            instance.last = last;
            termination(ended)
        }
        // It was waiting for its restart.
        (None, Some(last)) => last,
        (None, None) => return instance,
    };
    let restarts = match container.role {
        Role::Sidecar => true,
        Role::Ephemeral => false,
        Role::Init if end.code == 0 => false,
        Role::Init | Role::App => restart::should_restart(pod, container.spec, end.code),
    };
    instance.initialized = container.role == Role::Init && end.code == 0;
    let restart = restarts.then_some((now, Duration::ZERO));
    instance.state = State::Exited(Exited { end, at: now, restart, backs_off: false });
    instance
}

fn termination(ended: &ContainerStateTerminated) -> Termination {
    Termination {
        code: ended.exit_code,
        reason: ended.reason.clone().map_or(Cow::Borrowed("Error"), Cow::Owned),
        message: ended.message.clone(),
        started_at: ended.started_at.clone(),
        finished_at: ended.finished_at.clone(),
        container_id: ended.container_id.clone(),
    }
}
