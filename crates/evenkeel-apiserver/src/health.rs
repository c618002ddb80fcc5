//! `/healthz`, `/livez` and `/readyz`: named checks, reported as kube-apiserver does.

use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

use crate::body::Body;
use crate::context::Core;
use crate::request::query::Query;
use crate::status::Status;

/// The start-up checks, by upstream's names and in its order. They pass, since the server serves
/// requests only after start-up.
const STARTED: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Returns the checks of an endpoint, in the order they are reported.
pub(crate) fn checks(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let (first, last): (&[&str], &[&str]) = match endpoint {
        "readyz" => (&["ping", "log", "etcd", "etcd-readiness", "informer-sync"], &["shutdown"]),
        _ => (&["ping", "log", "loopback-serving-certificate", "etcd"], &[]),
    };
    first.iter().chain(STARTED).chain(last).copied()
}

/// Responds to `/<endpoint>` or, with a `check`, to `/<endpoint>/<check>`.
pub(crate) fn respond(
    core: &Core,
    query: &Query,
    endpoint: &str,
    check: &str,
) -> Result<Response<Body>, Status> {
    if !check.is_empty() {
        if !checks(endpoint).any(|known| known == check) {
            return Err(Status::page_not_found());
        }
        return Ok(match failure(core, check) {
            None => plain(StatusCode::OK, "ok".into()),
            Some(reason) => failed(format!("internal server error: {reason}\n")),
        });
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failing = false;
    for check in checks(endpoint) {
        // Writing to a string cannot fail.
        let _ = if excluded.contains(&check) {
            writeln!(report, "[+]{check} excluded: ok")
        } else if failure(core, check).is_some() {
            failing = true;
            // The endpoint is public.
            writeln!(report, "[-]{check} failed: reason withheld")
        } else {
            writeln!(report, "[+]{check} ok")
        };
    }
    let mut unknown: Vec<&str> = excluded;
    unknown.retain(|name| !checks(endpoint).any(|known| known == *name));
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        let quoted: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = quoted.join(",");
        let _ =
            writeln!(report, "warn: some health checks cannot be excluded: no matches for {names}");
    }
    if failing {
        return Ok(failed(format!("{report}{endpoint} check failed\n")));
    }
    if !query.has("verbose") {
        return Ok(plain(StatusCode::OK, "ok".into()));
    }
    Ok(plain(StatusCode::OK, format!("{report}{endpoint} check passed\n")))
}

/// Returns why a check fails. All other checks pass once the server serves requests.
fn failure(core: &Core, check: &str) -> Option<String> {
    match check {
        "shutdown" if *core.stopping.borrow() => Some("process is shutting down".to_owned()),
        "etcd" | "etcd-readiness" => core.store.failure().map(|failure| failure.to_string()),
        _ => None,
    }
}

fn failed(body: String) -> Response<Body> {
    plain(StatusCode::INTERNAL_SERVER_ERROR, body)
}

fn plain(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
