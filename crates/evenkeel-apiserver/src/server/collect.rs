//! Metrics that are read when they are scraped: objects, priority levels, audit events.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_metrics::{Description, Kind, Samples};

use crate::context::Core;
use crate::metrics::VALID;

const fn metric(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Description {
    Description { name, help, kind, labels }
}

const LEVEL: &[&str] = &["priority_level"];

const STORED: [Description; 1] = [metric(
    Kind::Gauge,
    "apiserver_storage_objects",
    "Number of stored objects by resource.",
    &["resource"],
)];

const LEVELS: [Description; 5] = [
    metric(
        Kind::Gauge,
        "apiserver_flowcontrol_current_executing_requests",
        "Requests that occupy seats of a priority level.",
        LEVEL,
    ),
    metric(
        Kind::Gauge,
        "apiserver_flowcontrol_current_inqueue_requests",
        "Requests in the queues of a priority level.",
        LEVEL,
    ),
    metric(
        Kind::Gauge,
        "apiserver_flowcontrol_current_limit_seats",
        "Seats of a priority level, with lent and borrowed ones.",
        LEVEL,
    ),
    metric(
        Kind::Counter,
        "apiserver_flowcontrol_dispatched_requests_total",
        "Requests that a priority level served.",
        LEVEL,
    ),
    metric(
        Kind::Counter,
        "apiserver_flowcontrol_rejected_requests_total",
        "Requests that a priority level rejected.",
        &["priority_level", "reason"],
    ),
];

const AUDIT: [Description; 2] = [
    metric(Kind::Counter, "apiserver_audit_event_total", "Audit events that were recorded.", &[]),
    metric(Kind::Counter, "apiserver_audit_error_total", "Audit events that were dropped.", &[]),
];

/// Registers the collectors. They do not keep the server alive.
pub(super) fn register(core: &Arc<Core>) {
    add(core, &STORED, stored);
    add(core, &LEVELS, levels);
    // As upstream, which has no such metrics without an audit policy.
    if core.audit.is_some() {
        add(core, &AUDIT, audit);
    }
}

fn add(core: &Arc<Core>, families: &[Description], collect: fn(&Core, &mut Samples<'_>)) {
    let weak = Arc::downgrade(core);
    let collector = move |samples: &mut Samples<'_>| {
        if let Some(core) = weak.upgrade() {
            collect(&core, samples);
        }
    };
    core.metrics.registry.collector(families, collector).expect(VALID);
}

fn stored(core: &Core, samples: &mut Samples<'_>) {
    // A resource that is served in several versions has one table.
    let served = core.registry.snapshot();
    let stored = served.resources().filter(|resource| resource.is_stored());
    let counts: BTreeMap<String, usize> = stored
        .map(|resource| (resource.group_resource().to_string(), resource.table.len()))
        .collect();
    for (resource, count) in counts {
        samples.add("apiserver_storage_objects", &[&resource], count as f64);
    }
}

fn levels(core: &Core, samples: &mut Samples<'_>) {
    for (level, counts) in core.flow_control.counts() {
        let name = |name: &str| format!("apiserver_flowcontrol_{name}");
        let values = [
            ("current_executing_requests", counts.executing as f64),
            ("current_inqueue_requests", counts.waiting as f64),
            ("current_limit_seats", counts.limit as f64),
            ("dispatched_requests_total", counts.dispatched as f64),
        ];
        for (metric, value) in values {
            samples.add(&name(metric), &[&level], value);
        }
        for (reason, count) in [("queue-full", counts.rejected), ("time-out", counts.timed_out)] {
            samples.add(&name("rejected_requests_total"), &[&level, reason], count as f64);
        }
    }
}

fn audit(core: &Core, samples: &mut Samples<'_>) {
    let Some(audit) = &core.audit else { return };
    samples.add("apiserver_audit_event_total", &[], audit.accepted() as f64);
    samples.add("apiserver_audit_error_total", &[], audit.dropped() as f64);
}
