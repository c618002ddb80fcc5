//! One step of one container.

use std::time::Duration;

use super::{ContainerInputs, Inputs, Lifecycle, RESYNC, seconds};
use crate::kubelet::events::Events;
use crate::kubelet::image::{self, PullError};
use crate::kubelet::instance::{
    Exited, Instance, NoImage, Running, State, Stop, Termination, add_saturating, container_id,
};
use crate::kubelet::pod_containers::Role;
use crate::kubelet::{probes, process, restart};

/// The retry interval for image errors that have no backoff.
const RETRY: Duration = Duration::from_secs(10);

impl Lifecycle {
    /// Performs what is due for one container. Returns whether its state changed.
    pub(super) fn step(
        &mut self,
        index: usize,
        container_inputs: &ContainerInputs<'_>,
        inputs: &Inputs<'_>,
        events: &mut Events<'_>,
    ) -> bool {
        let now = inputs.now;
        let may_start =
            self.ending.is_none() && self.may_start(index, container_inputs.container.role);
        let ending = self.ending.is_some();
        match &mut self.containers[index].state {
            State::Waiting if may_start => {
                self.start(index, container_inputs, inputs, events);
                true
            }
            State::Waiting => false,
            State::NoImage(failed) => {
                if may_start
                    && (failed.retry <= now || failed.image != container_inputs.container.image)
                {
                    self.start(index, container_inputs, inputs, events);
                    return true;
                }
                if !ending
                    && !failed.backs_off
                    && failed.error == PullError::NotFound
                    && add_saturating(failed.since, RESYNC) <= now
                {
                    failed.backs_off = true;
                    events.pull_backs_off(&container_inputs.container);
                }
                false
            }
            State::Exited(exited) => {
                let Some((at, delay)) = exited.restart else { return false };
                if ending {
                    exited.restart = None;
                    exited.backs_off = false;
                    return true;
                }
                if may_start && at <= now {
                    self.start(index, container_inputs, inputs, events);
                    return true;
                }
                if !exited.backs_off && !delay.is_zero() && add_saturating(exited.at, RESYNC) <= now
                {
                    exited.backs_off = true;
                    events.restart_backs_off(&container_inputs.container);
                }
                false
            }
            State::Running(_) => self.step_running(index, container_inputs, inputs, events),
        }
    }

    /// Whether the preceding containers are initialized.
    fn may_start(&self, index: usize, role: Role) -> bool {
        let before = match role {
            Role::Ephemeral => 0,
            Role::Init | Role::Sidecar | Role::App => index.min(self.inits),
        };
        self.sandbox && self.containers[..before].iter().all(|it| it.initialized)
    }

    /// Starts or restarts a container.
    fn start(
        &mut self,
        index: usize,
        container_inputs: &ContainerInputs<'_>,
        inputs: &Inputs<'_>,
        events: &mut Events<'_>,
    ) {
        let container = &container_inputs.container;
        let instance = &mut self.containers[index];
        if let State::Exited(exited) = &instance.state {
            instance.last = Some(exited.end.clone());
        }
        // An image that the container has run from is present on the node.
        let pulls = !instance.has_run() || container.pull_policy == "Always";
        if let Some(error) =
            image::check(container, container_inputs.simulation.image_pull_error, pulls)
        {
            let retry = match error {
                PullError::NotFound => {
                    instance.pull_backoff = restart::next(instance.pull_backoff);
                    instance.pull_backoff
                }
                PullError::InvalidName | PullError::NeverPull => RETRY,
            };
            let known = matches!(&instance.state, State::NoImage(failed) if failed.error == error);
            if error == PullError::NotFound || !known {
                events.pull_failed(container, error);
            }
            instance.state = State::NoImage(NoImage {
                image: container.image.to_owned(),
                error,
                since: inputs.now,
                retry: add_saturating(inputs.now, retry),
                backs_off: false,
            });
            return;
        }
        if instance.last.is_some() {
            instance.restarts = instance.restarts.saturating_add(1);
        }
        instance.pull_backoff = Duration::ZERO;
        events.started(container);
        instance.state = State::Running(Running {
            image: container.image.to_owned(),
            since: inputs.now,
            started_at: inputs.wall.clone(),
            started: false,
            ready: false,
            probed: None,
            stop: None,
        });
    }

