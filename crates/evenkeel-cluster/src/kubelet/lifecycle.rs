//! The lifecycle of a pod on its node: a state machine on tokio's clock.
//!
//! [`Lifecycle::advance`] performs everything that is due for the pod's spec, its simulation and
//! the cluster's delays, records the events, and returns when the next step is due. It does not
//! depend on the format of the status.

mod step;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use super::events::Events;
use super::instance::{Instance, Running, State, add_saturating};
use super::pod_containers::{self, PodContainer, Role};
use super::probes::Timeline;
use super::process::Process;
use super::simulation::PodSimulation;
use crate::options::Delays;
use crate::pods;

/// The resync interval of the kubelet after an error: a failed pull is reported as `ErrImagePull`
/// and an exit as terminated until then, and as backoff afterwards.
const RESYNC: Duration = Duration::from_secs(1);

/// The state of one pod on its node.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) address: Option<Ipv4Addr>,
    /// In the order of [`pod_containers::of`].
    pub(super) containers: Vec<Instance>,
    /// How many of them are init containers.
    inits: usize,
    /// Whether the sandbox exists, and with it the pod's address.
    pub(super) sandbox: bool,
    pub(super) ending: Option<Ending>,
    /// Whether the active deadline was exceeded.
    pub(super) deadline_exceeded: bool,
    /// When the node accepted the pod.
    pub(super) accepted: Instant,
    /// The effective grace period, once the pod is deleted.
    grace: Option<Duration>,
}

/// Why the containers of a pod are stopped and not restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All containers have completed.
    Finished,
    /// The active deadline was exceeded.
    DeadlineExceeded,
    /// Another client set a terminal phase.
    PhaseSet,
    /// The phase was terminal when this process first saw the pod.
    AlreadyTerminal,
    /// The pod was deleted.
    Deleted,
}

/// The inputs of the state machine.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) pod: &'a Pod,
    pub(super) simulation: &'a PodSimulation,
    pub(super) delays: &'a Delays,
    pub(super) now: Instant,
    pub(super) wall: &'a Time,
}

impl<'a> Inputs<'a> {
    /// Returns the simulation of one container.
    fn simulation(&self, container: &PodContainer<'_>) -> Cow<'a, PodSimulation> {
        match (self.simulation.containers.get(container.name), container.role) {
            (Some(own), _) => Cow::Borrowed(own),
            (None, Role::App) => Cow::Borrowed(self.simulation),
            (None, _) => {
                let image_pull_error = self.simulation.image_pull_error;
                Cow::Owned(PodSimulation { image_pull_error, ..PodSimulation::default() })
            }
        }
    }

    /// Returns the grace period of the containers.
    fn grace_period(&self) -> Duration {
        let spec = self.pod.spec.as_ref();
        let own = spec.and_then(|spec| spec.termination_grace_period_seconds);
        seconds(self.pod.metadata.deletion_grace_period_seconds.or(own).unwrap_or(30))
    }
}

/// A container, its simulated process and its probe results.
struct ContainerInputs<'a> {
    container: PodContainer<'a>,
    simulation: Cow<'a, PodSimulation>,
    process: Process,
    probes: Timeline,
}

impl Lifecycle {
    /// Creates the state of a pod that was just bound to its node.
    pub(super) fn new(uid: &str, node: &str, address: Option<Ipv4Addr>, now: Instant) -> Self {
        Self {
            uid: uid.to_owned(),
            node: node.to_owned(),
            address,
            containers: Vec::new(),
            inits: 0,
            sandbox: false,
            ending: None,
            deadline_exceeded: false,
            accepted: now,
            grace: None,
        }
    }

    /// Whether all containers have stopped permanently.
    pub(super) fn is_over(&self) -> bool {
        self.ending.is_some() && !self.containers.iter().any(Instance::is_running)
    }

