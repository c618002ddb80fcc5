//! Turns the reply of a verb into an HTTP response.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_types::json::{self, FieldsOrder};
use evenkeel_types::protobuf;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::list::{List, ListBody};
use super::{pretty, view};
use crate::audit::Level;
use crate::body::{Body, Chunks};
use crate::codec;
use crate::context::Core;
use crate::context::RequestContext;
use crate::pipeline::persist::Persisted;
use crate::request::negotiate::{self, Format, Output, View};
use crate::status::Status;
use crate::storage::Record;

/// The reply of a verb.
pub(crate) enum Reply {
    /// An object of the request's resource, as stored.
    Record(StatusCode, Arc<Record>),
    /// An object of the request's resource that is not stored in this form.
    Object(StatusCode, Value),
    /// An object of another kind: Scale, Status, a review.
    Other(StatusCode, Value),
    List(List),
    /// The stream of a watch.
    Watch(Body),
}

impl Reply {
    /// Returns the reply of a write.
    pub(crate) fn persisted(cx: &RequestContext, code: StatusCode, persisted: Persisted) -> Self {
        match persisted {
            Persisted::Stored(record) => Self::record(cx, code, record),
            Persisted::Value(value) => {
                let view = is_status(cx).then(|| cx.hooks.update_view(&value)).flatten();
                Self::Object(code, view.unwrap_or(value))
            }
        }
    }

    /// Returns a stored object.
    pub(crate) fn record(cx: &RequestContext, code: StatusCode, record: Arc<Record>) -> Self {
        match is_status(cx).then(|| cx.hooks.status_view(cx, &record)).flatten() {
            Some(view) => Self::Object(code, view),
            None => Self::Record(code, record),
        }
    }
}

fn is_status(cx: &RequestContext) -> bool {
    cx.subresource.as_deref() == Some("status")
}

/// Responses larger than this are compressed for clients that accept it.
const GZIP_THRESHOLD: usize = 128 * 1024;

pub(crate) fn respond(
    cx: &RequestContext,
    output: Output,
    reply: Reply,
) -> Result<Response<Body>, Status> {
    let gzip = negotiate::accepts_gzip(&cx.headers);
    let mut response = encode(cx, output, reply, gzip)?;
    add_warnings(cx, response.headers_mut());
    Ok(response)
}

/// Records the object of a response for the audit log: as JSON, whatever the client accepts.
pub(crate) fn audit<'a>(
    cx: &'a RequestContext,
    output: Output,
    reply: &Reply,
) -> impl Future<Output = ()> + Send + use<'a> {
    let records = cx.audit.records(Level::RequestResponse);
    let copy = match reply {
        Reply::Other(_, value) => {
            cx.audit.response_object(value);
            None
        }
        Reply::Object(code, value) if records => Some(Reply::Object(*code, value.clone())),
        Reply::Record(code, record) if records => Some(Reply::Record(*code, record.clone())),
        Reply::List(list) if records => Some(Reply::List(list.clone())),
        _ => None,
    };
    async move {
        let Some(copy) = copy else { return };
        let output = Output { format: Format::Json { pretty: false }, ..output };
        // An error is that of the response, too, and recorded there.
        let Ok(response) = encode(cx, output, copy, false) else { return };
        let Ok(body) = response.into_body().collect().await;
        if let Ok(object) = serde_json::from_slice(&body.to_bytes()) {
            cx.audit.response_object(&object);
        }
    }
}

