//! Metrics by upstream's names, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use crate::registry::Snapshot;
use crate::request::route::{self, Route};

/// The metrics of the server.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<Labels, u64>>,
    in_flight: AtomicI64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

/// A request in flight, until it is dropped.
pub(crate) struct InFlightRequest<'a> {
    metrics: &'a Metrics,
    labels: Labels,
}

impl Metrics {
    /// Records a request in flight.
    pub(crate) fn begin(&self, route: &Route) -> InFlightRequest<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let labels = match route {
            Route::Resource(route) => Labels {
                verb: match route.verb {
                    route::Verb::Get => "GET",
                    route::Verb::List => "LIST",
                    route::Verb::Watch => "WATCH",
                    route::Verb::Create => "POST",
                    route::Verb::Update => "PUT",
                    route::Verb::Patch => "PATCH",
                    route::Verb::Delete => "DELETE",
                    route::Verb::DeleteCollection => "DELETECOLLECTION",
                    route::Verb::Other => "other",
                },
                scope: match (&route.name, route.namespace.is_empty()) {
                    (Some(_), _) => "resource",
                    (None, false) => "namespace",
                    (None, true) => "cluster",
                },
                group: route.group.clone(),
                version: route.version.clone(),
                resource: route.plural.clone(),
                subresource: route.subresource.clone().unwrap_or_default(),
                code: 0,
            },
            _ => Labels { verb: "GET", ..Labels::default() },
        };
        InFlightRequest { metrics: self, labels }
    }

    pub(crate) fn render(&self, served: &Snapshot) -> String {
        let mut text = String::new();
        text.push_str("# HELP apiserver_request_total Counter of apiserver requests.\n");
        text.push_str("# TYPE apiserver_request_total counter\n");
        for (l, count) in &*self.requests.lock() {
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{}\",component=\"apiserver\",group=\"{}\",\
                 resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"}} {count}",
                l.code, l.group, l.resource, l.scope, l.subresource, l.verb, l.version
            );
        }
        text.push_str("# HELP apiserver_current_inflight_requests Requests being served.\n");
        text.push_str("# TYPE apiserver_current_inflight_requests gauge\n");
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let _ = writeln!(text, "apiserver_current_inflight_requests {in_flight}");
        text.push_str("# HELP apiserver_storage_objects Number of stored objects by resource.\n");
        text.push_str("# TYPE apiserver_storage_objects gauge\n");
        let mut counts = BTreeMap::new();
        for resource in served.resources().filter(|r| r.is_stored()) {
            counts.insert(resource.group_resource().to_string(), resource.table.len());
        }
        for (resource, count) in counts {
            let _ = writeln!(text, "apiserver_storage_objects{{resource=\"{resource}\"}} {count}");
        }
        text
    }
}

impl InFlightRequest<'_> {
    /// Counts the request by its response code.
    pub(crate) fn end(mut self, served: &Snapshot, code: u16) {
        let mut labels = std::mem::take(&mut self.labels);
        labels.code = code;
        // Only served resources become labels, or clients could create labels without bound.
        let resource = served.resource(&labels.group, &labels.version, &labels.resource);
        let known = resource.is_some_and(|resource| {
            labels.subresource.is_empty() || resource.subresource(&labels.subresource).is_some()
        });
        if !known {
            labels = Labels { verb: labels.verb, code, ..Labels::default() };
        }
        let mut requests = self.metrics.requests.lock();
        *requests.entry(labels).or_default() += 1;
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::request::query::Query;
    use crate::storage::Store;

    fn record(metrics: &Metrics, path: &str, code: u16) {
        let served =
            Registry::new(&Store::in_memory(&Default::default()), &Default::default()).snapshot();
        let route = route::route(&http::Method::GET, path, &Query::default());
        metrics.begin(&route).end(&served, code);
    }

    #[test]
    fn dropped_request_is_not_in_flight() {
        let metrics = Metrics::default();
        let dropped = metrics.begin(&Route::Path);
        assert_eq!(metrics.in_flight.load(Ordering::Relaxed), 1);
        drop(dropped);
        assert_eq!(metrics.in_flight.load(Ordering::Relaxed), 0);
        record(&metrics, "/api/v1/pods", 200);
        assert_eq!(metrics.in_flight.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn unserved_names_do_not_become_labels() {
        let metrics = Metrics::default();
        for n in 0..9 {
            record(&metrics, &format!("/apis/x{n}.io/v1/things"), 413);
            record(&metrics, &format!("/api/v1/namespaces/a/pods/b/sub{n}"), 404);
            record(&metrics, "/api/v1/pods", 200);
        }
        assert_eq!(metrics.requests.lock().len(), 3);
    }
}
