//! Non-resource paths: discovery, health, OpenAPI, version, metrics.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};

use crate::body::Body;
use crate::context::Core;
use crate::context::Remote;
use crate::health;
use crate::offload;
use crate::openapi;
use crate::pipeline::encode;
use crate::registry::discovery::{self, Document};
use crate::request::Routed;
use crate::request::authorize::Authorized;
use crate::request::negotiate::{self, Format};
use crate::status::Status;

/// Responds to a request on a non-resource path.
pub(crate) async fn respond(
    core: &Arc<Core>,
    request: Authorized,
    remote: Option<Arc<Remote>>,
) -> Result<Response<Body>, Status> {
    let path = request.request().parts.uri.path();
    let first = path.trim_start_matches('/').split('/').next().unwrap_or("");
    let Some(remote) = remote else { return handle(core, &request) };
    match first {
        // Rendered on demand, from the schemas of all resources.
        "openapi" => {
            let shared = core.clone();
            let work = async move { handle(&shared, &request) };
            offload::run(&core.throttle, &remote.user, &remote.cancellation, work).await
        }
        _ => {
            remote.acquire_seats(core, None).await?;
            handle(core, &request)
        }
    }
}

fn handle(core: &Arc<Core>, request: &Authorized) -> Result<Response<Body>, Status> {
    let request = request.request();
    let path = request.parts.uri.path();
    let snapshot = core.registry.snapshot();
    let trimmed = path.trim_matches('/');
    let segments: Vec<&str> = trimmed.split('/').collect();
    if !matches!(request.parts.method.as_str(), "GET" | "HEAD") {
        return match segments.as_slice() {
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::respond(core, &request.query, endpoint, &check.join("/"))
            }
            ["version" | "api" | "apis" | "openapi", ..] => Err(Status::method_not_allowed()),
            _ => Err(Status::page_not_found()),
        };
    }
    match segments.as_slice() {
        [""] => Ok(value(request, &index(core))),
        ["version", _, ..] => Err(Status::resource_not_found()),
        ["version"] => Ok(text(version(), "application/json")),
        [".well-known", "openid-configuration"] => {
            let found = core.authenticator.service_accounts.openid_configuration();
            issuer_document(found, "application/json")
        }
        ["openid", "v1", "jwks"] => {
            issuer_document(core.authenticator.service_accounts.jwks(), "application/jwk-set+json")
        }
        ["metrics"] => Ok(text(core.metrics.registry.encode(), evenkeel_metrics::CONTENT_TYPE)),
        [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
            health::respond(core, &request.query, endpoint, &check.join("/"))
        }
        ["api"] if wants_aggregated(request) => {
            Ok(document(request, snapshot.aggregated(true), AGGREGATED))
        }
        ["apis"] if wants_aggregated(request) => {
            Ok(document(request, snapshot.aggregated(false), AGGREGATED))
        }
        ["api"] => Ok(value(
            request,
            &json!({
                "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": host(request)},
                ],
            }),
        )),
        ["apis"] => Ok(value(request, &snapshot.group_list())),
        ["api", version] => match snapshot.group_version("", version) {
            Some(found) => Ok(value(request, &discovery::resource_list("", found))),
            None => Err(Status::resource_not_found()),
        },
        ["apis", group] => match snapshot.group(group).filter(|group| !group.name.is_empty()) {
            Some(found) => Ok(value(request, &discovery::api_group(found))),
            None => Err(Status::page_not_found()),
        },
        ["apis", group, version] => match snapshot.group_version(group, version) {
            Some(found) => Ok(value(request, &discovery::resource_list(group, found))),
            None if snapshot.is_builtin(group) => Err(Status::resource_not_found()),
            None => Err(Status::page_not_found()),
        },
        ["openapi", "v2"] => {
            let found = openapi::publish::v2(&snapshot);
            Ok(match openapi_form(request, OPENAPI_V2) {
                Some(Form::Json) => {
                    etag_response(request, &found.body, &found.etag, negotiate::JSON)
                }
                Some(Form::Protobuf) => {
                    let body = found.protobuf(openapi::protobuf::v2);
                    etag_response(request, body, &found.etag, OPENAPI_V2)
                }
                None => not_acceptable(),
            })
        }
        ["openapi", "v3"] => {
            // Upstream detects the content type from the content and sends no ETag.
            let index = openapi::publish::index(&snapshot);
            let mut response = Response::new(Body::full(index.body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, PLAIN);
            Ok(response)
        }
        ["openapi", "v3", rest @ ..] => {
            let path = rest.join("/");
            let form = openapi_form(request, OPENAPI_V3);
            Ok(match (openapi::publish::v3(&snapshot, &path), form) {
                (Some(found), Some(form)) => hashed_response(request, &path, &found, form),
                (Some(_), None) => not_acceptable(),
                (None, _) => {
                    let mut nothing = Response::new(Body::default());
                    *nothing.status_mut() = StatusCode::NOT_FOUND;
                    nothing
                }
            })
        }
        _ => Err(Status::page_not_found()),
    }
}

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns a document about the issuer of service account tokens.
fn issuer_document(
    document: Option<String>,
    media_type: &'static str,
) -> Result<Response<Body>, Status> {
    let document = document.ok_or_else(Status::page_not_found)?;
    let mut response = text(document, media_type);
    let cached = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(CACHE_CONTROL, cached);
    Ok(response)
}

