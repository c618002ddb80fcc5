//! AdmissionReviews: the request that is sent, and the response that is expected.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_types::Gvk;
use evenkeel_types::go::{self, Quoted};
use serde_json::{Map, Value};

use super::super::request::{Request, options};
use super::hook::ReviewVersion;
use super::matching::Invocation;
use crate::context::Attributes;
use crate::json;
use crate::webhook::decode_review;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

impl ReviewVersion {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// Encodes the review of a request; `object` and `old` are in the version of the invocation.
pub(super) fn encode(
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    version: ReviewVersion,
    uid: &str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Vec<u8> {
    let cx = attributes.cx;
    let kind = invocation.kind(cx.subresource.as_deref());
    let mut request = Request::new(attributes, kind, &invocation.resource);
    request.uid = uid;
    let mut out = Vec::with_capacity(4096);
    let version = version.name();
    out.extend_from_slice(
        format!(r#"{{"kind":"{KIND}","apiVersion":"{GROUP}/{version}","request":"#).as_bytes(),
    );
    if let Err(error) = serde_json::to_writer(&mut out, &request) {
        tracing::error!(%error, "cannot encode an AdmissionReview");
    }
    // The objects are encoded as they are in storage, into the still open request.
    out.pop();
    let mut push = |name: &str, value: Option<Vec<u8>>| {
        out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
        out.extend_from_slice(value.as_deref().unwrap_or(b"null"));
    };
    push("object", object.map(json::to_bytes));
    push("oldObject", old.map(json::to_bytes));
    push("dryRun", Some(attributes.dry_run.to_string().into_bytes()));
    push("options", options(attributes).map(|options| options.to_string().into_bytes()));
    out.extend_from_slice(b"}}");
    out
}

/// The response of a webhook.
pub(super) struct Response {
    pub(super) allowed: bool,
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) status: Option<Value>,
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: Vec<(String, String)>,
}

/// Why a response is not accepted.
pub(super) enum Invalid {
    /// It cannot be decoded.
    Undecodable(String),
    /// It is not the response to the request.
    Unexpected(String),
}

/// Decodes and verifies the response to the request `uid`.
pub(super) fn decode(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
) -> Result<Response, Invalid> {
    let review = decode_review(body).map_err(Invalid::Undecodable)?;
    check_kind(&review, version).map_err(Invalid::Undecodable)?;
    let response = match review.get("response") {
        None | Some(Value::Null) => {
            return Err(Invalid::Unexpected("webhook response was absent".to_owned()));
        }
        Some(Value::Object(response)) => response,
        Some(other) => {
            return Err(Invalid::Undecodable(format!(
                "json: cannot unmarshal {} into Go struct field AdmissionReview.response of type \
                 {}.AdmissionResponse",
                go::json_kind(other),
                version.name()
            )));
        }
    };
    let (given_uid, patch_type_given, decoded) = read(response).map_err(Invalid::Undecodable)?;
    match version {
        ReviewVersion::V1 => {
            verify(&review, uid, &given_uid, patch_type_given, &decoded, mutating)
                .map_err(Invalid::Unexpected)?;
            Ok(decoded)
        }
        // Neither the uid nor the patch type of the first version were verified.
        ReviewVersion::V1beta1 if mutating => {
            Ok(Response { patch_type: "JSONPatch".to_owned(), ..decoded })
        }
        ReviewVersion::V1beta1 => Ok(Response { patch: Vec::new(), ..decoded }),
    }
}

fn text<'a>(map: &'a Map<String, Value>, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or("")
}

/// Checks that the review can be decoded as the expected version; a missing kind is verified later.
fn check_kind(review: &Map<String, Value>, version: ReviewVersion) -> Result<(), String> {
    for field in ["apiVersion", "kind"] {
        if let Some(other) = review.get(field).filter(|it| !it.is_string() && !it.is_null()) {
            return Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go \
                 struct field .{field} of type string",
                go::json_kind(other)
            ));
        }
    }
    let expected = format!("{GROUP}/{}", version.name());
    let or = |given: &str, default: &str| {
        if given.is_empty() { default.to_owned() } else { given.to_owned() }
    };
    let api_version = or(text(review, "apiVersion"), &expected);
    let kind = or(text(review, "kind"), KIND);
    if api_version == expected && kind == KIND {
        return Ok(());
    }
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&&*api_version);
    if known && kind == KIND {
        let given = api_version.rsplit('/').next().unwrap_or("");
        return Err(format!(
            "converting ({given}.{KIND}) to ({}.{KIND}): unknown conversion",
            version.name()
        ));
    }
    // The line where upstream builds its scheme; clients only print it.
    Err(format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        Quoted(&kind),
        Quoted(&api_version)
    ))
}

