//! The registry: all families of one program or one manager.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::family::{AnyFamily, Family};
use crate::text::{self, Float};
use crate::value::{Buckets, Counter, Gauge, Histogram, Metric};

/// The `Content-Type` of [`Registry::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that can grow and shrink.
    Gauge,
    /// A distribution over buckets.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

/// Why a family cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another family has the name.
    #[error("a metric named {0:?} is already registered")]
    NameTaken(String),
    /// The name is not a metric name of Prometheus.
    #[error("{0:?} is not a valid metric name")]
    InvalidName(String),
    /// A label is not a label name of Prometheus, is reserved or is repeated.
    #[error("metric {metric:?}: {label:?} is not a valid label name")]
    InvalidLabel {
        /// The metric.
        metric: String,
        /// The label.
        label: String,
    },
}

/// A set of families that are printed together. Clones share it.
///
/// ```
/// use evenkeel_metrics::{Buckets, Registry};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = Registry::new();
/// let open = registry.gauge("shop_open", "Whether the shop is open.")?;
/// let buckets = Buckets::new(&[0.1, 1.0, 10.0]);
/// let times = registry.histograms("shop_order_seconds", "Order times.", ["shop"], buckets)?;
/// open.set(1.0);
/// times.with(["north"]).observe(0.3);
/// assert!(registry.gauge("shop_open", "The same name again.").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    families: BTreeMap<String, Registered>,
    collectors: Vec<(Arc<[Description]>, Arc<Collect>)>,
}

struct Registered {
    help: Box<str>,
    labels: Vec<String>,
    kind: Kind,
    /// `None` if a collector provides the samples.
    family: Option<Arc<dyn AnyFamily>>,
}

type Collect = dyn Fn(&mut Samples<'_>) + Send + Sync;

/// A family of a [collector](Registry::collector).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name.
    pub name: &'static str,
    /// The text of its `HELP` line.
    pub help: &'static str,
    /// Its type; a collector has no histograms.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
}

/// Receives the samples of a [collector](Registry::collector).
pub struct Samples<'a> {
    descriptions: &'a [Description],
    texts: &'a mut BTreeMap<&'static str, String>,
}