fn encode(
    cx: &RequestContext,
    output: Output,
    reply: Reply,
    gzip: bool,
) -> Result<Response<Body>, Status> {
    let response = match reply {
        Reply::Watch(events) => stream(StatusCode::OK, "application/json", events),
        Reply::List(list) => respond_list(cx, output, list, gzip)?,
        Reply::Other(code, value) => full(code, output.format, write(output.format, &value)?, gzip),
        Reply::Record(code, record) => match output {
            Output { view: View::Object, format: Format::Json { pretty: false }, .. } => {
                let body = codec::body(&cx.resource, &record)?;
                let mut line = Vec::with_capacity(body.len() + 1);
                line.extend_from_slice(&body);
                line.push(b'\n');
                full(code, output.format, line.into(), gzip)
            }
            Output { view: View::Object, format: Format::Protobuf, .. } => {
                let resource = &cx.resource;
                let body = codec::body(resource, &record)?;
                let ty = resource.builtin_type().ok_or_else(|| no_protobuf(&resource.kind))?;
                let message =
                    protobuf::encode_json(ty, &resource.api_version, &resource.kind, &body)
                        .map_err(Status::internal)?;
                full(code, output.format, message.into(), gzip)
            }
            _ => {
                let value = codec::value(&cx.resource, &record)?;
                respond_object(cx, output, code, value, gzip)?
            }
        },
        Reply::Object(code, value) => respond_object(cx, output, code, value, gzip)?,
    };
    Ok(response)
}

/// Returns the approximate number of stored bytes that [`respond`] buffers before the first byte is
/// sent.
pub(crate) fn buffered_size(output: Output, reply: &Reply) -> usize {
    let as_stored =
        matches!(output, Output { view: View::Object, format: Format::Json { pretty: false }, .. });
    match reply {
        Reply::List(list) if !ListBody::has_form(list, output) => list.size(),
        Reply::Record(_, record) if !as_stored => record.body.len(),
        _ => 0,
    }
}

/// Adds the warnings of the request to a response, successful or not.
pub(crate) fn add_warnings(cx: &RequestContext, headers: &mut HeaderMap) {
    for text in cx.warnings.take() {
        add_warning(&text, headers);
    }
}

/// Adds a warning to a response.
pub(crate) fn add_warning(text: &str, headers: &mut HeaderMap) {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
        headers.append(WARNING, value);
    }
}

fn respond_object(
    cx: &RequestContext,
    output: Output,
    code: StatusCode,
    value: Value,
    gzip: bool,
) -> Result<Response<Body>, Status> {
    let resource = &cx.resource;
    let rendered = match output.view {
        View::Object => value,
        View::Metadata => view::to_metadata(resource.gvk(), &value),
        // Upstream treats any custom object as a list until it looks up the items.
        View::MetadataList if resource.is_custom() => {
            return Err(Status::without_reason(500, "content is not a list"));
        }
        View::MetadataList => {
            return Err(Status::view_mismatch(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 ({})",
                resource.go_type("")
            )));
        }
        View::Table => {
            let include = view::Include::parse(&cx.query)?;
            let metadata = view::table_metadata_of(&value);
            let row = view::to_row(resource, &value, cx.core.clock_rng.now(), include);
            view::table(metadata, Some(view::table_definitions(resource)), vec![row])
        }
    };
    let rendered = match output.view {
        View::Object => rendered,
        _ => view::in_version(output.beta, rendered),
    };
    let order = codec::fields_order(resource);
    Ok(full(code, output.format, write_in_order(output.format, &rendered, order)?, gzip))
}

fn respond_list(
    cx: &RequestContext,
    output: Output,
    list: List,
    gzip: bool,
) -> Result<Response<Body>, Status> {
    let list = match ListBody::new(list, output) {
        Ok(mut list) => {
            let compress = gzip && list.size() > GZIP_THRESHOLD;
            let body = match list.encode_small() {
                Some(bytes) if compress => {
                    return Ok(full(StatusCode::OK, output.format, bytes.into(), gzip));
                }
                Some(bytes) => Body::full(bytes),
                None if compress => Body::stream(Gzip::new(list)),
                None => Body::stream(list),
            };
            let mut response = stream(StatusCode::OK, output.format.content_type(), body);
            if compress {
                set_gzip_headers(response.headers_mut());
            }
            return Ok(response);
        }
        Err(list) => list,
    };
    let order = codec::fields_order(&cx.resource);
    match output {
        Output { view: View::Object, format, .. } => {
            Ok(full(StatusCode::OK, format, write(format, &list.to_value(cx)?)?, gzip))
        }
        Output { view: View::Metadata, .. } => Err(Status::view_mismatch(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            cx.resource.go_type("List")
        ))),
        Output { view: View::MetadataList, format, beta } => {
            let metadata = view::in_version(beta, list.to_metadata(cx)?);
            Ok(full(StatusCode::OK, format, write_in_order(format, &metadata, order)?, gzip))
        }
        Output { view: View::Table, format, beta } => {
            let include = view::Include::parse(&cx.query)?;
            let table = list.to_table(cx, include)?;
            let table = view::in_version(beta, table);
            Ok(full(StatusCode::OK, format, write_in_order(format, &table, order)?, gzip))
        }
    }
}

