//! `watch`: the events of a collection, from a revision on.

use std::time::Duration;

use super::list::{parse_version, read_page, wait_for};
use crate::body::Body;
use crate::context::RequestContext;
use crate::pipeline::encode::{Include, Reply};
use crate::request::negotiate::{Format, Output};
use crate::request::query::ListOptions;
use crate::selector::Filter;
use crate::status::Status;
use crate::storage::Range;
use crate::watch::{Events, Start};

/// By default, watches end after 30 to 60 minutes, at random.
const DEFAULT_TIMEOUT_SECONDS: u64 = 1800;

/// The maximum timeout, so that adding it to a time cannot overflow.
const MAX_TIMEOUT: Duration = Duration::from_secs(u32::MAX as u64);

pub(super) async fn handle(cx: &RequestContext, output: Output) -> Result<Reply, Status> {
    let mut options = ListOptions { watch: true, ..ListOptions::parse(&cx.query)? };
    let filter = match &cx.name {
        Some(name) => Filter::named(name),
        None => Filter::parse(&cx.resource, &options.label_selector, &options.field_selector)?,
    };
    let include = Include::parse(&cx.query)?;
    let version = parse_version(match options.resource_version.as_str() {
        "" => "0",
        given => given,
    })?;
    let marks_end = cx.query.get("sendInitialEvents").is_some()
        || (options.send_initial_events == Some(true) && options.allow_watch_bookmarks);
    if options.send_initial_events.is_none() && version == 0 {
        // For compatibility, a watch without a resourceVersion starts with the current state.
        options.send_initial_events = Some(true);
    }
    let start = if options.send_initial_events == Some(true) {
        match wait_for(cx, version).await {
            Ok(()) => initial_state(cx, &filter, marks_end).await?,
            Err(status) => Start::Failed(status),
        }
    } else if version == 0 {
        Start::After(cx.core.store.revision())
    } else {
        Start::After(version)
    };
    let timeout = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => {
            Duration::from_secs(seconds.unsigned_abs()).min(MAX_TIMEOUT)
        }
        _ => {
            let extra = cx.core.clock_rng.random_below(DEFAULT_TIMEOUT_SECONDS);
            Duration::from_secs(DEFAULT_TIMEOUT_SECONDS + extra)
        }
    };
    // Lists can be YAML but streams cannot, which upstream checks last.
    if output.format == Format::Yaml {
        return Err(Status::not_acceptable(&[
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ]));
    }
    let bookmarks = options.allow_watch_bookmarks;
    let events = Events::new(cx, output, include, filter, start, bookmarks, timeout);
    Ok(Reply::Watch(Body::stream(events)))
}

/// Returns the current state as the start of a watch.
async fn initial_state(
    cx: &RequestContext,
    filter: &Filter,
    mark_end: bool,
) -> Result<Start, Status> {
    let namespace = (!cx.namespace.is_empty()).then_some(cx.namespace.as_str());
    let range = Range { namespace, after: None, limit: None };
    let page = read_page(cx, range, None, filter).await?.map_err(Status::internal)?;
    Ok(Start::State { items: page.items, revision: page.revision, mark_end })
}
