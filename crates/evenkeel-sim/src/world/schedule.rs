//! Schedules: each delivery of an event and each reconcile is a choice.
//!
//! All deliveries are held and all controllers are paused. Whenever nothing can happen by itself, the
//! schedule chooses what does: the next event of a resource is delivered, or one object is
//! reconciled.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Abort, World};

/// How long tasks run until they wait for something.
const MOMENT: Duration = Duration::from_millis(1);

/// Moments after which a reconcile that has not ended waits for something else: an event that is
/// held, or a timer.
const RECONCILE: u32 = 20;

/// Choices of one run, beyond which it is not followed any more.
const MAX_DECISIONS: usize = 400;

/// A choice that was made.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Decision {
    /// The number of options.
    pub(crate) options: usize,
    /// A hash of the stored objects, the held events and the workqueue.
    pub(crate) state: u64,
}

/// The choices of a run: those that are given, then the first option.
pub(super) struct Schedule {
    choices: Vec<usize>,
    decisions: Vec<Decision>,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    Deliver(String),
    Reconcile,
}

impl Schedule {
    pub(super) fn new(choices: Vec<usize>) -> Self {
        Self { choices, decisions: Vec::new() }
    }

    pub(super) fn decisions(self) -> Vec<Decision> {
        self.decisions
    }

    /// Returns the option that is chosen, and notes the decision.
    fn choose(&mut self, options: usize, state: u64) -> usize {
        let chosen = self.choices.get(self.decisions.len()).copied().unwrap_or_default();
        self.decisions.push(Decision { options, state });
        chosen.min(options.saturating_sub(1))
    }
}

impl World<'_> {
    /// Makes choices until nothing is left to choose.
    pub(super) async fn follow_schedule(&mut self) -> Result<(), Abort> {
        if self.schedule.is_none() {
            return Ok(());
        }
        loop {
            tokio::time::sleep(MOMENT).await;
            while let Ok(command) = self.commands.try_recv() {
                self.restart(command).await?;
            }
            let options = self.options();
            let state = self.hash();
            let Some(schedule) = &mut self.schedule else { return Ok(()) };
            if options.is_empty() || schedule.decisions.len() >= MAX_DECISIONS {
                return Ok(());
            }
            let chosen = match options.len() {
                1 => 0,
                count => schedule.choose(count, state),
            };
            match &options[chosen] {
                Choice::Deliver(resource) => self.gate.deliver_next(resource),
                Choice::Reconcile => drop(self.reconcile_next().await),
            }
        }
    }

    fn options(&self) -> Vec<Choice> {
        let held = self.gate.held_events();
        let mut options: Vec<Choice> = held.into_keys().map(Choice::Deliver).collect();
        if self.incarnations.iter().any(|it| it.queued() > 0) {
            options.push(Choice::Reconcile);
        }
        options
    }

    /// Returns a hash of what the next steps depend on, except for the memory of the operator.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, object) in &self.state().0 {
            (path, object.to_string()).hash(&mut hasher);
        }
        self.gate.held_events().hash(&mut hasher);
        for incarnation in &self.incarnations {
            incarnation.queued().hash(&mut hasher);
        }
        (self.step, self.gate.unused_faults().len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Lets the controllers reconcile one object, and returns its record. They are paused otherwise.
    pub(crate) async fn reconcile_next(&mut self) -> Option<String> {
        let count = |world: &Self| -> usize {
            world.incarnations.iter().map(super::Incarnation::reconciles).sum()
        };
        if !self.incarnations.iter().any(|it| it.queued() > 0) {
            return None;
        }
        let before = count(self);
        // Each is paused again after one reconcile.
        self.incarnations.iter().for_each(|it| it.set_paused(false));
        let mut passed = 0;
        while count(self) == before && passed < RECONCILE && self.commands.is_empty() {
            tokio::time::sleep(MOMENT).await;
            passed += 1;
        }
        if count(self) == before {
            return None;
        }
        let last = self.incarnations.iter().find_map(super::Incarnation::last)?;
        Some(last.text)
    }
}

impl World<'_> {
    /// Pauses controllers after each reconcile, or lets them run.
    pub(crate) fn set_stepped(&mut self, stepped: bool) {
        self.stepped = stepped;
        self.incarnations.iter().for_each(|it| it.set_stepped(stepped));
    }

    /// Lets everything happen that can happen without a delivery or a reconcile.
    pub(crate) async fn pass_moment(&mut self) -> Result<(), Abort> {
        tokio::time::sleep(MOMENT).await;
        while let Ok(command) = self.commands.try_recv() {
            self.restart(command).await?;
        }
        Ok(())
    }
}
