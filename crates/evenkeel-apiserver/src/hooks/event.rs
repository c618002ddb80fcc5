//! Events: they expire after their TTL.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::time::{Precision, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::event_ttl::{EventTtl, Owner};
use crate::object::Metadata as _;
use crate::status::Status;
use crate::storage::{Record, Table};

pub(super) struct Events;

impl Owner for Core {
    fn event_ttl(&self) -> &EventTtl {
        &self.event_ttl
    }

    fn events(&self) -> Option<Table> {
        self.builtin("", "events").map(|events| events.table.clone())
    }

    fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }
}

impl Hooks for Events {
    fn after_write<'a>(
        &'a self,
        cx: &'a RequestContext,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        cx.core.event_ttl.start(&cx.core, record, Duration::ZERO);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        cx.core.event_ttl.forget(record);
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        Some(Box::pin(async move {
            let now = core.clock_rng.now().as_second();
            for record in super::stored(core, "", "events")? {
                let age = now.saturating_sub(last_write(&record).unwrap_or(now));
                let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
                core.event_ttl.start(core, &record, age);
            }
            Ok(())
        }))
    }
}

/// Returns when an event was last written, in seconds since the epoch: the latest time of its
/// managed fields, or its creation.
fn last_write(event: &Record) -> Option<i64> {
    let event: Value = serde_json::from_slice(&event.body).ok()?;
    let managed = event.meta("managedFields").and_then(Value::as_array).into_iter().flatten();
    let times =
        managed.filter_map(|entry| entry.get("time")).chain(event.meta("creationTimestamp"));
    let seconds = |time: &Value| {
        let time = Timestamp::parse(time.as_str()?, Precision::Seconds).ok()?;
        Some(time.seconds)
    };
    times.filter_map(seconds).max()
}
