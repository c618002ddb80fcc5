//! The lifecycle of a pod on its node: a state machine on tokio's clock.
//!
//! [`Lifecycle::advance`] does everything that is due by now for the pod's spec, its plan and the
//! cluster's delays, and returns the events of it and when something is due next. It knows nothing
//! of how a status looks.

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
use super::instance::{Instance, Running, State, later};
use super::pod_containers::{self, Member, Role};
use super::probes::Timeline;
use super::process::Process;
use super::simulation::PodSimulation;
use crate::options::Delays;
use crate::pods;

/// How long it takes a kubelet to look at a pod again after an error: until then a failed pull is
/// `ErrImagePull`, an exit is shown as it is, and only then is either put off visibly.
const RESYNC: Duration = Duration::from_secs(1);

/// One pod on its node.
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) address: Option<Ipv4Addr>,
    /// In the order of [`pod_containers::of`].
    pub(super) containers: Vec<Instance>,
    /// How many of them are init containers.
    inits: usize,
    /// Whether the sandbox is there, and with it the pod's address.
    pub(super) sandbox: bool,
    pub(super) ending: Option<Ending>,
    /// Whether it ran longer than its deadline.
    pub(super) overdue: bool,
    /// When the node accepted the pod.
    pub(super) accepted: Instant,
    /// The grace period that counts, once it is deleted.
    grace: Option<Duration>,
}

/// Why the containers of a pod are stopped and none is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// There is nothing left to do.
    Finished,
    /// It ran longer than its deadline.
    Overdue,
    /// Its phase was set to a terminal one by another client.
    Declared,
    /// It had ended before this process first saw it.
    Before,
    /// It was deleted.
    Deleted,
}

/// What a pod's state is computed from.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) pod: &'a Pod,
    pub(super) simulation: &'a PodSimulation,
    pub(super) delays: &'a Delays,
    pub(super) now: Instant,
    pub(super) wall: &'a Time,
}

impl<'a> Inputs<'a> {
    /// The plan of one container.
    fn simulation(&self, member: &Member<'_>) -> Cow<'a, PodSimulation> {
        match (self.simulation.containers.get(member.name), member.role) {
            (Some(own), _) => Cow::Borrowed(own),
            (None, Role::App) => Cow::Borrowed(self.simulation),
            (None, _) => {
                let image_pull_error = self.simulation.image_pull_error;
                Cow::Owned(PodSimulation { image_pull_error, ..PodSimulation::default() })
            }
        }
    }

    /// How long containers have to stop.
    fn grace(&self) -> Duration {
        let spec = self.pod.spec.as_ref();
        let own = spec.and_then(|spec| spec.termination_grace_period_seconds);
        seconds(self.pod.metadata.deletion_grace_period_seconds.or(own).unwrap_or(30))
    }
}

/// A container, what its process does and what its probes report.
struct Subject<'a> {
    member: Member<'a>,
    simulation: Cow<'a, PodSimulation>,
    process: Process,
    probes: Timeline,
}

impl Lifecycle {
    /// A pod that its node sees for the first time.
    pub(super) fn new(uid: &str, node: &str, address: Option<Ipv4Addr>, now: Instant) -> Self {
        Self {
            uid: uid.to_owned(),
            node: node.to_owned(),
            address,
            containers: Vec::new(),
            inits: 0,
            sandbox: false,
            ending: None,
            overdue: false,
            accepted: now,
            grace: None,
        }
    }

    /// Whether all containers have stopped for good.
    pub(super) fn is_over(&self) -> bool {
        self.ending.is_some() && !self.containers.iter().any(Instance::is_running)
    }

