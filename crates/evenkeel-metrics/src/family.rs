//! Families: the metrics of one name, one for each combination of label values.

use std::cmp::Ordering;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::registry::Kind;
use crate::text;
use crate::value::Metric;

/// The metrics of one name. Clones share them.
///
/// The number of label values is part of the type, so a forgotten label does not compile:
///
/// ```compile_fail
/// let registry = evenkeel_metrics::Registry::new();
/// let requests = registry.counters("requests_total", "Requests.", ["code", "method"]).unwrap();
/// requests.with(["200"]).inc();
/// ```
#[derive(Clone)]
pub struct Family<M, const N: usize>(Arc<Inner<M, N>>);

struct Inner<M, const N: usize> {
    name: Box<str>,
    labels: [Box<str>; N],
    create: Box<dyn Fn() -> M + Send + Sync>,
    /// Ordered by the values.
    series: RwLock<Vec<Series<M, N>>>,
}

struct Series<M, const N: usize> {
    values: [Box<str>; N],
    /// The labels as they are printed.
    text: Box<str>,
    metric: M,
}

impl<M: Metric, const N: usize> Family<M, N> {
    pub(crate) fn new(
        name: &str,
        labels: [&str; N],
        create: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            labels: labels.map(Into::into),
            create: Box::new(create),
            series: RwLock::default(),
        }))
    }

    /// Returns the metric with these label values, in the order of the labels. It is created if it
    /// does not exist.
    ///
    /// Values must come from a small set, never from input: each combination is kept.
    #[must_use]
    pub fn with(&self, values: [&str; N]) -> M {
        let series = self.0.series.read();
        if let Ok(place) = find(&series, &values) {
            return series[place].metric.clone();
        }
        drop(series);
        let mut series = self.0.series.write();
        match find(&series, &values) {
            Ok(place) => series[place].metric.clone(),
            Err(place) => {
                let metric = (self.0.create)();
                series.insert(place, self.series(values, metric.clone()));
                metric
            }
        }
    }

    /// Sets the metric with these label values, for one that is also printed elsewhere, such as that
    /// of [`Histogram::pair`](crate::Histogram::pair).
    pub fn set(&self, values: [&str; N], metric: M) {
        let mut series = self.0.series.write();
        match find(&series, &values) {
            Ok(place) => series[place].metric = metric,
            Err(place) => series.insert(place, self.series(values, metric)),
        }
    }

    fn series(&self, values: [&str; N], metric: M) -> Series<M, N> {
        let names = self.0.labels.iter().map(|name| &**name);
        let text = text::labels(names.zip(values)).into();
        Series { values: values.map(Into::into), text, metric }
    }

    /// Removes the metric with these label values, if it exists.
    pub fn remove(&self, values: [&str; N]) {
        let mut series = self.0.series.write();
        if let Ok(place) = find(&series, &values) {
            series.remove(place);
        }
    }
}

fn find<M, const N: usize>(series: &[Series<M, N>], values: &[&str; N]) -> Result<usize, usize> {
    series.binary_search_by(|series| {
        let known = series.values.iter().map(|value| &**value);
        let order = known.zip(values).map(|(known, value)| known.cmp(value));
        order.fold(Ordering::Equal, Ordering::then)
    })
}

/// A family in a registry.
pub(crate) trait AnyFamily: Send + Sync {
    fn kind(&self) -> Kind;

    /// Prints the series.
    fn encode(&self, text: &mut String);
}

impl<M: Metric, const N: usize> AnyFamily for Family<M, N> {
    fn kind(&self) -> Kind {
        M::KIND
    }

    fn encode(&self, text: &mut String) {
        for series in &*self.0.series.read() {
            series.metric.encode(&self.0.name, &series.text, text);
        }
    }
}

impl<M, const N: usize> std::fmt::Debug for Family<M, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Family").field(&self.0.name).finish()
    }
}
