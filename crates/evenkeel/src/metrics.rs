//! Metrics of a manager, in the Prometheus text format.
//!
//! Names, labels and buckets are those of controller-runtime and client-go, so that their dashboards
//! and alerts work. Metrics that those lack begin with `evenkeel_`. Each manager has its own
//! [`Registry`]; [`Manager::metrics`](crate::Manager::metrics) returns it, and an operator registers
//! its own metrics there:
//!
//! ```no_run
//! use evenkeel::prelude::*;
//!
//! # async fn example() -> Result<()> {
//! let manager = Manager::from_args("shop").await?;
//! let orders = manager.metrics().counters("shop_orders_total", "Orders by state.", ["state"])?;
//! let paid = orders.with(["paid"]); // once, outside of the reconciler
//! paid.inc();
//! # Ok(())
//! # }
//! ```
//!
//! | metric | labels |
//! |---|---|
//! | `controller_runtime_reconcile_total` | `controller`, `result`: `success`, `error`, `requeue`, `requeue_after` |
//! | `controller_runtime_reconcile_errors_total`, `controller_runtime_terminal_reconcile_errors_total`, `controller_runtime_reconcile_panics_total`, `controller_runtime_reconcile_timeouts_total` | `controller` |
//! | `controller_runtime_reconcile_time_seconds` | `controller` |
//! | `controller_runtime_max_concurrent_reconciles`, `controller_runtime_active_workers` | `controller` |
//! | `workqueue_depth` | `name`, `controller`, `priority` |
//! | `workqueue_adds_total`, `workqueue_retries_total`, `workqueue_queue_duration_seconds`, `workqueue_work_duration_seconds`, `workqueue_unfinished_work_seconds`, `workqueue_longest_running_processor_seconds` | `name`, `controller` |
//! | `rest_client_requests_total` | `code`, `method`, `host` |
//! | `rest_client_request_duration_seconds`, `rest_client_request_size_bytes`, `rest_client_response_size_bytes`, `rest_client_rate_limiter_duration_seconds` | `verb`, `host` |
//! | `rest_client_request_retries_total` | `code`, `verb`, `host` |
//! | `rest_client_dns_resolution_duration_seconds` | `host` |
//! | `leader_election_master_status`, `leader_election_slowpath_total` | `name` |
//! | `controller_runtime_webhook_latency_seconds`, `controller_runtime_webhook_requests_in_flight` | `webhook` |
//! | `controller_runtime_webhook_requests_total` | `webhook`, `code` |
//! | `controller_runtime_webhook_panics_total`, `controller_runtime_conversion_webhook_panics_total` | |
//! | `certwatcher_read_certificate_total`, `certwatcher_read_certificate_errors_total` | |
//! | `process_*` (Linux) | |
//! | `evenkeel_reconcile_causes_total`: why keys were reconciled | `controller`, `cause` |
//! | `evenkeel_alarms_total`: reconcile loops, contested fields, throttled keys, long reconciles | `controller`, `alarm` |
//! | `evenkeel_workqueue_delayed`: keys that wait for their delay | `name`, `controller` |
//! | `evenkeel_informer_objects`, `evenkeel_informer_bytes`, `evenkeel_informer_synced`, `evenkeel_informer_lists_total`, `evenkeel_informer_relists_total`, `evenkeel_informer_watch_age_seconds`, `evenkeel_informer_watch_failures_total`, `evenkeel_informer_decode_errors_total`, `evenkeel_informer_buffered_events`, `evenkeel_informer_own_writes`, `evenkeel_informer_own_write_reads_total` | `group`, `version`, `kind` |
//! | `evenkeel_cache_decoded_bytes` | |
//! | `evenkeel_events_total` | `result`: `written`, `merged`, `dropped` |
//! | `evenkeel_build_info` | `version` |
//!
//! Native histograms are not exported: the text format cannot represent them.

mod certificates;

mod leader;

mod process;

mod reconcile;

mod rest_client;

mod webhook;

pub use evenkeel_metrics::{
    Buckets, CONTENT_TYPE, Counter, Description, Family, Gauge, Histogram, Kind, Metric,
    RegisterError, Registry, Samples, text,
};

pub(crate) use certificates::CertificateMetrics;
pub(crate) use leader::{LeaderFamilies, LeaderMetrics};
pub(crate) use reconcile::{ReconcileFamilies, ReconcileMetrics};
pub(crate) use rest_client::{Request, RestClientMetrics};
pub(crate) use webhook::{WebhookFamilies, WebhookMetrics};

/// The metrics of one manager.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) reconciles: ReconcileFamilies,
    pub(crate) rest_client: RestClientMetrics,
    pub(crate) leader: LeaderFamilies,
    pub(crate) webhooks: WebhookFamilies,
    pub(crate) certificates: CertificateMetrics,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let define = Define(Registry::new());
        let metrics = Self {
            reconciles: ReconcileFamilies::new(&define),
            rest_client: RestClientMetrics::new(&define),
            leader: LeaderFamilies::new(&define),
            webhooks: WebhookFamilies::new(&define),
            certificates: CertificateMetrics::new(&define),
            registry: define.0.clone(),
        };
        process::register(&define);
        let build = define.gauges("evenkeel_build_info", "The version of Evenkeel.", ["version"]);
        build.with([env!("CARGO_PKG_VERSION")]).set(1.0);
        metrics
    }
}

/// Defines the metrics of this crate in a new registry. Their names are valid and each is used once,
/// which the tests check by creating a manager.
pub(crate) struct Define(Registry);

const VALID: &str = "names of this crate's metrics are valid and unique";

impl Define {
    fn counter(&self, name: &str, help: &str) -> Counter {
        self.0.counter(name, help).expect(VALID)
    }

    fn counters<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Family<Counter, N> {
        self.0.counters(name, help, labels).expect(VALID)
    }

    fn gauges<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Family<Gauge, N> {
        self.0.gauges(name, help, labels).expect(VALID)
    }

    fn histograms<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        buckets: Buckets,
    ) -> Family<Histogram, N> {
        self.0.histograms(name, help, labels, buckets).expect(VALID)
    }

    fn collector(
        &self,
        families: &[Description],
        collect: impl Fn(&mut Samples<'_>) + Send + Sync + 'static,
    ) {
        self.0.collector(families, collect).expect(VALID);
    }
}

/// The buckets of client-go's workqueue and of controller-runtime's webhooks: 10 ns to 1,000 s.
fn wide_buckets() -> Buckets {
    static BUCKETS: std::sync::LazyLock<Buckets> =
        std::sync::LazyLock::new(|| Buckets::exponential(10e-9, 10.0, 12));
    BUCKETS.clone()
}