/// Reads the fields of a response: its uid, whether it has a patch type, and the rest.
fn read(response: &Map<String, Value>) -> Result<(String, bool, Response), String> {
    let mismatch = |field: &str, value: &Value, ty: &str| {
        format!(
            "json: cannot unmarshal {} into Go struct field AdmissionResponse.response.{field} of \
             type {ty}",
            go::json_kind(value)
        )
    };
    let given = |field: &str| response.get(field).filter(|value| !value.is_null());
    let string = |field: &str, ty: &str| match given(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(mismatch(field, other, ty)),
    };
    let allowed = match given("allowed") {
        None => false,
        Some(Value::Bool(allowed)) => *allowed,
        Some(other) => return Err(mismatch("allowed", other, "bool")),
    };
    let status = match given("status") {
        None => None,
        Some(status @ Value::Object(_)) => Some(status.clone()),
        Some(other) => return Err(mismatch("status", other, "v1.Status")),
    };
    let patch = string("patch", "[]uint8")?.unwrap_or_default();
    let patch = STANDARD.decode(patch).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) => {
            format!("illegal base64 data at input byte {at}")
        }
        other => format!("illegal base64 data: {other}"),
    })?;
    let patch_type = string("patchType", "v1.PatchType")?;
    let warnings = match given("warnings") {
        None => Vec::new(),
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|it| match it {
                Value::String(text) => Ok(text.clone()),
                Value::Null => Ok(String::new()),
                other => Err(mismatch("warnings", other, "string")),
            });
            texts.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(mismatch("warnings", other, "[]string")),
    };
    let audit_annotations = match given("auditAnnotations") {
        None => Vec::new(),
        Some(Value::Object(map)) => {
            let entries = map.iter().map(|(key, value)| match value {
                Value::String(text) => Ok((key.clone(), text.clone())),
                Value::Null => Ok((key.clone(), String::new())),
                other => Err(mismatch("auditAnnotations", other, "string")),
            });
            entries.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(mismatch("auditAnnotations", other, "map[string]string")),
    };
    let uid = string("uid", "types.UID")?.unwrap_or_default();
    let has_patch_type = patch_type.is_some();
    let patch_type = patch_type.unwrap_or_default();
    Ok((
        uid,
        has_patch_type,
        Response { allowed, patch, patch_type, status, warnings, audit_annotations },
    ))
}

/// Verifies a response of version v1.
fn verify(
    review: &Map<String, Value>,
    uid: &str,
    given_uid: &str,
    has_patch_type: bool,
    response: &Response,
    mutating: bool,
) -> Result<(), String> {
    if given_uid != uid {
        return Err(format!("expected response.uid={}, got {}", Quoted(uid), Quoted(given_uid)));
    }
    let gvk = Gvk::from_api_version(text(review, "apiVersion"), text(review, "kind"));
    if (gvk.group, gvk.version, gvk.kind) != (GROUP, "v1", KIND) {
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind={KIND}, got {}/{}, Kind={}",
            gvk.group, gvk.version, gvk.kind
        ));
    }
    let has_patch = !response.patch.is_empty();
    let why = match (mutating, has_patch, has_patch_type) {
        (true, true, false) => "webhook returned response.patch but not response.patchType",
        (true, false, true) => "webhook returned response.patchType but not response.patch",
        (true, true, true) if response.patch_type.is_empty() => {
            "webhook returned invalid response.patchType of \"\""
        }
        (false, true, _) => "validating webhook may not return response.patch",
        (false, _, true) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}
