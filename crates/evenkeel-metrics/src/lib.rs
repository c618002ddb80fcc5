//! Metrics in the Prometheus text format.
//!
//! A [`Registry`] has families of [`Counter`]s, [`Gauge`]s and [`Histogram`]s. A metric is a handle:
//! code that runs often resolves the labels once ([`Family::with`]) and keeps the handle, whose
//! operations are a few atomic instructions. Values that exist elsewhere are read when the registry
//! is [encoded](Registry::encode), by a [collector](Registry::collector).
//!
//! There is no global registry.
//!
//! ```
//! use evenkeel_metrics::Registry;
//!
//! let registry = Registry::new();
//! let orders = registry.counters("shop_orders_total", "Orders by state.", ["state"]).unwrap();
//! let paid = orders.with(["paid"]);
//! paid.inc();
//! assert!(registry.encode().ends_with("shop_orders_total{state=\"paid\"} 1\n"));
//! ```

mod family;

mod registry;

pub mod text;

mod value;

pub use family::Family;
pub use registry::{CONTENT_TYPE, Description, Kind, RegisterError, Registry, Samples};
pub use value::{Buckets, Counter, Gauge, Histogram, Metric};