impl Samples<'_> {
    /// Adds a sample of the family `name`, which the collector was registered with; samples of
    /// other families, and with another number of labels, are dropped.
    pub fn add(&mut self, name: &str, values: &[&str], value: f64) {
        let known = self.descriptions.iter().find(|description| description.name == name);
        let Some(known) = known.filter(|known| known.labels.len() == values.len()) else { return };
        let text = self.texts.entry(known.name).or_default();
        let labels = text::labels(known.labels.iter().copied().zip(values.iter().copied()));
        text::series(text, known.name, "", &labels, "");
        // Writing to a String cannot fail.
        let _ = fmt::write(text, format_args!("{}\n", Float(value)));
    }
}

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a counter without labels.
    ///
    /// # Errors
    /// When the name is invalid or taken.
    pub fn counter(&self, name: &str, help: &str) -> Result<Counter, RegisterError> {
        Ok(self.counters(name, help, [])?.with([]))
    }

    /// Registers counters with labels.
    ///
    /// # Errors
    /// When the name is invalid or taken, or a label is invalid.
    pub fn counters<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Result<Family<Counter, N>, RegisterError> {
        self.family(name, help, labels, Counter::default)
    }

    /// Registers a gauge without labels.
    ///
    /// # Errors
    /// When the name is invalid or taken.
    pub fn gauge(&self, name: &str, help: &str) -> Result<Gauge, RegisterError> {
        Ok(self.gauges(name, help, [])?.with([]))
    }

    /// Registers gauges with labels.
    ///
    /// # Errors
    /// When the name is invalid or taken, or a label is invalid.
    pub fn gauges<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Result<Family<Gauge, N>, RegisterError> {
        self.family(name, help, labels, Gauge::default)
    }

    /// Registers histograms with labels.
    ///
    /// # Errors
    /// When the name is invalid or taken, or a label is invalid.
    pub fn histograms<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        buckets: Buckets,
    ) -> Result<Family<Histogram, N>, RegisterError> {
        self.family(name, help, labels, move || Histogram::new(buckets.clone()))
    }

    fn family<M: Metric, const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        create: impl Fn() -> M + Send + Sync + 'static,
    ) -> Result<Family<M, N>, RegisterError> {
        let family = Family::new(name, labels, create);
        let registered = Registered {
            help: help.into(),
            labels: labels.iter().map(ToString::to_string).collect(),
            kind: family.kind(),
            family: Some(Arc::new(family.clone())),
        };
        self.insert(name, &labels, registered)?;
        Ok(family)
    }

    /// Registers families whose samples `collect` provides whenever the registry is encoded.
    ///
    /// ```
    /// use evenkeel_metrics::{Description, Kind, Registry};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Registry::new();
    /// let free = Description {
    ///     name: "shop_free_tables",
    ///     help: "Free tables.",
    ///     kind: Kind::Gauge,
    ///     labels: &["room"],
    /// };
    /// registry.collector(&[free], |samples| samples.add("shop_free_tables", &["bar"], 3.0))?;
    /// assert!(registry.encode().contains("shop_free_tables{room=\"bar\"} 3\n"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When a name is invalid or taken, or a label is invalid. Nothing is registered then.
    pub fn collector(
        &self,
        families: &[Description],
        collect: impl Fn(&mut Samples<'_>) + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        for (number, family) in families.iter().enumerate() {
            let Description { name, help, kind, labels } = *family;
            let label_names = labels.iter().map(ToString::to_string).collect();
            let registered =
                Registered { help: help.into(), labels: label_names, kind, family: None };
            if let Err(error) = self.insert(name, labels, registered) {
                let mut inner = self.0.lock();
                for family in &families[..number] {
                    inner.families.remove(family.name);
                }
                return Err(error);
            }
        }
        self.0.lock().collectors.push((families.into(), Arc::new(collect)));
        Ok(())
    }

    fn insert(
        &self,
        name: &str,
        labels: &[&str],
        registered: Registered,
    ) -> Result<(), RegisterError> {
        if !text::is_metric_name(name) {
            return Err(RegisterError::InvalidName(name.to_owned()));
        }
        let reserved = if registered.kind == Kind::Histogram { "le" } else { "" };
        for (number, label) in labels.iter().enumerate() {
            let repeated = labels[..number].contains(label);
            if !text::is_label_name(label) || repeated || *label == reserved {
                let (metric, label) = (name.to_owned(), (*label).to_owned());
                return Err(RegisterError::InvalidLabel { metric, label });
            }
        }
        let mut inner = self.0.lock();
        if inner.families.contains_key(name) {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
        inner.families.insert(name.to_owned(), registered);
        Ok(())
    }

    /// Returns the names of all families, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.lock().families.keys().cloned().collect()
    }

    /// Returns the names of all labels, in order.
    #[must_use]
    pub fn labels(&self) -> BTreeSet<String> {
        self.0.lock().families.values().flat_map(|family| family.labels.iter().cloned()).collect()
    }

    /// Prints all families in the [text format](CONTENT_TYPE), ordered by name and labels.
    #[must_use]
    pub fn encode(&self) -> String {
        let collectors = self.0.lock().collectors.clone();
        let mut collected = BTreeMap::new();
        // Outside of the lock: collectors are code of others.
        for (descriptions, collect) in &collectors {
            collect(&mut Samples { descriptions, texts: &mut collected });
        }
        let inner = self.0.lock();
        let mut text = String::new();
        for (name, Registered { help, kind, family, .. }) in &inner.families {
            text::head(&mut text, name, help, *kind);
            match family {
                Some(family) => family.encode(&mut text),
                None => text.push_str(collected.get(&**name).map_or("", String::as_str)),
            }
        }
        text
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_and_taken_names_are_rejected() {
        let registry = Registry::new();
        registry.counters("a_total", "A.", ["x"]).unwrap();
        let taken = RegisterError::NameTaken("a_total".to_owned());
        assert_eq!(registry.gauge("a_total", "B.").unwrap_err(), taken);
        for name in ["", "1a", "a-b", "a b", "ä"] {
            let error = registry.counter(name, "B.").unwrap_err();
            assert_eq!(error, RegisterError::InvalidName(name.to_owned()));
        }
        for labels in [["x", "x"], ["x", "__y"], ["x", "a:b"], ["", "x"]] {
            let error = registry.gauges("b", "B.", labels).unwrap_err();
            assert!(matches!(error, RegisterError::InvalidLabel { .. }), "{error}");
        }
        assert!(registry.histograms("b", "B.", ["le"], Buckets::new(&[1.0])).is_err());
        assert_eq!(registry.names(), ["a_total"]);
    }

    #[test]
    fn a_refused_collector_registers_nothing() {
        let registry = Registry::new();
        registry.gauge("b", "B.").unwrap();
        let family = |name| Description { name, help: "", kind: Kind::Gauge, labels: &[] };
        assert!(registry.collector(&[family("a"), family("b")], |_| ()).is_err());
        assert_eq!(registry.names(), ["b"]);
    }

    #[test]
    fn what_is_printed_parses() {
        let registry = Registry::new();
        let requests = registry.counters("r_total", "Text with \\ and\nlines.", ["path"]).unwrap();
        requests.with(["/a\"\\\n"]).inc_by(7);
        requests.with([""]).inc();
        requests.with(["removed"]).inc();
        requests.remove(["removed"]);
        let times = registry.histograms("t_seconds", "T.", ["x"], Buckets::new(&[0.5, 1.0]));
        times.unwrap().with(["1"]).observe(0.75);
        let families = text::parse(&registry.encode()).unwrap();
        assert_eq!(families.len(), 2);
        assert_eq!(families[0].help, "Text with \\ and\nlines.");
        let labels: Vec<_> = families[0].samples.iter().map(|it| it.label("path")).collect();
        assert_eq!(labels, [Some(""), Some("/a\"\\\n")]);
        assert_eq!(families[1].samples.len(), 5);
    }
}
