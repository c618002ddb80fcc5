//! Two servers side by side, and what a sequence shows of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::canon::canonical;
use crate::compare::{Difference, compare};
use crate::known::Known;
use crate::run::{Answer, RunError, Running, run};
use crate::sequence::Sequence;
use crate::server::Server;

/// Two servers to compare, the judge first.
#[derive(Debug)]
pub struct Pair {
    upstream: Server,
    ours: Server,
    prefix: String,
    /// Every run gets a namespace nobody used before.
    runs: AtomicUsize,
}

/// What one sequence showed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Finding {
    /// The judge's answers, canonical.
    pub upstream: Vec<Answer>,
    /// Ours.
    pub ours: Vec<Answer>,
    /// How many differences the table explains.
    pub explained: usize,
    /// Those it does not.
    pub unexplained: Vec<Difference>,
}

impl Finding {
    /// What two answers to the same sequence show.
    pub fn new(
        sequence: &Sequence,
        upstream: Vec<Answer>,
        ours: Vec<Answer>,
        known: &Known,
    ) -> Self {
        let mut finding = Self { upstream, ours, ..Self::default() };
        let answers = finding.upstream.iter().zip(&finding.ours);
        for (step, (upstream, ours)) in answers.enumerate() {
            for difference in compare(step, upstream, ours) {
                if known.explains(&sequence.steps[step].call, &difference) {
                    finding.explained += 1;
                } else {
                    finding.unexplained.push(difference);
                }
            }
        }
        finding
    }
}

impl Pair {
    /// Two servers on which namespaces beginning with `prefix` are free.
    pub fn new(upstream: Server, ours: Server, prefix: impl Into<String>) -> Self {
        Self { upstream, ours, prefix: prefix.into(), runs: AtomicUsize::new(0) }
    }

    /// Runs a sequence on both, in a namespace of its own.
    ///
    /// # Errors
    ///
    /// If one of the servers cannot be talked to.
    pub async fn find(&self, sequence: &Sequence, known: &Known) -> Result<Finding, RunError> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{}-{number}", self.prefix);
        let running = Running { namespace: &namespace, expected: None };
        let upstream = run(&self.upstream, sequence, running).await?;
        let running = Running { namespace: &namespace, expected: Some(&upstream) };
        let ours = run(&self.ours, sequence, running).await?;
        Ok(Finding::new(sequence, canonical(&upstream), canonical(&ours), known))
    }
}