    /// Performs everything that is due. Returns when the next step is due.
    pub(super) fn advance(
        &mut self,
        inputs: &Inputs<'_>,
        events: &mut Events<'_>,
    ) -> Option<Instant> {
        let containers: Vec<ContainerInputs<'_>> = pod_containers::of(inputs.pod)
            .map(|container| {
                let simulation = inputs.simulation(&container);
                let process = Process::of(&container, inputs.pod, &simulation, inputs.delays);
                let probes = Timeline::of(&container, &simulation, inputs.delays.ready);
                ContainerInputs { container, simulation, process, probes }
            })
            .collect();
        // Ephemeral containers may be added to a running pod.
        self.containers.resize_with(containers.len(), Instance::new);
        let is_init =
            |container_inputs: &&ContainerInputs<'_>| container_inputs.container.role.is_init();
        self.inits = containers.iter().take_while(is_init).count();
        let sandbox_at = add_saturating(self.accepted, inputs.delays.start);
        loop {
            self.end(inputs, &containers, events);
            self.sandbox = (self.sandbox || sandbox_at <= inputs.now) && !self.is_over();
            let mut changed = false;
            for (index, container_inputs) in containers.iter().enumerate() {
                changed |= self.step(index, container_inputs, inputs, events);
            }
            if !changed {
                break;
            }
        }
        if self.is_over() {
            return None;
        }
        let deadline = self.deadline(inputs).filter(|_| self.ending.is_none());
        let sandbox = (!self.sandbox && self.ending.is_none()).then_some(sandbox_at);
        let due = self.containers.iter().zip(&containers);
        let due = due.filter_map(|(instance, container_inputs)| {
            self.due(instance, container_inputs, inputs.now)
        });
        due.chain(deadline).chain(sandbox).min()
    }

    /// Sets `ending` if the pod ends.
    fn end(
        &mut self,
        inputs: &Inputs<'_>,
        containers: &[ContainerInputs<'_>],
        events: &mut Events<'_>,
    ) {
        if self.ending == Some(Ending::AlreadyTerminal) {
            return;
        }
        if pods::is_terminating(inputs.pod) {
            let grace = inputs.grace_period();
            if self.grace.is_none_or(|before| grace < before) {
                for instance in &mut self.containers {
                    if let State::Running(Running { stop: Some(stop), .. }) = &mut instance.state {
                        stop.shorten(inputs.now, grace);
                    }
                }
            }
            self.grace = Some(grace);
            self.ending = Some(Ending::Deleted);
            return;
        }
        if self.ending.is_some() {
            return;
        }
        if pods::is_terminal(inputs.pod) {
            self.ending = Some(Ending::PhaseSet);
        } else if self.deadline(inputs).is_some_and(|at| at <= inputs.now) {
            self.ending = Some(Ending::DeadlineExceeded);
            self.deadline_exceeded = true;
            events.deadline_exceeded();
        } else if self.is_finished(containers) {
            self.ending = Some(Ending::Finished);
        }
    }

    fn deadline(&self, inputs: &Inputs<'_>) -> Option<Instant> {
        let deadline = inputs.pod.spec.as_ref()?.active_deadline_seconds?;
        Some(add_saturating(self.accepted, seconds(deadline)))
    }

    /// Whether the pod is complete: an init container failed permanently, or no app container will
    /// be restarted.
    fn is_finished(&self, containers: &[ContainerInputs<'_>]) -> bool {
        let of = |role: Role| {
            let all = self.containers.iter().zip(containers);
            all.filter(move |(_, container_inputs)| container_inputs.container.role == role)
                .map(|(instance, _)| instance)
        };
        let failed = of(Role::Init).any(|init| init.is_done() && !init.initialized);
        failed || (of(Role::App).next().is_some() && of(Role::App).all(Instance::is_done))
    }

    /// Returns when the next step of one container is due.
    fn due(
        &self,
        instance: &Instance,
        container_inputs: &ContainerInputs<'_>,
        now: Instant,
    ) -> Option<Instant> {
        let ending = self.ending.is_some();
        let future = |at: Instant| Some(at).filter(|at| *at > now);
        match &instance.state {
            State::Waiting => None,
            State::NoImage(_) if ending => None,
            State::NoImage(failed) => {
                let notice =
                    future(add_saturating(failed.since, RESYNC)).filter(|_| !failed.backs_off);
                notice.into_iter().chain([failed.retry]).min()
            }
            State::Exited(exited) => {
                let (restart, delay) = exited.restart?;
                let notice = future(add_saturating(exited.at, RESYNC));
                let notice = notice.filter(|_| !exited.backs_off && !delay.is_zero());
                // A container that waits for others is started when they change.
                notice.into_iter().chain(future(restart)).min()
            }
            State::Running(running) => {
                let age = now.saturating_duration_since(running.since);
                let exit = container_inputs
                    .process
                    .exit
                    .map(|(time, _)| add_saturating(running.since, time));
                let probe = container_inputs
                    .probes
                    .next(age)
                    .map(|time| add_saturating(running.since, time));
                let stop = running.stop.as_ref().map(|stop| {
                    stop.exit(&container_inputs.process).map_or(stop.deadline, |(at, _)| at)
                });
                [exit, probe, stop].into_iter().flatten().min()
            }
        }
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}
