//! Random steps on the state machine and on a simple model of it.
//!
//! The model has one map of all keys and scans it at each step, without lists, heaps or slots, and
//! makes keys due eagerly.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::queue::core::Taken;
use crate::queue::limit::nanos;

#[derive(Clone, Debug)]
enum Op {
    Add { key: u8, after: Option<u64>, priority: i32, rate_limited: bool },
    Take,
    Done(usize),
    Forget(u8),
    Advance(u64),
    Compact,
    Drain,
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let add = (0..8_u8, prop::option::of(0..60_u64), -2..3_i32, prop::bool::weighted(0.3));
    prop_oneof![
        40 => add.prop_map(|(key, after, priority, rate_limited)| Op::Add {
            key,
            after,
            priority,
            rate_limited
        }),
        30 => Just(Op::Take),
        25 => any::<usize>().prop_map(Op::Done),
        3 => (0..8_u8).prop_map(Op::Forget),
        20 => (0..40_u64).prop_map(Op::Advance),
        3 => Just(Op::Compact),
        1 => Just(Op::Drain),
        1 => Just(Op::Close),
    ]
}

/// The numbers of the merged adds.
#[derive(Clone, Debug, PartialEq)]
struct Adds(Vec<usize>);

impl Merge for Adds {
    fn merge(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

#[derive(Default)]
struct Model {
    now: u64,
    keys: BTreeMap<u8, Entry>,
    /// The sequence number of queue positions.
    turn: u64,
    passed: u32,
    retired: u64,
    closing: bool,
}

#[derive(Default)]
struct Entry {
    pending: Option<Wanted>,
    running: bool,
    failures: u32,
    /// Its position among keys that only have failures.
    retired: u64,
}

#[derive(Clone)]
struct Wanted {
    due: bool,
    /// When the key is or was due.
    at: u64,
    turn: u64,
    priority: i32,
    adds: Vec<usize>,
}

const AGEING: Ageing = Ageing { after: Duration::from_millis(30), share: 3 };
const BUCKET: TokenBucket = TokenBucket { every: Duration::from_millis(4), burst: 3 };
const REMEMBERED: usize = 2;
const MILLI: u64 = 1_000_000;

impl Model {
    fn turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    fn advance(&mut self, by: u64) {
        self.now += by;
        let now = self.now;
        loop {
            let delayed = self.keys.values_mut().filter_map(|entry| entry.pending.as_mut());
            let ripe = delayed.filter(|wanted| !wanted.due && wanted.at <= now);
            let Some(first) = ripe.min_by_key(|wanted| (wanted.at, wanted.turn)) else { break };
            self.turn += 1;
            first.due = true;
            first.turn = self.turn;
        }
    }

    fn add(&mut self, number: usize, key: u8, priority: i32, delay: Option<u64>) {
        let now = self.now;
        let turn = self.turn();
        let entry = self.keys.get_mut(&key).expect("inserted by the caller");
        let at = now + delay.unwrap_or(0);
        let due = at == now;
        let Some(wanted) = &mut entry.pending else {
            entry.pending = Some(Wanted { due, at, turn, priority, adds: vec![number] });
            return;
        };
        wanted.adds.push(number);
        if wanted.due {
            if priority > wanted.priority {
                wanted.turn = turn;
            }
        } else if at < wanted.at || due {
            wanted.at = at;
            wanted.due = due;
            wanted.turn = turn;
        }
        wanted.priority = wanted.priority.max(priority);
    }

    fn take(&mut self) -> Option<u8> {
        let mut due: Vec<(u8, &Wanted)> = self
            .keys
            .iter()
            .filter(|(_, entry)| !entry.running)
            .filter_map(|(key, entry)| Some((*key, entry.pending.as_ref()?)))
            .filter(|(_, wanted)| wanted.due)
            .collect();
        due.sort_by_key(|(_, wanted)| (-wanted.priority, wanted.turn));
        let (first, highest) = due.first().map(|(key, wanted)| (*key, wanted.priority))?;
        // The first of each lower class.
        let mut lower: Vec<_> =
            due.iter().filter(|(_, wanted)| wanted.priority < highest).collect();
        lower.dedup_by_key(|(_, wanted)| wanted.priority);
        if lower.is_empty() {
            self.passed = 0;
            return Some(first);
        }
        self.passed += 1;
        let oldest = lower.iter().min_by_key(|(_, wanted)| wanted.at);
        if let Some((key, wanted)) = oldest
            && self.passed >= AGEING.share
            && self.now - wanted.at >= nanos(AGEING.after)
        {
            self.passed = 0;
            return Some(*key);
        }
        Some(first)
    }

    /// Removes keys without state.
    fn tidy(&mut self) {
        self.keys.retain(|_, entry| {
            entry.pending.is_some() || entry.running || (entry.failures > 0 && !self.closing)
        });
        loop {
            let idle: Vec<_> = self
                .keys
                .iter()
                .filter(|(_, entry)| entry.pending.is_none() && !entry.running)
                .map(|(key, entry)| (entry.retired, *key))
                .collect();
            match idle.iter().min() {
                Some((_, oldest)) if idle.len() > REMEMBERED => self.keys.remove(oldest),
                _ => break,
            };
        }
    }

    fn count(&self, which: impl Fn(&Entry) -> bool) -> usize {
        self.keys.values().filter(|entry| which(entry)).count()
    }
}

fn check(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let backoff = Backoff::default();
    let options = QueueOptions {
        backoff: backoff.clone(),
        bucket: Some(BUCKET),
        ageing: AGEING,
        remembered_max: REMEMBERED,
    };
    let mut core: Core<u8, Adds> = Core::new(options);
    let mut tokens = crate::queue::limit::Tokens::new(BUCKET);
    let mut model = Model::default();
    let mut runs: Vec<Taken<u8, Adds>> = Vec::new();
    // All keys hash to two buckets, to test collisions.
    let hash = |key: u8| u32::from(key % 2);
    for (number, op) in ops.into_iter().enumerate() {
        match op {
            Op::Add { key, after, priority, rate_limited } => {
                let after = after.map(Duration::from_millis);
                let add = Add { after, priority, rate_limited, cause: Adds(vec![number]) };
                core.add(model.now, hash(key), key, add);
                if !model.closing {
                    let entry = model.keys.entry(key).or_default();
                    let limit = rate_limited.then(|| {
                        entry.failures += 1;
                        backoff.delay(entry.failures).max(tokens.reserve(model.now))
                    });
                    let delay = after.into_iter().chain(limit).min().map(nanos);
                    model.add(number, key, priority, delay);
                }
            }
            Op::Take => {
                let taken = core.take(model.now);
                let expected = model.take();
                prop_assert_eq!(taken.as_ref().map(|taken| taken.key), expected);
                if let Some(taken) = taken {
                    let entry = model.keys.get_mut(&taken.key).expect("in the model");
                    let wanted = entry.pending.take().expect("pending in the model");
                    prop_assert!(!entry.running, "two workers on {}", taken.key);
                    entry.running = true;
                    prop_assert_eq!(taken.priority, wanted.priority);
                    prop_assert_eq!(&taken.causes.0, &wanted.adds);
                    prop_assert_eq!(nanos(taken.queued_for), model.now - wanted.at);
                    prop_assert_eq!(taken.failures, entry.failures);
                    runs.push(taken);
                }
            }
            Op::Done(which) if !runs.is_empty() => {
                let taken = runs.swap_remove(which % runs.len());
                core.done(taken.run);
                let (turn, retired) = (model.turn(), model.retired + 1);
                model.retired = retired;
                let entry = model.keys.get_mut(&taken.key).expect("running in the model");
                entry.running = false;
                entry.retired = retired;
                if let Some(wanted) = entry.pending.as_mut().filter(|wanted| wanted.due) {
                    wanted.turn = turn;
                }
            }
            Op::Done(_) => {}
            Op::Forget(key) => {
                core.forget(hash(key), &key);
                if let Some(entry) = model.keys.get_mut(&key) {
                    entry.failures = 0;
                }
            }
            Op::Advance(by) => model.advance(by * MILLI),
            Op::Compact => core.compact(),
            Op::Drain => {
                core.drain(model.now);
                model.closing = true;
                for entry in model.keys.values_mut() {
                    entry.pending = entry.pending.take().filter(|wanted| wanted.due);
                }
            }
            Op::Close => {
                core.close();
                model.closing = true;
                model.keys.values_mut().for_each(|entry| entry.pending = None);
            }
        }
        model.tidy();
        core.promote_due(model.now);
        let due = |entry: &Entry| entry.pending.as_ref().is_some_and(|wanted| wanted.due);
        let delayed = |entry: &Entry| entry.pending.as_ref().is_some_and(|wanted| !wanted.due);
        prop_assert_eq!(core.classes.len(), model.count(|entry| due(entry) && !entry.running));
        prop_assert_eq!(core.again, model.count(|entry| due(entry) && entry.running));
        prop_assert_eq!(core.delays.len(), model.count(delayed));
        prop_assert_eq!(core.running.len(), model.count(|entry| entry.running));
        prop_assert_eq!(core.slots.used().count(), model.keys.len());
        for (key, entry) in &model.keys {
            let slot = core.slots.find(hash(*key), key).expect("a slot for each key");
            prop_assert_eq!(core.slots[slot].failures, entry.failures);
        }
        let idle = |entry: &Entry| entry.pending.is_none() && !entry.running;
        prop_assert_eq!(core.remembered.len(), model.count(idle));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn queue_matches_a_simple_model(ops in prop::collection::vec(op(), 1..150)) {
        check(ops)?;
    }
}