/// Encodes a value in the negotiated format.
fn write(format: Format, value: &Value) -> Result<Bytes, Status> {
    write_in_order(format, value, FieldsOrder::PathElements)
}

/// As [`write`], with `fieldsV1` in the given order.
fn write_in_order(format: Format, value: &Value, order: FieldsOrder) -> Result<Bytes, Status> {
    let encode = || crate::json::to_bytes_in_order(value, order);
    match format {
        Format::Json { pretty: true } => Ok(pretty::indent(&encode()).into()),
        Format::Json { pretty: false } => {
            let mut body = encode();
            body.push(b'\n');
            Ok(body.into())
        }
        Format::Yaml => crate::yaml::encode(value).map(Bytes::from).map_err(Status::internal),
        Format::Protobuf => {
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            let ty = json::type_of(value).ok_or_else(|| no_protobuf(text("kind")))?;
            protobuf::encode_json(ty, text("apiVersion"), text("kind"), &encode())
                .map(Bytes::from)
                .map_err(Status::internal)
        }
    }
}

fn no_protobuf(kind: &str) -> Status {
    Status::internal(format!("{kind} has no protobuf form"))
}

fn full(code: StatusCode, format: Format, bytes: Bytes, gzip: bool) -> Response<Body> {
    if gzip && bytes.len() > GZIP_THRESHOLD {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to a vector cannot fail; if it did, the uncompressed bytes are sent.
        if encoder.write_all(&bytes).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            let mut response = stream(code, format.content_type(), Body::full(packed));
            set_gzip_headers(response.headers_mut());
            return response;
        }
    }
    stream(code, format.content_type(), Body::full(bytes))
}

fn stream(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn set_gzip_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// A stream that compresses chunks as they are produced.
struct Gzip<P> {
    chunks: P,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<P: Chunks> Gzip<P> {
    fn new(chunks: P) -> Self {
        Self { chunks, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<P: Chunks> Chunks for Gzip<P> {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            match self.chunks.next().await {
                Some(chunk) => {
                    encoder.write_all(&chunk).ok()?;
                    if !encoder.get_ref().is_empty() {
                        return Some(std::mem::take(encoder.get_mut()).into());
                    }
                }
                None => return self.encoder.take()?.finish().ok().map(Bytes::from),
            }
        }
    }
}

/// Builds the response of a document that is not an object of a resource.
pub(crate) fn value_response(format: Format, value: &Value) -> Response<Body> {
    full(StatusCode::OK, format, write(format, value).unwrap_or_default(), false)
}

/// Builds an error response: a Status, or plain text where Go's router responds.
pub(crate) fn error_response(headers: &HeaderMap, pretty: bool, status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(text) = status.plain_text() {
        let mut response = stream(code, "text/plain; charset=utf-8", Body::full(text.to_owned()));
        response.headers_mut().insert(
            HeaderName::from_static("x-content-type-options"),
            HeaderValue::from_static("nosniff"),
        );
        retry_after(&mut response, status);
        return response;
    }
    let format = negotiate::error_format(headers, pretty).unwrap_or(Format::Json { pretty: true });
    let body = write(format, &status.to_value()).unwrap_or_default();
    let mut response = full(code, format, body, false);
    retry_after(&mut response, status);
    response
}

fn retry_after(response: &mut Response<Body>, status: &Status) {
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Returns the id of a request in the audit log: that of its header, or a new one.
pub(crate) fn audit_id(core: &Core, headers: &HeaderMap) -> String {
    let given = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
    given.filter(|id| !id.is_empty()).map_or_else(|| core.clock_rng.uid(), str::to_owned)
}

/// Sets the headers that every response has.
pub(crate) fn common_headers(audit_id: &str, mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(audit_id) {
        headers.insert(AUDIT_ID, id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}
