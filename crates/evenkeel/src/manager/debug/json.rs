//! What the debug socket sends, as JSON.

use serde_json::{Value, json};

use super::super::{Inner, readiness};
use crate::controller::{ControllerHandle, Phase};
use crate::journal::{Record, WriteResult};
use crate::key::Key;
use crate::queue::{Causes, ItemState, QueuedItem};

/// Returns the operator and its controllers.
pub(super) fn status(inner: &Inner) -> Value {
    let controllers = inner.environment.controllers();
    let elections = inner.environment.elections.handles();
    let cache = inner.environment.client.cache();
    let readiness = readiness::of(&controllers, cache, &elections, &inner.webhooks);
    let problems = readiness.checks.iter().filter_map(|check| {
        let problem = check.problem.as_ref()?;
        Some(json!({"check": check.name, "problem": problem}))
    });
    json!({
        "name": &*inner.name,
        "version": inner.version,
        "pid": std::process::id(),
        "ready": readiness.is_ready(),
        "problems": problems.collect::<Vec<_>>(),
        "controllers": controllers.iter().map(controller).collect::<Vec<_>>(),
    })
}

/// Returns a controller and its counts.
pub(super) fn controller(controller: &ControllerHandle) -> Value {
    let counts = controller.reconcile_counts();
    let queue = controller.queue().snapshot();
    let phase = match controller.phase() {
        Phase::New => "new",
        Phase::Syncing(_) => "syncing",
        Phase::SyncTimedOut(_) => "sync timed out",
        Phase::Standby => "standby",
        Phase::Running => "running",
        Phase::Stopped => "stopped",
    };
    let alarms = controller.journal().alarms();
    json!({
        "name": controller.name(),
        "kind": controller.registered_types().reconciled.kind(),
        "phase": phase,
        "paused": controller.is_paused(),
        "workers": counts.workers,
        "active": counts.active,
        "reconciles": counts.success + counts.requeue + counts.requeue_after + counts.error,
        "errors": counts.error,
        "due": queue.depth(),
        "delayed": queue.waiting,
        "oldestSeconds": queue.oldest().map(|age| age.as_secs_f64()),
        "alarms": alarms.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn object(key: &Key) -> Value {
    json!({"cluster": key.cluster_name(), "namespace": key.namespace(), "name": key.name()})
}

fn causes(causes: &Causes) -> Vec<String> {
    causes.iter().map(|cause| format!("{:#}", Causes::from(cause))).collect()
}

/// Returns a reconcile.
pub(super) fn record(record: &Record) -> Value {
    let write = |write: &crate::journal::WriteRecord| {
        let (result, fields, error) = match &write.result {
            WriteResult::Changed { fields, .. } => {
                let fields: Vec<_> = fields.iter().map(|it| it.path.clone()).collect();
                ("changed", fields, None)
            }
            WriteResult::Unchanged => ("unchanged", Vec::new(), None),
            WriteResult::Deleted => ("deleted", Vec::new(), None),
            WriteResult::Failed(error) => ("failed", Vec::new(), Some(error)),
        };
        json!({
            "request": write.request_info.to_string(),
            "result": result,
            "fields": fields,
            "error": error,
        })
    };
    json!({
        "controller": &*record.controller,
        "kind": record.kind.kind(),
        "object": object(&record.key),
        "started": record.started.to_string(),
        "queuedSeconds": record.queue_duration.as_secs_f64(),
        "durationSeconds": record.duration.as_secs_f64(),
        "failures": record.failures,
        "causes": causes(&record.causes),
        "reads": record.reads.len(),
        "writes": record.writes.iter().map(write).collect::<Vec<_>>(),
        "omitted": record.omitted,
        "outcome": record.outcome.summary(),
        "error": record.outcome.error(),
    })
}

/// Returns a key in a workqueue.
pub(super) fn item(controller: &str, item: &QueuedItem<Key, Causes>) -> Value {
    let (state, time) = match item.state {
        ItemState::Processing(time) => ("processing", time),
        ItemState::Due(time) => ("due", time),
        ItemState::Delayed(time) => ("delayed", time),
    };
    json!({
        "controller": controller,
        "object": object(&item.key),
        "state": state,
        "seconds": time.as_secs_f64(),
        "priority": item.priority,
        "failures": item.failures,
        "causes": item.causes.as_ref().map(causes).unwrap_or_default(),
    })
}

/// Returns the cached types.
pub(super) fn cache(inner: &Inner) -> Vec<Value> {
    let cache = inner.environment.client.cache();
    let health = cache.health();
    let stats = cache.stats();
    let types = stats.types.iter().map(|stats| {
        let health = health.iter().find(|health| health.kind == stats.kind);
        let failure = health.and_then(|health| health.failure.as_ref());
        json!({
            "kind": stats.kind.kind(),
            "group": stats.kind.group(),
            "version": stats.kind.version(),
            "synced": stats.synced,
            "objects": stats.objects,
            "bytes": stats.bytes,
            "relists": stats.relists,
            "watchFailures": stats.watch_failures,
            "watchAgeSeconds": stats.watch_age.map(|age| age.as_secs_f64()),
            "ownWrites": stats.own_writes,
            "failure": failure.map(|it| &*it.message),
        })
    });
    types.collect()
}
