//! Stage 4: from bytes to an object of the expected kind.
//!
//! Everything happens in the version of the request: the kind is checked, unknown and duplicate
//! fields are dropped and reported as `fieldValidation` asks, types are checked, defaults filled.

use evenkeel_kinds::defaults::Applied;
use evenkeel_schema::metadata::Malformed;
use evenkeel_types::{Gvk, Type, conform, go, protobuf};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::json;
use crate::negotiate::{self, Format};
use crate::object::dedup_owners;
use crate::query::FieldValidation;
use crate::registry::custom;
use crate::registry::resource::{Nature, Resource};
use crate::status::{Named, Status};

/// An object as the request gives it: of the right kind, known fields only, defaulted.
#[derive(Clone)]
pub(crate) struct Decoded {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Decoded {
    /// An object that has been through this stage before, with changes the server made.
    pub(crate) fn again(object: Value) -> Self {
        Self { object, applied: Applied::default() }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.object
    }

    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.object
    }
}

/// A body of one of the accepted formats, and the keys it gives twice.
pub(crate) struct Parsed {
    pub(crate) value: Value,
    duplicates: Vec<String>,
}

/// Reads the object of a create or update.
pub(crate) fn object(
    call: &Call,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let resource = &*call.resource;
    let format = negotiate::input(&call.headers, !resource.is_custom())?;
    let parsed = parse(body, format, &resource.kind)?;
    check_type_meta(&parsed.value).map_err(|why| unrecognized(&resource.kind, body, &why))?;
    expect_kind(resource, &parsed.value, body)?;
    let mut decoded = conformed(call, parsed, validation)?;
    warn_of_owners(call, &mut decoded.object, "");
    Ok(decoded)
}

/// Owners that are given twice count once, and the client hears of it.
pub(super) fn warn_of_owners(call: &Call, object: &mut Value, when: &str) {
    let twice = dedup_owners(object);
    if !twice.is_empty() {
        call.warnings.add(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

/// Reads a body of another built-in kind: Scale, Eviction, DeleteOptions and their like.
pub(crate) fn of_kind(
    call: &Call,
    body: &[u8],
    gvk: Gvk<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let format = negotiate::input(&call.headers, true)?;
    let parsed = parse(body, format, gvk.kind)?;
    of_kind_value(call, parsed, gvk, validation)
}

/// Checks a value the server has made to be of a built-in kind.
pub(crate) fn patched_kind(
    call: &Call,
    value: Value,
    gvk: Gvk<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    of_kind_value(call, Parsed { value, duplicates: Vec::new() }, gvk, validation)
}

fn of_kind_value(
    call: &Call,
    mut parsed: Parsed,
    gvk: Gvk<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    expect_builtin_kind(gvk, &parsed.value)?;
    set_kind(&mut parsed.value, gvk);
    let ty = evenkeel_types::lookup(gvk).ok_or_else(Status::resource_not_found)?;
    let unknown = conform_to(ty, &mut parsed.value, gvk)?;
    report(call, validation, &parsed.duplicates, &unknown)
        .map_err(|why| cannot_be_handled(gvk, gvk.kind, &why))?;
    evenkeel_kinds::defaults::apply(gvk, &mut parsed.value);
    Ok(parsed.value)
}

/// Checks an object the server has made itself, from a patch or a conversion.
///
/// The error is only the reason; what it says of the request is up to the caller.
pub(crate) fn patched(
    call: &Call,
    value: Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Decoded, PatchedError> {
    let resource = &*call.resource;
    let mut value = value;
    expect_kind(resource, &value, &[]).map_err(|status| match &resource.nature {
        Nature::Builtin(_) => PatchedError::Strict(status.message().to_owned()),
        Nature::Custom(_) => PatchedError::Refused(status),
    })?;
    set_kind(&mut value, resource.gvk());
    match shape(resource, &mut value) {
        Err(status) => Err(PatchedError::Refused(status)),
        Ok(unknown) => match report(call, validation, duplicates, &unknown) {
            Ok(()) => {
                let applied = fill_defaults(resource, &mut value);
                Ok(Decoded { object: value, applied })
            }
            Err(why) => Err(PatchedError::Strict(why)),
        },
    }
}

/// Why a patched object is no object of its kind.
pub(crate) enum PatchedError {
    Refused(Status),
    Strict(String),
}

pub(crate) fn parse(body: &[u8], format: Format, kind: &str) -> Result<Parsed, Status> {
    read(body, format).map_err(|why| unrecognized(kind, body, &why))
}

/// As [`parse`]; the error is only the reason.
pub(crate) fn read(body: &[u8], format: Format) -> Result<Parsed, String> {
    match format {
        Format::Json { .. } => {
            let (value, duplicates) = json::decode(body).map_err(|why| not_json(&why))?;
            // Go decodes a null into whatever it has, and leaves that as it is.
            let value = if value.is_null() { Value::Object(Map::new()) } else { value };
            if !value.is_object() {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                     \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                     \"json:\\\"kind,omitempty\\\"\" }}",
                    go::json_kind(&value)
                );
                return Err(not_json(&why));
            }
            Ok(Parsed { value, duplicates })
        }
        Format::Yaml => {
            let value = crate::yaml::decode(body)
                .map_err(|why| format!("error converting YAML to JSON: yaml: {why}"))?;
            if !value.is_object() {
                return Err(not_json("expected a mapping"));
            }
            Ok(Parsed { value, duplicates: Vec::new() })
        }
        Format::Protobuf => {
            let decoded = protobuf::decode(body).map_err(|why| why.to_string())?;
            Ok(Parsed { value: decoded.object, duplicates: Vec::new() })
        }
    }
}

/// The kind and the version are read before anything else, and by a stricter decoder.
fn check_type_meta(value: &Value) -> Result<(), String> {
    for key in ["apiVersion", "kind"] {
        match value.get(key) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                return Err(format!(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into \
                     Go struct field .{key} of type string",
                    go::json_kind(other)
                ));
            }
        }
    }
    let api_version = text(value, "apiVersion");
    if api_version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    Ok(())
}

fn not_json(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

fn unrecognized(kind: &str, body: &[u8], why: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        summary(body)
    ))
}