    /// Does all that is due by now. Returns when something is due next.
    pub(super) fn advance(
        &mut self,
        inputs: &Inputs<'_>,
        events: &mut Events<'_>,
    ) -> Option<Instant> {
        let subjects: Vec<Subject<'_>> = pod_containers::of(inputs.pod)
            .map(|member| {
                let simulation = inputs.simulation(&member);
                let process = Process::of(&member, inputs.pod, &simulation, inputs.delays);
                let probes = Timeline::of(&member, &simulation, inputs.delays.ready);
                Subject { member, simulation, process, probes }
            })
            .collect();
        // Ephemeral containers may be added to a pod that runs.
        self.containers.resize_with(subjects.len(), Instance::new);
        let is_init = |subject: &&Subject<'_>| subject.member.role.is_init();
        self.inits = subjects.iter().take_while(is_init).count();
        let sandbox_at = later(self.accepted, inputs.delays.start);
        loop {
            self.end(inputs, &subjects, events);
            self.sandbox = (self.sandbox || sandbox_at <= inputs.now) && !self.is_over();
            let mut changed = false;
            for (index, subject) in subjects.iter().enumerate() {
                changed |= self.step(index, subject, inputs, events);
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
        let due = self.containers.iter().zip(&subjects);
        let due = due.filter_map(|(instance, subject)| self.due(instance, subject, inputs.now));
        due.chain(deadline).chain(sandbox).min()
    }

    /// Notices that the pod ends.
    fn end(&mut self, inputs: &Inputs<'_>, subjects: &[Subject<'_>], events: &mut Events<'_>) {
        if self.ending == Some(Ending::Before) {
            return;
        }
        if pods::is_terminating(inputs.pod) {
            let grace = inputs.grace();
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
            self.ending = Some(Ending::Declared);
        } else if self.deadline(inputs).is_some_and(|at| at <= inputs.now) {
            self.ending = Some(Ending::Overdue);
            self.overdue = true;
            events.overdue();
        } else if self.is_finished(subjects) {
            self.ending = Some(Ending::Finished);
        }
    }

    fn deadline(&self, inputs: &Inputs<'_>) -> Option<Instant> {
        let deadline = inputs.pod.spec.as_ref()?.active_deadline_seconds?;
        Some(later(self.accepted, seconds(deadline)))
    }

    /// Whether there is nothing left to do: an init container failed for good, or no app container
    /// will run again.
    fn is_finished(&self, subjects: &[Subject<'_>]) -> bool {
        let of = |role: Role| {
            let all = self.containers.iter().zip(subjects);
            all.filter(move |(_, subject)| subject.member.role == role)
                .map(|(instance, _)| instance)
        };
        let failed = of(Role::Init).any(|init| init.is_done() && !init.initialized);
        failed || (of(Role::App).next().is_some() && of(Role::App).all(Instance::is_done))
    }

    /// When something is due next for one container.
    fn due(&self, instance: &Instance, subject: &Subject<'_>, now: Instant) -> Option<Instant> {
        let ending = self.ending.is_some();
        let future = |at: Instant| Some(at).filter(|at| *at > now);
        match &instance.state {
            State::Waiting => None,
            State::NoImage(_) if ending => None,
            State::NoImage(failed) => {
                let notice = future(later(failed.since, RESYNC)).filter(|_| !failed.backs_off);
                notice.into_iter().chain([failed.retry]).min()
            }
            State::Exited(exited) => {
                let (restart, delay) = exited.restart?;
                let notice = future(later(exited.at, RESYNC));
                let notice = notice.filter(|_| !exited.backs_off && !delay.is_zero());
                // One that has to wait for its turn is woken by what it waits for.
                notice.into_iter().chain(future(restart)).min()
            }
            State::Running(running) => {
                let age = now.saturating_duration_since(running.since);
                let exit = subject.process.exit.map(|(time, _)| later(running.since, time));
                let probe = subject.probes.next(age).map(|time| later(running.since, time));
                let stop = running
                    .stop
                    .as_ref()
                    .map(|stop| stop.exit(&subject.process).map_or(stop.deadline, |(at, _)| at));
                [exit, probe, stop].into_iter().flatten().min()
            }
        }
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}
