//! `/healthz`, `/livez` and `/readyz`: named checks, reported as kube-apiserver does.

use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

use crate::body::Body;
use crate::core::Core;
use crate::query::Query;
use crate::status::Status;

/// The checks behind each endpoint, in the order they are reported.
pub(crate) const CHECKS: &[&str] = &["ping", "log", "etcd", "poststarthook/crd-informer-synced"];

/// Answers `/<endpoint>` or, with a `check`, `/<endpoint>/<check>`.
pub(crate) fn respond(
    core: &Core,
    query: &Query,
    endpoint: &str,
    check: &str,
) -> Result<Response<Body>, Status> {
    if !check.is_empty() {
        if !CHECKS.contains(&check) {
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
    for check in CHECKS {
        // Writing to a string cannot fail.
        let _ = if excluded.contains(check) {
            writeln!(report, "[+]{check} excluded: ok")
        } else if failure(core, check).is_some() {
            failing = true;
            // The endpoint is public.
            writeln!(report, "[-]{check} failed: reason withheld")
        } else {
            writeln!(report, "[+]{check} ok")
        };
    }
    for unknown in excluded.iter().filter(|name| !CHECKS.contains(name)) {
        let _ = writeln!(
            report,
            "warn: some health checks cannot be excluded: no matches for {unknown:?}"
        );
    }
    if failing {
        return Ok(failed(format!("{report}{endpoint} check failed\n")));
    }
    if !query.has("verbose") {
        return Ok(plain(StatusCode::OK, "ok".into()));
    }
    Ok(plain(StatusCode::OK, format!("{report}{endpoint} check passed\n")))
}

/// Why a check fails. Those not named here pass in any server that answers.
fn failure(core: &Core, check: &str) -> Option<String> {
    match check {
        "etcd" => core.store.failure().map(|failure| failure.to_string()),
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
