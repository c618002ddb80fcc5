//! How many seats each priority level has: its share, changed by what levels lend and borrow.
//!
//! As upstream, the numbers are adjusted every ten seconds to the demand of the time before.

use super::demand::Observed;

/// The weight of the past in the smoothed demand: a half-life of five minutes.
const SMOOTHING: f64 = 0.977;

/// A target of zero would not get a share.
const MIN_TARGET: f64 = 0.001;

/// The bounds of the seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) nominal: usize,
    /// Without the seats that it may lend.
    pub(super) min: usize,
    /// With the seats that it may borrow.
    pub(super) max: usize,
}

/// The demand of a level, smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Smoothed {
    high: usize,
    smoothed: f64,
}

/// A level whose seats are allocated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) is_exempt: bool,
    pub(super) bounds: Bounds,
    pub(super) demand: Smoothed,
}

impl Bounds {
    /// Returns the bounds of a level with `shares` of `all_shares` of `total` seats.
    pub(super) fn new(
        total: usize,
        shares: f64,
        all_shares: f64,
        lendable_percent: f64,
        borrowing_percent: Option<f64>,
    ) -> Self {
        let nominal = (total as f64 * shares / all_shares.max(1.0)).ceil();
        let lendable = (nominal * lendable_percent / 100.0).round();
        let borrowed = match borrowing_percent {
            Some(percent) => (nominal * percent / 100.0).round(),
            None => total as f64,
        };
        let seats = |number: f64| number.max(0.0) as usize;
        Self {
            nominal: seats(nominal),
            min: seats(nominal - lendable),
            max: seats(nominal + borrowed),
        }
    }
}

impl Smoothed {
    pub(super) fn update(&mut self, observed: Observed) {
        self.high = observed.max.round() as usize;
        if observed.seconds > 0.0 {
            let envelope = observed.average + observed.deviation;
            let decayed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope;
            self.smoothed = envelope.max(decayed);
        }
    }
}

impl Level {
    /// Returns the seats that a level keeps in any case: those it used in the last period.
    fn lower(&self) -> usize {
        let Bounds { nominal, min, .. } = self.bounds;
        match self.is_exempt {
            true => min.max(self.demand.high),
            false => min.max(nominal.min(self.demand.high)),
        }
    }
}

/// Returns the number of seats of each level.
pub(super) fn allocate(levels: &[Level]) -> Vec<usize> {
    let limited: Vec<&Level> = levels.iter().filter(|level| !level.is_exempt).collect();
    let nominal: usize = levels.iter().map(|level| level.bounds.nominal).sum();
    let exempt: usize = levels.iter().filter(|level| level.is_exempt).map(Level::lower).sum();
    let remaining = nominal.saturating_sub(exempt);
    let min: usize = limited.iter().map(|level| level.bounds.min).sum();
    let lower: usize = limited.iter().map(|level| level.lower()).sum();
    let proportion = (remaining > lower).then(|| fair_proportion(nominal as f64, &limited));
    let allocated = |level: &Level| {
        let Bounds { min: own, .. } = level.bounds;
        match proportion {
            _ if level.is_exempt => level.lower(),
            Some(proportion) => level.clamp(proportion).round() as usize,
            None if remaining <= min => own,
            None => {
                let part = (remaining - min) as f64 / (lower - min).max(1) as f64;
                own + ((level.lower() - own) as f64 * part).round() as usize
            }
        }
    };
    levels.iter().map(allocated).collect()
}

impl Level {
    /// Returns a proportion of the target, within the bounds.
    fn clamp(&self, proportion: f64) -> f64 {
        let lower = self.lower() as f64;
        let target = lower.max(self.demand.smoothed).max(MIN_TARGET);
        (target * proportion).clamp(lower, lower.max(self.bounds.max as f64))
    }
}

/// Returns the proportion of their targets with which all levels together have `sum` seats.
fn fair_proportion(sum: f64, levels: &[&Level]) -> f64 {
    // The sum of all levels grows with the proportion.
    let total =
        |proportion: f64| -> f64 { levels.iter().map(|level| level.clamp(proportion)).sum() };
    let (mut low, mut high) = (0.0, sum.max(1.0) / MIN_TARGET);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if total(middle) < sum {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(nominal: usize, lendable: f64, demand: f64) -> Level {
        let bounds = Bounds::new(nominal, 1.0, 1.0, lendable, None);
        let demand = Smoothed { high: demand as usize, smoothed: demand };
        Level { is_exempt: false, bounds: Bounds { max: 1000, ..bounds }, demand }
    }

    #[test]
    fn bounds_are_those_of_upstream_by_default() {
        // global-default: 20 of 245 shares of 600 seats, half of them lendable.
        let bounds = Bounds::new(600, 20.0, 245.0, 50.0, None);
        assert_eq!(bounds, Bounds { nominal: 49, min: 24, max: 649 });
        let limited = Bounds::new(600, 20.0, 245.0, 0.0, Some(100.0));
        assert_eq!(limited, Bounds { nominal: 49, min: 49, max: 98 });
    }

    #[test]
    fn seats_of_idle_levels_are_lent_to_busy_ones() {
        let seats = allocate(&[level(100, 90.0, 0.0), level(50, 0.0, 0.0), level(50, 50.0, 150.0)]);
        assert_eq!(seats.iter().sum::<usize>(), 200);
        assert_eq!(seats[1], 50, "it lends nothing");
        assert!(seats[0] >= 10 && seats[2] > 130, "{seats:?}");
        // All want more than there is, so all have their nominal number.
        let wanted = [level(100, 90.0, 500.0), level(50, 0.0, 500.0), level(50, 50.0, 500.0)];
        assert_eq!(allocate(&wanted), [100, 50, 50]);
    }

    #[test]
    fn exempt_requests_take_seats_from_the_lendable_ones() {
        let exempt = Level { is_exempt: true, ..level(0, 0.0, 95.0) };
        let seats = allocate(&[exempt, level(100, 90.0, 100.0)]);
        assert_eq!(seats, [95, 10]);
    }

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let mut demand = Smoothed::default();
        let busy = Observed { seconds: 10.0, average: 90.0, deviation: 10.0, max: 110.0 };
        demand.update(busy);
        assert_eq!((demand.high, demand.smoothed), (110, 100.0));
        demand.update(Observed { seconds: 10.0, ..Observed::default() });
        assert_eq!(demand.high, 0);
        assert!((demand.smoothed - 97.7).abs() < 0.01, "{}", demand.smoothed);
    }
}