/// The first bytes of a body, as upstream quotes them.
fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    let cut = &body[..body.len().min(LIMIT)];
    let dots = if body.len() > LIMIT { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(cut)),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + dots,
    }
}

fn cannot_be_handled(gvk: Gvk<'_>, expected: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {expected}: {why}",
        gvk.kind, gvk.version
    ))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn expect_kind(resource: &Resource, value: &Value, body: &[u8]) -> Result<(), Status> {
    if !resource.is_custom() {
        return expect_builtin_kind(resource.gvk(), value);
    }
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    if kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(&resource.kind, body, &why));
    }
    if api_version != &*resource.api_version {
        return Err(version_mismatch(api_version, &resource.api_version));
    }
    if kind != &*resource.kind {
        let error = evenkeel_schema::field::Error::invalid(
            "kind",
            kind,
            format!("must be {}", resource.kind),
        );
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
        let named = Named { group: &resource.group, kind };
        return Err(Status::invalid(named, name, &[error]));
    }
    Ok(())
}

fn version_mismatch(given: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version \
         ({expected})"
    ))
}

/// Built-in kinds may leave out what the URL says.
fn expect_builtin_kind(expected: Gvk<'_>, value: &Value) -> Result<(), Status> {
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let given = Gvk::from_api_version(api_version, kind);
    let same_kind = kind.is_empty() || kind == expected.kind;
    let same_version = api_version.is_empty()
        || (given.group, given.version) == (expected.group, expected.version);
    if same_kind && same_version {
        return Ok(());
    }
    if same_kind && given.group == expected.group && evenkeel_types::lookup(given).is_some() {
        return Err(version_mismatch(api_version, &expected.api_version()));
    }
    Err(cannot_be_handled(given, expected.kind, &no_conversion(given, expected)))
}

