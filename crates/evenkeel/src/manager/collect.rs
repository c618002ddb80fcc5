//! Metrics that are read when they are scraped: workers, queues, informers, the cache.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Inner;
use crate::events::EventCounts;
use crate::metrics::{Description, Kind, Samples};

/// The number of priorities that become labels, as in controller-runtime; a controller that makes up
/// priorities must not create metrics without bound.
const PRIORITIES_MAX: usize = 25;

/// The label of all other priorities.
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

const QUEUE: &[&str] = &["name", "controller"];
const TYPE: &[&str] = &["group", "version", "kind"];

const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Description {
    Description { name, help, kind: Kind::Counter, labels }
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Description {
    Description { name, help, kind: Kind::Gauge, labels }
}

const QUEUES: [Description; 7] = [
    gauge(
        "controller_runtime_active_workers",
        "Number of workers that are running a reconcile, by controller.",
        &["controller"],
    ),
    gauge(
        "workqueue_depth",
        "Number of due keys by workqueue and priority.",
        &["name", "controller", "priority"],
    ),
    counter("workqueue_adds_total", "How often a key became due.", QUEUE),
    counter("workqueue_retries_total", "Number of adds with a delay.", QUEUE),
    gauge(
        "workqueue_unfinished_work_seconds",
        "Sum of the processing times of the keys that are being processed; grows if a worker hangs.",
        QUEUE,
    ),
    gauge(
        "workqueue_longest_running_processor_seconds",
        "Longest processing time of the keys that are being processed.",
        QUEUE,
    ),
    gauge("evenkeel_workqueue_delayed", "Number of keys that wait for their delay.", QUEUE),
];

const INFORMERS: [Description; 12] = [
    gauge("evenkeel_informer_objects", "Number of cached objects.", TYPE),
    gauge("evenkeel_informer_bytes", "Size of the cached objects, without decoded forms.", TYPE),
    gauge("evenkeel_informer_synced", "1 if the initial list is complete, otherwise 0.", TYPE),
    counter("evenkeel_informer_lists_total", "Number of complete lists.", TYPE),
    counter("evenkeel_informer_relists_total", "Number of lists after the initial one.", TYPE),
    gauge(
        "evenkeel_informer_watch_age_seconds",
        "Time since the watch was opened or delivered something.",
        TYPE,
    ),
    counter("evenkeel_informer_watch_failures_total", "Failed lists and watches.", TYPE),
    counter(
        "evenkeel_informer_decode_errors_total",
        "Objects that the cache rejected, and reads of objects that do not decode.",
        TYPE,
    ),
    gauge("evenkeel_informer_buffered_events", "Events that handlers have not received.", TYPE),
    gauge("evenkeel_informer_own_writes", "Own writes that the watch has not delivered yet.", TYPE),
    counter(
        "evenkeel_informer_own_write_reads_total",
        "Reads that returned an own write before the watch delivered it.",
        TYPE,
    ),
    gauge("evenkeel_cache_decoded_bytes", "Approximate size of decoded objects.", &[]),
];

const EVENTS: [Description; 1] = [counter(
    "evenkeel_events_total",
    "Recorded events by result: written, merged into an earlier one, or dropped.",
    &["result"],
)];

/// Registers the collectors. They do not keep the manager alive.
pub(super) fn register(inner: &Arc<Inner>) {
    let registry = &inner.environment.metrics.registry;
    let priorities = Mutex::new(BTreeSet::from([0]));
    let weak = Arc::downgrade(inner);
    let queues = move |samples: &mut Samples<'_>| {
        if let Some(inner) = weak.upgrade() {
            collect_queues(&inner, &mut priorities.lock(), samples);
        }
    };
    let weak = Arc::downgrade(inner);
    let informers = move |samples: &mut Samples<'_>| {
        if let Some(inner) = weak.upgrade() {
            collect_informers(&inner, samples);
        }
    };
    let registered = registry.collector(&QUEUES, queues);
    let registered = registered.and_then(|()| registry.collector(&INFORMERS, informers));
    let weak = Arc::downgrade(inner);
    let events = move |samples: &mut Samples<'_>| {
        let Some(inner) = weak.upgrade() else { return };
        let EventCounts { written, merged, dropped } = inner.environment.event_sender.counts();
        for (result, count) in [("written", written), ("merged", merged), ("dropped", dropped)] {
            samples.add("evenkeel_events_total", &[result], count as f64);
        }
    };
    let registered = registered.and_then(|()| registry.collector(&EVENTS, events));
    registered.expect("names of this crate's metrics are valid and unique");
}

/// `priorities` are those seen so far: their depths stay, so that a series does not end when its
/// last key is taken.
fn collect_queues(inner: &Inner, priorities: &mut BTreeSet<i32>, samples: &mut Samples<'_>) {
    for controller in inner.environment.controllers() {
        let (name, queue) = (controller.name(), controller.queue().snapshot());
        let labels = [name, name];
        let active = controller.reconcile_counts().active as f64;
        samples.add("controller_runtime_active_workers", &[name], active);
        for class in &queue.classes {
            if priorities.len() < PRIORITIES_MAX {
                priorities.insert(class.priority);
            }
        }
        for priority in &*priorities {
            let class = queue.classes.iter().find(|class| class.priority == *priority);
            let depth = class.map_or(0, |class| class.depth) as f64;
            samples.add("workqueue_depth", &[name, name, &priority.to_string()], depth);
        }
        let others = queue.classes.iter().filter(|class| !priorities.contains(&class.priority));
        let others: usize = others.map(|class| class.depth).sum();
        if others > 0 {
            samples.add("workqueue_depth", &[name, name, OTHER_PRIORITIES], others as f64);
        }
        let longest = queue.longest_running.map_or(0.0, |(_, time)| time.as_secs_f64());
        samples.add("workqueue_adds_total", &labels, queue.adds as f64);
        samples.add("workqueue_retries_total", &labels, queue.delayed as f64);
        samples.add("workqueue_unfinished_work_seconds", &labels, queue.unfinished.as_secs_f64());
        samples.add("workqueue_longest_running_processor_seconds", &labels, longest);
        samples.add("evenkeel_workqueue_delayed", &labels, queue.waiting as f64);
    }
}

fn collect_informers(inner: &Inner, samples: &mut Samples<'_>) {
    let stats = inner.environment.client.cache().stats();
    samples.add("evenkeel_cache_decoded_bytes", &[], stats.decoded_bytes as f64);
    for stats in &stats.types {
        let labels = [stats.kind.group(), stats.kind.version(), stats.kind.kind()];
        let mut add = |name, value: f64| samples.add(name, &labels, value);
        add("evenkeel_informer_objects", stats.objects as f64);
        add("evenkeel_informer_bytes", stats.bytes as f64);
        add("evenkeel_informer_synced", f64::from(u8::from(stats.synced)));
        add("evenkeel_informer_lists_total", stats.lists as f64);
        add("evenkeel_informer_relists_total", stats.relists as f64);
        if let Some(age) = stats.watch_age {
            add("evenkeel_informer_watch_age_seconds", age.as_secs_f64());
        }
        add("evenkeel_informer_watch_failures_total", stats.watch_failures as f64);
        let errors = stats.rejections + stats.decode_errors;
        add("evenkeel_informer_decode_errors_total", errors as f64);
        add("evenkeel_informer_buffered_events", stats.buffered_events as f64);
        add("evenkeel_informer_own_writes", stats.own_writes as f64);
        add("evenkeel_informer_own_write_reads_total", stats.own_write_reads as f64);
    }
}
