//! Traces for an OpenTelemetry collector, with the feature `otel`.
//!
//! Every reconcile is one trace: `event → queue → reconcile → request`, with the controller, the
//! object, the reconcile id and the causes as attributes. The export is OTLP over HTTP with JSON
//! bodies, by the client that the crate has anyway, and adds no dependency: the crates of
//! OpenTelemetry would add 27.
//!
//! [`Manager::from_args`](crate::Manager::from_args) exports if one of the standard variables is
//! set: `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`), with
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`. A program with
//! its own subscriber adds the layer to it, and gives the exporter to the manager, which runs it and
//! flushes it at the end:
//!
//! ```no_run
//! use evenkeel::otel::{self, OtelOptions};
//! use evenkeel::prelude::*;
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! # async fn example() -> Result<()> {
//! let (layer, exporter) = otel::layer(OtelOptions::new("http://collector:4318", "shop")?);
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
//! let manager = Manager::builder("shop").otel(exporter).connect().await?;
//! # Ok(())
//! # }
//! ```

mod encode;

mod export;

mod layer;

mod options;

pub use export::OtelExporter;
pub use options::{OtelError, OtelOptions};

use std::sync::Arc;

use layer::{Finished, OtelLayer, is_traced};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Returns a layer that records spans, and the exporter that sends them.
///
/// The layer records spans and logs from `info` on, and the requests of the manager.
pub fn layer<S>(options: OtelOptions) -> (impl Layer<S> + Send + Sync, OtelExporter)
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let finished = Arc::new(Finished::default());
    let layer = OtelLayer::new(finished.clone()).with_filter(filter_fn(is_traced));
    (layer, OtelExporter::new(options, finished))
}