/// Why an object of one built-in kind cannot be had as another.
fn no_conversion(given: Gvk<'_>, expected: Gvk<'_>) -> String {
    if evenkeel_types::lookup(given).is_none() {
        // The line is where upstream builds its scheme; clients only ever print it.
        return format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            given.kind,
            given.api_version()
        );
    }
    let package = match expected.group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!(
        "converting ({}.{}) to ({package}.{}): unknown conversion",
        given.version, given.kind, expected.kind
    )
}

/// Makes sure that a patch has left a built-in object of its kind; naming none is fine.
///
/// The error is only the reason.
pub(crate) fn keep_kind(resource: &Resource, value: &mut Value) -> Result<(), String> {
    let expected = resource.gvk();
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let given = Gvk::from_api_version(api_version, kind);
    if !api_version.is_empty() && given != expected {
        return Err(no_conversion(given, expected));
    }
    set_kind(value, expected);
    Ok(())
}

fn conformed(
    call: &Call,
    mut parsed: Parsed,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let resource = &*call.resource;
    set_kind(&mut parsed.value, resource.gvk());
    let unknown = shape(resource, &mut parsed.value)?;
    report(call, validation, &parsed.duplicates, &unknown)
        .map_err(|why| cannot_be_handled(resource.gvk(), &resource.kind, &why))?;
    let applied = fill_defaults(resource, &mut parsed.value);
    Ok(Decoded { object: parsed.value, applied })
}

fn set_kind(value: &mut Value, gvk: Gvk<'_>) {
    value["apiVersion"] = gvk.api_version().into();
    value["kind"] = gvk.kind.into();
}

/// Brings an object into the shape of its kind; tells which fields had to go, as a strict
/// decoder words it.
pub(crate) fn shape(resource: &Resource, value: &mut Value) -> Result<Vec<String>, Status> {
    match &resource.nature {
        Nature::Builtin(builtin) => conform_to(builtin.ty, value, resource.gvk()),
        Nature::Custom(custom) => {
            json::settle_floats(value);
            let gvk = resource.gvk();
            match value.get("metadata") {
                Some(Value::Object(_)) => {}
                None | Some(Value::Null) => value["metadata"] = Value::Object(Map::new()),
                Some(other) => {
                    let why = format!(
                        "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                        go::json_kind(other)
                    );
                    return Err(cannot_be_handled(gvk, gvk.kind, &why));
                }
            }
            custom
                .schema
                .normalize(value, Malformed::Refuse)
                .map(|paths| paths.iter().map(|path| format!("unknown field {path:?}")).collect())
                .map_err(|why| cannot_be_handled(gvk, gvk.kind, &why.to_string()))
        }
    }
}

pub(crate) fn fill_defaults(resource: &Resource, value: &mut Value) -> Applied {
    match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            evenkeel_schema::default_crd(value);
            Applied::default()
        }
        Nature::Builtin(_) => evenkeel_kinds::defaults::apply(resource.gvk(), value),
        Nature::Custom(custom) => {
            custom.schema.default(value);
            Applied::default()
        }
    }
}

fn conform_to(ty: &'static Type, value: &mut Value, gvk: Gvk<'_>) -> Result<Vec<String>, Status> {
    let problems =
        conform(ty, value).map_err(|why| cannot_be_handled(gvk, gvk.kind, &why.to_string()))?;
    Ok(problems.into_iter().map(|problem| problem.to_string()).collect())
}

/// Warns of or refuses what should not be there. The error is the reason for refusing.
fn report(
    call: &Call,
    validation: FieldValidation,
    duplicates: &[String],
    unknown: &[String],
) -> Result<(), String> {
    if validation == FieldValidation::Ignore || (duplicates.is_empty() && unknown.is_empty()) {
        return Ok(());
    }
    let texts = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"))
        .chain(unknown.iter().cloned());
    if validation == FieldValidation::Strict {
        let all: Vec<String> = texts.collect();
        return Err(format!("strict decoding error: {}", all.join(", ")));
    }
    for text in texts {
        call.warnings.add(text);
    }
    Ok(())
}