    fn step_running(
        &mut self,
        index: usize,
        container_inputs: &ContainerInputs<'_>,
        inputs: &Inputs<'_>,
        events: &mut Events<'_>,
    ) -> bool {
        let (container, now) = (&container_inputs.container, inputs.now);
        let may_terminate = self.may_terminate(index, container.role);
        let ending = self.ending.is_some();
        let address = self.address.map(|address| address.to_string());
        let instance = &mut self.containers[index];
        let State::Running(running) = &mut instance.state else { return false };
        let age = now.saturating_duration_since(running.since);
        running.started = container_inputs.probes.has_started(age);
        running.ready = container_inputs.probes.is_ready(age);
        let mut changed = false;
        if container.role == Role::Sidecar && running.started && !instance.initialized {
            instance.initialized = true;
            changed = true;
        }
        if running.stop.is_none() {
            for kind in container_inputs.probes.failures(running.probed, age) {
                events.unhealthy(&probes::failure(container, kind, address.as_deref()), container);
            }
            running.probed = Some(age);
        }
        if let Some(stop) = &mut running.stop
            && (may_terminate || stop.deadline <= now)
        {
            stop.terminate(now);
        }
        let stopped = running.stop.as_ref().and_then(|stop| stop.exit(&container_inputs.process));
        let exits = container_inputs.process.exit;
        if let Some((_, code)) = exits.filter(|(time, _)| *time <= age) {
            self.exit(
                index,
                code,
                container_inputs.simulation.oom_killed,
                container_inputs,
                inputs,
            );
            return true;
        }
        if let Some((_, code)) = stopped.filter(|(at, _)| *at <= now) {
            self.exit(index, code, false, container_inputs, inputs);
            return true;
        }
        if running.stop.is_some() {
            return changed;
        }
        let killed = container_inputs.probes.killed_by(age);
        let replaced = running.image != container.image;
        let restarts = restart::should_restart_killed(inputs.pod, container.spec);
        let grace = match killed.and_then(|kind| probes::grace_period(container, kind)) {
            Some(own) if !ending => seconds(own),
            _ => inputs.grace_period(),
        };
        if ending {
            events.stopping(container);
        } else if replaced {
            events.replaced(container);
        } else if let Some(kind) = killed {
            events.killed(container, kind, restarts || container.role == Role::Sidecar);
        } else {
            return changed;
        }
        let waits = ending && container.role == Role::Sidecar;
        let mut stop = Stop::begin(now, grace, process::pre_stop(container), waits);
        stop.restart = !ending && (replaced || restarts);
        running.stop = Some(stop);
        true
    }

    /// Whether SIGTERM may be sent: a sidecar stops after the app containers and the sidecars that
    /// were started after it.
    fn may_terminate(&self, index: usize, role: Role) -> bool {
        role != Role::Sidecar || !self.containers[index + 1..].iter().any(Instance::is_running)
    }

    /// Records the exit of a container, and when it is restarted.
    fn exit(
        &mut self,
        index: usize,
        code: i32,
        oom_killed: bool,
        container_inputs: &ContainerInputs<'_>,
        inputs: &Inputs<'_>,
    ) {
        let container = &container_inputs.container;
        let ending = self.ending.is_some();
        let instance = &mut self.containers[index];
        let State::Running(running) = &instance.state else { return };
        let killed_to_restart = running.stop.as_ref().is_some_and(|stop| stop.restart);
        let restarts = match container.role {
            _ if ending => false,
            Role::Sidecar => true,
            Role::Ephemeral => false,
            Role::Init if code == 0 => false,
            Role::Init | Role::App => {
                killed_to_restart || restart::should_restart(inputs.pod, container.spec, code)
            }
        };
        instance.initialized |= container.role == Role::Init && code == 0;
        if restart::resets_backoff(inputs.now.saturating_duration_since(running.since)) {
            instance.backoff = Duration::ZERO;
        }
        let delay = instance.backoff;
        if restarts {
            instance.backoff = restart::next(delay);
        }
        let started = running.started_at.clone();
        instance.state = State::Exited(Exited {
            end: Termination {
                container_id: Some(container_id(&self.uid, container.name, instance.restarts)),
                ..Termination::new(code, oom_killed, started, inputs.wall.clone())
            },
            at: inputs.now,
            restart: restarts.then(|| (add_saturating(inputs.now, delay), delay)),
            backs_off: false,
        });
    }
}
