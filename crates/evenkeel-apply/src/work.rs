//! Counts steps, so that tests can distinguish linear from quadratic time.
//!
//! A clock would depend on the machine. Outside of tests nothing is counted and the calls compile
//! to nothing.

/// Counts one step: a visited node, or a comparison of two keys.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    counter::add(1);
}

#[cfg(test)]
mod tests;

#[cfg(test)]
use counter::steps_of;

#[cfg(test)]
mod counter {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn add(steps: u64) {
        STEPS.set(STEPS.get() + steps);
    }

    /// Returns the number of steps of a call on this thread.
    pub(super) fn steps_of<T>(run: impl FnOnce() -> T) -> u64 {
        let before = STEPS.get();
        drop(run());
        STEPS.get() - before
    }
}
