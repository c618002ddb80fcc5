//! Sinks of a walk: one determines validity, the other collects all failures.

use std::collections::HashSet;

use super::failure::Failure;
use crate::field;

/// Receives the failures of a walk.
pub(super) trait Sink {
    /// Whether messages and counts are needed.
    const COLLECTS: bool;

    fn fail(&mut self, failure: impl FnOnce() -> Failure);

    fn is_valid(&self) -> bool;

    /// Returns an empty sink of the same type for a part whose failures may be ignored.
    fn fork(&self) -> Self;

    fn merge(&mut self, other: Self);

    /// Returns whether further checks cannot change the outcome.
    fn is_done(&self) -> bool {
        !Self::COLLECTS && !self.is_valid()
    }
}

pub(super) struct Validity {
    pub(super) valid: bool,
}

impl Sink for Validity {
    const COLLECTS: bool = false;

    fn fail(&mut self, _: impl FnOnce() -> Failure) {
        self.valid = false;
    }

    fn is_valid(&self) -> bool {
        self.valid
    }

    fn fork(&self) -> Self {
        Self { valid: true }
    }

    fn merge(&mut self, other: Self) {
        self.valid &= other.valid;
    }
}

/// Maximum bytes of messages for one object. Some messages list all allowed values, once for each
/// invalid value.
const MAX_TEXT_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Failures {
    pub(super) list: Vec<Failure>,
    text: usize,
}

impl Failures {
    pub(super) fn into_errors(self, path: &str) -> Vec<field::Error> {
        // Junctors repeat the failures of their parts. Upstream drops repeated messages.
        let mut seen = HashSet::new();
        let mut errors = Vec::with_capacity(self.list.len());
        for failure in self.list {
            if seen.insert(failure.text.clone()) {
                errors.push(failure.into_error(path));
            }
        }
        errors
    }
}

impl Sink for Failures {
    const COLLECTS: bool = true;

    fn fail(&mut self, failure: impl FnOnce() -> Failure) {
        if self.text < MAX_TEXT_BYTES {
            let failure = failure();
            self.text += failure.text.len();
            self.list.push(failure);
        }
    }

    fn is_valid(&self) -> bool {
        self.list.is_empty()
    }

    fn fork(&self) -> Self {
        Self::default()
    }

    fn merge(&mut self, other: Self) {
        if self.text < MAX_TEXT_BYTES {
            self.text += other.text;
            self.list.extend(other.list);
        }
    }
}
