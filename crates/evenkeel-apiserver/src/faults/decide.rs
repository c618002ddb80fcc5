//! Counts requests and events and chooses the fault that happens at each. The outcome follows from
//! the plan and the order of requests.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use evenkeel_types::random::SplitMix64;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::log::Log;
use super::place::Place;
use super::plan::{At, Effect, Fault, Plan, Random};
use crate::clock_rng::ClockRng;

/// How long a gap lasts.
const GAP: Duration = Duration::from_secs(5);

/// The faults of a plan that are still to happen.
pub(crate) struct Faults {
    state: Mutex<State>,
    clock: Arc<ClockRng>,
}

struct State {
    /// The faults, and how often their place occurred.
    pending: Vec<(Fault, u32)>,
    seed: u64,
    /// The rules, and how often each may still inject.
    random: Vec<(Random, u32)>,
    /// How often each place occurred.
    counts: BTreeMap<[String; 4], u32>,
    /// Until when a user cannot list or watch a resource; its watches have expired then.
    gaps: BTreeMap<[String; 2], Instant>,
    log: Log,
}

/// What an earlier gap does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    Unreachable,
    Expired,
}

impl Faults {
    /// Returns the faults of `plan`, which are logged to `log`.
    pub(crate) fn new(plan: Plan, log: Box<dyn Write + Send>, clock: Arc<ClockRng>) -> Self {
        let state = State {
            pending: plan.faults.into_iter().map(|fault| (fault, 0)).collect(),
            seed: plan.seed,
            random: plan
                .random
                .into_iter()
                .map(|rule| {
                    let left = rule.limit.unwrap_or(u32::MAX);
                    (rule, left)
                })
                .collect(),
            counts: BTreeMap::new(),
            gaps: BTreeMap::new(),
            log: Log::new(log),
        };
        Self { state: Mutex::new(state), clock }
    }

    /// Counts a request or event; returns the fault that happens, which is logged.
    pub(crate) fn at(&self, place: &Place) -> Option<Effect> {
        let mut state = self.state.lock();
        let nth = state.count(place);
        let effect = state.named(place).or_else(|| state.drawn(place, nth))?;
        if effect == Effect::Gap {
            let key = [&place.user, &place.resource].map(String::clone);
            state.gaps.insert(key, Instant::now() + GAP);
        }
        let fault = Fault { at: place.at(nth), effect };
        state.log.injected(&fault, self.clock.now());
        Some(effect)
    }

    /// Returns what an earlier gap does to a request.
    pub(crate) fn gap(&self, place: &Place) -> Option<Gap> {
        if !matches!(place.verb, "list" | "watch") {
            return None;
        }
        let mut state = self.state.lock();
        let key = [&place.user, &place.resource].map(String::clone);
        let until = *state.gaps.get(&key)?;
        if Instant::now() < until {
            return Some(Gap::Unreachable);
        }
        // A list is as good as the expired watch.
        state.gaps.remove(&key);
        place.allows(Effect::Expire).then_some(Gap::Expired).filter(|_| place.verb == "watch")
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").finish_non_exhaustive()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        for (fault, count) in &state.pending {
            state.log.unused(fault, *count, self.clock.now());
        }
    }
}

impl State {
    fn count(&mut self, place: &Place) -> u32 {
        let key = [&place.user, place.verb, &place.resource, &place.object].map(str::to_owned);
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count
    }

    /// Returns the fault that the plan names for this occurrence.
    fn named(&mut self, place: &Place) -> Option<Effect> {
        let mut happens = None;
        for (index, (fault, count)) in self.pending.iter_mut().enumerate() {
            if !place.is(&fault.at) {
                continue;
            }
            *count += 1;
            if happens.is_none() && *count >= fault.at.nth && place.allows(fault.effect) {
                happens = Some(index);
            }
        }
        happens.map(|index| self.pending.remove(index).0.effect)
    }

    /// Returns the fault that a random rule injects.
    fn drawn(&mut self, place: &Place, nth: u32) -> Option<Effect> {
        for (index, (rule, left)) in self.random.iter_mut().enumerate() {
            let Random { at: At { nth: first, .. }, rate, effects, .. } = &rule;
            if *left == 0 || nth < *first || !place.is(&rule.at) {
                continue;
            }
            let possible: Vec<Effect> =
                effects.iter().copied().filter(|effect| place.allows(*effect)).collect();
            let mut random = generator(self.seed, index, place, nth);
            if possible.is_empty() || unit(random.next()) >= *rate {
                continue;
            }
            let chosen = usize::try_from(random.next() % possible.len() as u64).unwrap_or(0);
            *left -= 1;
            return possible.get(chosen).copied();
        }
        None
    }
}

/// Returns a generator for one rule at one occurrence of a place.
fn generator(seed: u64, rule: usize, place: &Place, nth: u32) -> SplitMix64 {
    let mut random = SplitMix64(seed);
    for text in [&place.user, place.verb, &place.resource, &place.object] {
        for byte in text.bytes().chain([0xff]) {
            random.0 ^= u64::from(byte);
            random.next();
        }
    }
    random.0 ^= u64::from(nth) << 32 | rule as u64;
    random.next();
    random
}

/// Returns a number from 0 to 1, exclusive.
fn unit(random: u64) -> f64 {
    // The 53 bits of a float's mantissa.
    const ONE: f64 = (1_u64 << 53) as f64;
    (random >> 11) as f64 / ONE
}