fn wants_aggregated(request: &Routed) -> bool {
    for range in negotiate::media_ranges(&request.parts.headers) {
        if range.media != "application/json" && range.media != "*/*" {
            continue;
        }
        if range.parameter("as").is_none() {
            return false;
        }
        if range.parameter("as") == Some("APIGroupDiscoveryList")
            && range.parameter("g") == Some("apidiscovery.k8s.io")
            && range.parameter("v") == Some("v2")
        {
            return true;
        }
    }
    false
}

const OPENAPI_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

const OPENAPI_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The encodings of an OpenAPI document.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Json,
    Protobuf,
}

/// Returns the encoding of a document that the client prefers, if it accepts any. Protobuf has the
/// media type `protobuf` or, as kubectl requests it, the older name with an `@`, which is not a
/// valid media type and is never sent in a response.
fn openapi_form(request: &Routed, protobuf: &str) -> Option<Form> {
    let media_ranges = negotiate::media_ranges(&request.parts.headers);
    if media_ranges.is_empty() {
        return Some(Form::Json);
    }
    media_ranges.iter().find_map(|range| match range.media {
        "application/json" | "*/*" | "application/*" | "*/json" => Some(Form::Json),
        media if media == protobuf || media == protobuf.replace(".v1.0", "@v1.0") => {
            Some(Form::Protobuf)
        }
        _ => None,
    })
}

/// Returns the response of the OpenAPI handler if the client accepts no encoding.
fn not_acceptable() -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::NOT_ACCEPTABLE;
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn host(request: &Routed) -> String {
    let header = request.parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    header.or_else(|| request.parts.uri.authority().map(|a| a.as_str())).unwrap_or("").to_owned()
}

/// Builds the response of a discovery document.
fn document(request: &Routed, document: &Document, content_type: &'static str) -> Response<Body> {
    let mut response = etag_response(request, &document.body, &document.etag, content_type);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// Builds a response with an ETag: 304 if the client already has the document.
fn etag_response(
    request: &Routed,
    body: &Bytes,
    etag: &str,
    content_type: &'static str,
) -> Response<Body> {
    let given = request.parts.headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let known = given.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == etag));
    let body = if known { Body::default() } else { Body::full(body.clone()) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// Builds the response of a document with a hash in its URL: cached forever if the hash matches, a
/// redirect otherwise.
fn hashed_response(request: &Routed, path: &str, found: &Document, form: Form) -> Response<Body> {
    let hash = found.etag.trim_matches('"');
    let given = request.query.get("hash");
    if given.is_some_and(|given| given != hash) {
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        if let Ok(target) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")) {
            response.headers_mut().insert(LOCATION, target);
        }
        return response;
    }
    let mut response = match form {
        Form::Json => etag_response(request, &found.body, &found.etag, negotiate::JSON),
        Form::Protobuf => {
            let body = found.protobuf(openapi::protobuf::v3);
            etag_response(request, body, &found.etag, OPENAPI_V3)
        }
    };
    if given.is_some() {
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    response
}

fn value(request: &Routed, value: &Value) -> Response<Body> {
    let format = match negotiate::output(&request.parts.headers, &request.query, false) {
        Ok(output) => output.format,
        Err(_) => Format::Json { pretty: true },
    };
    encode::value_response(format, value)
}

fn text(body: impl Into<Bytes>, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn version() -> Vec<u8> {
    let version = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.3+evenkeel-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": concat!("linux", "/", "amd64"),
    });
    let ty = evenkeel_types::by_name("io.k8s.apimachinery.pkg.version.Info");
    let mut printed = Vec::new();
    evenkeel_types::json::write(&mut printed, ty, &version);
    encode::indent(&printed)
}

/// Returns the index of all paths.
fn index(core: &Core) -> Value {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/readyz",
        "/version",
        "/openapi/v2",
        "/openapi/v3",
    ]
    .iter()
    .map(|path| (*path).to_owned())
    .collect();
    for group in core.registry.snapshot().groups() {
        if group.name.is_empty() {
            paths.extend(group.versions.iter().map(|v| format!("/api/{}", v.version)));
            continue;
        }
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{}", group.name, v.version)));
    }
    for endpoint in ["healthz", "livez", "readyz"] {
        paths.extend(health::checks(endpoint).map(|check| format!("/{endpoint}/{check}")));
    }
    paths.sort();
    json!({"paths": paths})
}
