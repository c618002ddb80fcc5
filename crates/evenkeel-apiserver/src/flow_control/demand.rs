//! The demand for seats over time: its average, deviation and maximum.

use tokio::time::Instant;

/// Integrates the demand of a priority level.
pub(super) struct Demand {
    since: Instant,
    changed: Instant,
    value: f64,
    /// Sums of value and of its square, each times seconds.
    sum: f64,
    squares: f64,
    max: f64,
}

/// The demand in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Observed {
    pub(super) seconds: f64,
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) max: f64,
}

impl Demand {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, changed: now, value: 0.0, sum: 0.0, squares: 0.0, max: 0.0 }
    }

    pub(super) fn set(&mut self, now: Instant, seats: usize) {
        self.integrate(now);
        self.value = seats as f64;
        self.max = self.max.max(self.value);
    }

    /// Returns the demand since the last call, and begins a new period.
    pub(super) fn take(&mut self, now: Instant) -> Observed {
        self.integrate(now);
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        let mut observed = Observed { seconds, max: self.max, ..Observed::default() };
        if seconds > 0.0 {
            observed.average = self.sum / seconds;
            let variance = self.squares / seconds - observed.average * observed.average;
            observed.deviation = variance.max(0.0).sqrt();
        }
        *self = Self { value: self.value, max: self.value, ..Self::new(now) };
        observed
    }

    fn integrate(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.changed).as_secs_f64();
        self.changed = now;
        self.sum += self.value * seconds;
        self.squares += self.value * self.value * seconds;
    }
}
