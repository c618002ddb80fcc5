//! The metrics: handles to shared atomic values.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::registry::Kind;
use crate::text::{Float, series};

/// A metric of a [`Family`](crate::Family).
pub trait Metric: Clone + Send + Sync + 'static + sealed::Encode {}

pub(crate) mod sealed {
    /// How a metric is printed; outside of this crate metrics cannot be defined.
    pub trait Encode {
        const KIND: crate::Kind;

        /// Prints the lines of the series `name` with these labels, as `a="x",b="y"`.
        fn encode(&self, name: &str, labels: &str, text: &mut String);
    }
}

/// A number that only grows.
///
/// ```
/// let counter = evenkeel_metrics::Counter::default();
/// counter.inc();
/// counter.inc_by(2);
/// assert_eq!(counter.get(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.inc_by(1);
    }

    /// Adds `count`.
    pub fn inc_by(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metric for Counter {}

impl sealed::Encode for Counter {
    const KIND: Kind = Kind::Counter;

    fn encode(&self, name: &str, labels: &str, text: &mut String) {
        series(text, name, "", labels, "");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", self.get());
    }
}

/// A number that can grow and shrink.
///
/// ```
/// let gauge = evenkeel_metrics::Gauge::default();
/// gauge.set(2.5);
/// gauge.inc();
/// gauge.dec();
/// assert_eq!(gauge.get(), 2.5);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Sets the number.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Adds `value`, which may be negative.
    pub fn add(&self, value: f64) {
        add(&self.0, value);
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Subtracts one.
    pub fn dec(&self) {
        self.add(-1.0);
    }

    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Adds to a number that is stored as its bits.
fn add(cell: &AtomicU64, value: f64) {
    let sum = |bits| Some((f64::from_bits(bits) + value).to_bits());
    // The closure never returns `None`.
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

impl Metric for Gauge {}

impl sealed::Encode for Gauge {
    const KIND: Kind = Kind::Gauge;

    fn encode(&self, name: &str, labels: &str, text: &mut String) {
        series(text, name, "", labels, "");
        let _ = writeln!(text, "{}", Float(self.get()));
    }
}

/// The upper bounds of the buckets of a histogram.
///
/// ```
/// use evenkeel_metrics::Buckets;
///
/// assert_eq!(Buckets::exponential(1.0, 2.0, 4).bounds(), [1.0, 2.0, 4.0, 8.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Buckets(Arc<Bounds>);

#[derive(Debug)]
struct Bounds {
    /// Apart from the texts, so that a search reads little memory.
    values: Box<[f64]>,
    texts: Box<[Box<str>]>,
}

impl Buckets {
    /// Creates buckets with these bounds. They are sorted, and those that are not finite or
    /// repeated are dropped; the bucket `+Inf` is always there.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Self {
        let mut bounds: Vec<f64> = bounds.iter().copied().filter(|it| it.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let texts = bounds.iter().map(|bound| Float(*bound).to_string().into()).collect();
        Self(Arc::new(Bounds { values: bounds.into(), texts }))
    }

    /// Creates `count` buckets, the first with the bound `start` and each other with `factor` times
    /// the previous one.
    #[must_use]
    pub fn exponential(start: f64, factor: f64, count: usize) -> Self {
        // Multiplied in turn, as Prometheus' client for Go does: the bounds are equal to its bounds.
        let bounds = std::iter::successors(Some(start), |bound| Some(bound * factor));
        Self::new(&bounds.take(count).collect::<Vec<_>>())
    }

    /// Returns the bounds without `+Inf`.
    #[must_use]
    pub fn bounds(&self) -> Vec<f64> {
        self.0.values.to_vec()
    }
}

/// The distribution of observed values over [`Buckets`].
///
/// ```
/// use std::time::Duration;
/// use evenkeel_metrics::{Buckets, Histogram};
///
/// let histogram = Histogram::new(Buckets::new(&[0.1, 1.0]));
/// histogram.observe(0.5);
/// histogram.observe_duration(Duration::from_millis(1500));
/// assert_eq!((histogram.count(), histogram.sum()), (2, 2.0));
/// ```
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The buckets that are printed: those of `observed` or some of them.
    buckets: Buckets,
    observed: Arc<Observed>,
}

#[derive(Debug)]
struct Observed {
    buckets: Buckets,
    /// One per bucket and one for `+Inf`, not cumulative.
    counts: Box<[AtomicU64]>,
    /// The bits of the sum.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates a histogram.
    #[must_use]
    pub fn new(buckets: Buckets) -> Self {
        let counts = (0..=buckets.0.values.len()).map(|_| AtomicU64::new(0)).collect();
        let observed = Observed { buckets: buckets.clone(), counts, sum: AtomicU64::new(0) };
        Self { buckets, observed: Arc::new(observed) }
    }

    /// Creates two histograms of the same values: what one of them observes, both count. It costs as
    /// much as one.
    ///
    /// ```
    /// use evenkeel_metrics::{Buckets, Histogram};
    ///
    /// let (coarse, fine) = Histogram::pair(Buckets::new(&[1.0]), Buckets::new(&[0.1, 0.2]));
    /// coarse.observe(0.15);
    /// assert_eq!(fine.count(), 1);
    /// ```
    #[must_use]
    pub fn pair(one: Buckets, other: Buckets) -> (Self, Self) {
        let all = Self::new(Buckets::new(&[&*one.0.values, &*other.0.values].concat()));
        (Self { buckets: one, ..all.clone() }, Self { buckets: other, ..all })
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let bucket = self.observed.buckets.0.values.partition_point(|bound| *bound < value);
        if let Some(count) = self.observed.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        add(&self.observed.sum, value);
    }

    /// Counts a duration in seconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// Returns the number of observed values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.observed.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns the sum of the observed values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.observed.sum.load(Ordering::Relaxed))
    }
}

impl Metric for Histogram {}

impl sealed::Encode for Histogram {
    const KIND: Kind = Kind::Histogram;

    fn encode(&self, name: &str, labels: &str, text: &mut String) {
        let mut total = 0;
        let mut printed = self.buckets.0.values.iter().zip(&self.buckets.0.texts).peekable();
        let observed = self.observed.buckets.0.values.iter().zip(&self.observed.counts);
        for (bound, count) in observed {
            total += count.load(Ordering::Relaxed);
            if let Some((_, bound)) = printed.next_if(|(printed, _)| *printed == bound) {
                series(text, name, "_bucket", labels, bound);
                let _ = writeln!(text, "{total}");
            }
        }
        total += self.observed.counts.last().map_or(0, |count| count.load(Ordering::Relaxed));
        series(text, name, "_bucket", labels, "+Inf");
        let _ = writeln!(text, "{total}");
        series(text, name, "_sum", labels, "");
        let _ = writeln!(text, "{}", Float(self.sum()));
        // The sum of the buckets, so that the two are equal in every scrape.
        series(text, name, "_count", labels, "");
        let _ = writeln!(text, "{total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_equal_to_a_bound_is_in_its_bucket() {
        let histogram = Histogram::new(Buckets::new(&[1.0, 2.0]));
        for value in [0.0, 1.0, 1.5, 2.0, 2.5, f64::INFINITY] {
            histogram.observe(value);
        }
        let counts = histogram.observed.counts.iter().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 2]);
    }

    #[test]
    fn two_histograms_of_the_same_values_print_their_own_buckets() {
        let (one, other) = Histogram::pair(Buckets::new(&[1.0, 3.0]), Buckets::new(&[2.0, 3.0]));
        let (alone, alone_too) =
            (Histogram::new(one.buckets.clone()), Histogram::new(other.buckets.clone()));
        for value in [0.5, 1.0, 1.5, 2.5, 3.0, 4.0] {
            one.observe(value);
            alone.observe(value);
            alone_too.observe(value);
        }
        let text = |histogram: &Histogram| {
            let mut text = String::new();
            sealed::Encode::encode(histogram, "seconds", "", &mut text);
            text
        };
        assert_eq!(text(&one), text(&alone));
        assert_eq!(text(&other), text(&alone_too));
        assert!(text(&other).contains("seconds_bucket{le=\"2\"} 3\n"), "{}", text(&other));
    }

    #[test]
    fn exponential_bounds_are_those_of_go() {
        let text = Buckets::exponential(10e-9, 10.0, 12);
        let text: Vec<&str> = text.0.texts.iter().map(|text| &**text).collect();
        let go = [
            "1e-08",
            "1e-07",
            "1e-06",
            "9.999999999999999e-06",
            "9.999999999999999e-05",
            "0.001",
            "0.01",
            "0.1",
            "1",
            "10",
            "100",
            "1000",
        ];
        assert_eq!(text.len(), go.len());
        // The last digits depend on the rounding of the products, which IEEE 754 defines.
        assert_eq!(&text[..3], &go[..3]);
        assert!(text.iter().zip(go).all(|(one, other)| {
            let (one, other): (f64, f64) = (one.parse().unwrap(), other.parse().unwrap());
            (one - other).abs() <= other * 1e-12
        }));
    }
}
