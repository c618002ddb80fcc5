//! Finds the shortest sequence that reproduces a difference.
//!
//! Whole steps are removed first (delta debugging: large pieces before small ones), then parts of
//! the remaining bodies. Only a difference of the same class counts, so that shrinking does not
//! drift from one bug to another.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::compare::Difference;
use crate::known::KnownDifferences;
use crate::pair::Pair;
use crate::sequence::{Sequence, Step};

/// Maximum number of attempts.
const BUDGET: usize = 300;

/// Maximum number of attempts if each compacts kube-apiserver, which takes seconds.
const SLOW_BUDGET: usize = 12;

/// Time limit: an attempt that waits for CRDs to be served and deleted takes seconds too.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Shrinker<'a> {
    pair: &'a Pair,
    known: &'a KnownDifferences,
    /// Method and last part of the path, and the path in the response.
    wanted: (String, String),
    budget: usize,
    deadline: Instant,
}

/// Shrinks `sequence`, which reproduces `difference` on `pair`.
pub async fn shrink(
    pair: &Pair,
    known: &KnownDifferences,
    sequence: &Sequence,
    difference: &Difference,
) -> Sequence {
    let wanted = kind(sequence, difference);
    let budget = if sequence.compacts() { SLOW_BUDGET } else { BUDGET };
    let deadline = Instant::now() + TIMEOUT;
    let mut shrinker = Shrinker { pair, known, wanted, budget, deadline };
    // Later steps cannot have caused the difference.
    let mut best = sequence.clone();
    best.steps.truncate(difference.step + 1);
    if !shrinker.reproduces(&best).await {
        return sequence.clone();
    }
    shrinker.shrink_steps(&mut best).await;
    shrinker.shrink_bodies(&mut best).await;
    best
}

fn kind(sequence: &Sequence, difference: &Difference) -> (String, String) {
    let step = &sequence.steps[difference.step];
    let (method, path) = step.method_and_path();
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let request = if step.read.is_some() { "read".to_owned() } else { format!("{method} {path}") };
    (request, difference.class())
}

impl Shrinker<'_> {
    fn has_budget(&self) -> bool {
        self.budget > 0 && Instant::now() < self.deadline
    }

    async fn reproduces(&mut self, sequence: &Sequence) -> bool {
        self.budget = self.budget.saturating_sub(1);
        let Ok(finding) = self.pair.compare(sequence, self.known).await else { return false };
        finding.unexplained.iter().any(|found| kind(sequence, found) == self.wanted)
    }

    async fn shrink_steps(&mut self, best: &mut Sequence) {
        let mut size = best.steps.len() / 2;
        while size > 0 && self.has_budget() {
            let mut start = 0;
            let mut removed = false;
            while start < best.steps.len() && self.has_budget() {
                let mut candidate = best.clone();
                let end = (start + size).min(candidate.steps.len());
                candidate.steps.drain(start..end);
                if !candidate.steps.is_empty() && self.reproduces(&candidate).await {
                    *best = candidate;
                    removed = true;
                } else {
                    start += size;
                }
            }
            // Repeat the smallest size as long as a step can be removed.
            size = if removed && size == 1 { 1 } else { size / 2 };
        }
    }

    async fn shrink_bodies(&mut self, best: &mut Sequence) {
        for at in 0..best.steps.len() {
            for simpler in simpler_requests(&best.steps[at]) {
                let mut candidate = best.clone();
                candidate.steps[at] = simpler;
                if self.has_budget() && self.reproduces(&candidate).await {
                    *best = candidate;
                }
            }
            let mut pointers = Vec::new();
            if let Some(body) = &best.steps[at].body {
                list_pointers(body, &mut String::new(), &mut pointers);
            }
            // Outer parts first; parts inside removed ones are skipped.
            for pointer in pointers {
                let mut candidate = best.clone();
                let Some(body) = &mut candidate.steps[at].body else { break };
                if body.pointer(&pointer).is_none() {
                    continue;
                }
                crate::sequence::unset_at(body, &pointer);
                if self.has_budget() && self.reproduces(&candidate).await {
                    *best = candidate;
                }
            }
        }
    }
}

/// Returns copies of the step, each without one header, saved value or query parameter.
fn simpler_requests(step: &Step) -> Vec<Step> {
    let mut simpler = Vec::new();
    for name in step.headers.keys() {
        let mut without = step.clone();
        without.headers.remove(name);
        simpler.push(without);
    }
    for name in step.save.keys() {
        let mut without = step.clone();
        without.save.remove(name);
        simpler.push(without);
    }
    if let Some((path, query)) = step.call.split_once('?') {
        let parameters: Vec<_> = query.split('&').collect();
        for at in 0..parameters.len() {
            let mut left = parameters.clone();
            left.remove(at);
            let mut without = step.clone();
            without.call = match left.is_empty() {
                true => path.to_owned(),
                false => format!("{path}?{}", left.join("&")),
            };
            simpler.push(without);
        }
    }
    simpler
}

fn list_pointers(value: &Value, at: &mut String, pointers: &mut Vec<String>) {
    let mut child = |at: &mut String, key: &str, value: &Value| {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        pointers.push(at.clone());
        list_pointers(value, at, pointers);
        at.truncate(length);
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                child(at, name, value);
            }
        }
        Value::Array(items) => {
            // From the end, so that removing an item does not shift the others.
            for (index, item) in items.iter().enumerate().rev() {
                child(at, &index.to_string(), item);
            }
        }
        _ => {}
    }
}
