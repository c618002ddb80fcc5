//! Metrics of requests, by upstream's names. The registry is that of the whole server.

use evenkeel_metrics::{Counter, Family, Gauge, Registry};
use http::StatusCode;

use crate::registry::Snapshot;
use crate::request::query::Query;
use crate::request::route::{self, Route};

/// The metrics of the server.
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    requests: Family<Counter, 9>,
    in_flight: Family<Gauge, 1>,
}

/// Names are valid and each is used once, which every test that creates a server checks.
pub(crate) const VALID: &str = "names of this crate's metrics are valid and unique";

#[derive(Clone, Debug, Default)]
struct Labels {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

/// A request in flight, until it is dropped.
pub(crate) struct InFlightRequest<'a> {
    metrics: &'a Metrics,
    labels: Labels,
    /// Requests of its kind that are in flight.
    in_flight: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let labels = [
            "code",
            "component",
            "dry_run",
            "group",
            "resource",
            "scope",
            "subresource",
            "verb",
            "version",
        ];
        let requests =
            registry.counters("apiserver_request_total", "Counter of apiserver requests.", labels);
        let in_flight = registry.gauges(
            "apiserver_current_inflight_requests",
            "Requests being served.",
            ["request_kind"],
        );
        let (requests, in_flight) = (requests.expect(VALID), in_flight.expect(VALID));
        for kind in ["mutating", "readOnly"] {
            in_flight.with([kind]).set(0.0);
        }
        Self { registry, requests, in_flight }
    }
}

impl Metrics {
    /// Records a request in flight.
    pub(crate) fn begin(&self, route: &Route, query: &Query) -> InFlightRequest<'_> {
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
                dry_run: if query.get("dryRun") == Some("All") { "All" } else { "" },
                scope: match (&route.name, route.namespace.is_empty()) {
                    (Some(_), _) => "resource",
                    (None, false) => "namespace",
                    (None, true) => "cluster",
                },
                group: route.group.clone(),
                version: route.version.clone(),
                resource: route.plural.clone(),
                subresource: route.subresource.clone().unwrap_or_default(),
            },
            _ => Labels { verb: "GET", ..Labels::default() },
        };
        let kind = match labels.verb {
            "GET" | "LIST" | "WATCH" => "readOnly",
            _ => "mutating",
        };
        let in_flight = self.in_flight.with([kind]);
        in_flight.inc();
        InFlightRequest { metrics: self, labels, in_flight }
    }
}

impl InFlightRequest<'_> {
    /// Counts the request by its response code.
    pub(crate) fn end(mut self, served: &Snapshot, code: StatusCode) {
        let mut labels = std::mem::take(&mut self.labels);
        // Only served resources become labels, or clients could create labels without bound.
        let resource = served.resource(&labels.group, &labels.version, &labels.resource);
        let known = resource.is_some_and(|resource| {
            labels.subresource.is_empty() || resource.subresource(&labels.subresource).is_some()
        });
        if !known {
            labels = Labels { verb: labels.verb, ..Labels::default() };
        }
        let Labels { verb, dry_run, group, version, resource, subresource, scope } = &labels;
        let values = [
            code.as_str(),
            "apiserver",
            dry_run,
            group,
            resource,
            scope,
            subresource,
            verb,
            version,
        ];
        self.metrics.requests.with(values).inc();
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_metrics::text::parse;

    use super::*;
    use crate::registry;
    use crate::storage::Store;

    fn record(metrics: &Metrics, path: &str, code: StatusCode) {
        let store = Store::in_memory(&Default::default());
        let served = registry::Registry::new(&store, &Default::default()).snapshot();
        let route = route::route(&http::Method::GET, path, &Query::default());
        metrics.begin(&route, &Query::default()).end(&served, code);
    }

    fn in_flight(metrics: &Metrics) -> f64 {
        metrics.in_flight.with(["readOnly"]).get()
    }

    #[test]
    fn dropped_request_is_not_in_flight() {
        let metrics = Metrics::default();
        let dropped = metrics.begin(&Route::Path, &Query::default());
        assert_eq!(in_flight(&metrics), 1.0);
        drop(dropped);
        assert_eq!(in_flight(&metrics), 0.0);
        record(&metrics, "/api/v1/pods", StatusCode::OK);
        assert_eq!(in_flight(&metrics), 0.0);
    }

    #[test]
    fn unserved_names_do_not_become_labels() {
        let metrics = Metrics::default();
        for n in 0..9 {
            record(&metrics, &format!("/apis/x{n}.io/v1/things"), StatusCode::PAYLOAD_TOO_LARGE);
            let path = format!("/api/v1/namespaces/a/pods/b/sub{n}");
            record(&metrics, &path, StatusCode::NOT_FOUND);
            record(&metrics, "/api/v1/pods", StatusCode::OK);
        }
        let families = parse(&metrics.registry.encode()).unwrap();
        let requests = families.iter().find(|it| it.name == "apiserver_request_total").unwrap();
        assert_eq!(requests.samples.iter().map(|it| it.value).collect::<Vec<_>>(), [9.0; 3]);
    }
}
