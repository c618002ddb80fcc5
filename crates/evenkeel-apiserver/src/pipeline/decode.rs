//! Decodes bytes to an object of the expected kind.
//!
//! Everything happens in the version of the request: the kind is checked, unknown and duplicate
//! fields are dropped and reported according to `fieldValidation`, types are checked, and defaults
//! are set.

use std::collections::BTreeSet;

use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::empty::EmptyFields;
use evenkeel_schema::metadata::Malformed;
use evenkeel_types::go::{self, Quoted};
use evenkeel_types::{Gvk, Type, protobuf};
use serde_json::{Map, Value};

use crate::codec::{coerce_and_prune, conform_to};
use crate::context::RequestContext;
use crate::digest;
use crate::json;
use crate::object::dedup_owners;
use crate::registry::resource::TypeInfo;
use crate::request::negotiate::{self, Format};
use crate::request::query::FieldValidation;
use crate::status::{GroupResource, Status};

/// A decoded object: of the right kind, with known fields only, defaulted.
#[derive(Clone)]
pub(crate) struct Decoded {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Decoded {
    /// Wraps an object that was decoded before and then changed by the server.
    pub(crate) fn already_decoded(object: Value) -> Self {
        Self { object, applied: Applied::default() }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.object
    }

    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.object
    }
}

/// A parsed body and its duplicate keys.
pub(crate) struct Parsed {
    pub(crate) value: Value,
    duplicates: Vec<String>,
}

/// Decodes the object of a create or update.
pub(crate) fn object(
    cx: &RequestContext,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let resource = &*cx.resource;
    let format = negotiate::input(&cx.headers, !resource.is_custom())?;
    let parsed = parse(body, format, &resource.kind)?;
    check_type_meta(&parsed.value).map_err(|why| unrecognized(&resource.kind, body, &why))?;
    expect_kind(cx, &parsed, body, validation)?;
    let mut decoded = conform_and_default(cx, body, format, parsed, validation)?;
    warn_duplicate_owners(cx, &mut decoded.object, "");
    cx.audit.request_object(&decoded.object);
    Ok(decoded)
}

/// Removes duplicate owner references and adds a warning.
pub(super) fn warn_duplicate_owners(cx: &RequestContext, object: &mut Value, when: &str) {
    let duplicates = dedup_owners(object);
    if !duplicates.is_empty() {
        cx.warnings.add(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
}

/// Decodes a body of another built-in kind, such as Scale, Eviction or DeleteOptions.
pub(crate) fn of_kind(
    cx: &RequestContext,
    body: &[u8],
    gvk: Gvk<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    let format = negotiate::input(&cx.headers, true)?;
    let mut parsed = parse(body, format, gvk.kind)?;
    expect_builtin_kind(gvk, &parsed.value)?;
    set_kind(&mut parsed.value, gvk);
    let ty = evenkeel_types::lookup(gvk).ok_or_else(Status::resource_not_found)?;
    conform_to(ty, &mut parsed.value)
        .map(|unknown| problems_in_source_order(body, format, &parsed.duplicates, unknown))
        .and_then(|problems| report(cx, validation, problems))
        .map_err(|why| cannot_be_handled(gvk, gvk.kind, &why))?;
    evenkeel_kinds::defaults::apply(gvk, &mut parsed.value);
    cx.audit.request_object(&parsed.value);
    Ok(parsed.value)
}

/// A decoder of the result of a patch.
#[derive(Clone, Copy)]
pub(crate) struct Patched<'a> {
    /// Duplicate keys in the patch.
    pub(crate) duplicates: &'a [String],
    pub(crate) validation: FieldValidation,
    /// A strategic merge results in untyped values that are converted field by field; other patches
    /// result in a text that is decoded.
    pub(crate) strategic: bool,
}

impl Patched<'_> {
    /// Decodes an object of the request's resource. The error is the reason only.
    ///
    /// Does not check the kind of a custom object: the caller must.
    pub(crate) fn object(self, cx: &RequestContext, mut value: Value) -> Result<Decoded, String> {
        let resource = &*cx.resource;
        let sent_empty = EmptyFields::find(resource.gvk(), &value);
        match &resource.type_info {
            TypeInfo::Builtin(builtin) => {
                self.typed(cx, builtin.ty, resource.gvk(), &mut value)?;
            }
            TypeInfo::Custom(_) => {
                check_object(&value)?;
                check_type_meta(&value)?;
                if text(&value, "kind").is_empty() {
                    return Err(format!("Object 'Kind' is missing in '{value}'"));
                }
                let unknown = coerce_and_prune(resource, &mut value)?;
                report(cx, self.validation, problems(self.duplicates, unknown))?;
            }
        }
        let applied = resource.fill_defaults(&mut value, sent_empty);
        Ok(Decoded { object: value, applied })
    }

    /// Decodes an object of another built-in kind. The error is the reason only.
    pub(crate) fn of_kind(
        self,
        cx: &RequestContext,
        mut value: Value,
        gvk: Gvk<'_>,
        ty: &'static Type,
    ) -> Result<Value, String> {
        self.typed(cx, ty, gvk, &mut value)?;
        evenkeel_kinds::defaults::apply(gvk, &mut value);
        Ok(value)
    }

    fn typed(
        self,
        cx: &RequestContext,
        ty: &'static Type,
        gvk: Gvk<'_>,
        value: &mut Value,
    ) -> Result<(), String> {
        if self.strategic {
            evenkeel_types::check_unstructured(ty, value).map_err(|why| why.to_string())?;
            set_kind(value, gvk);
        } else {
            check_object(value)?;
            check_type_meta(value)?;
            check_patched_kind(gvk, value)?;
        }
        let mut unknown = conform_to(ty, value)?;
        if self.strategic {
            unknown.sort_unstable();
        }
        report(cx, self.validation, problems(self.duplicates, unknown))
    }
}

pub(crate) fn parse(body: &[u8], format: Format, kind: &str) -> Result<Parsed, Status> {
    read(body, format).map_err(|why| unrecognized(kind, body, &why))
}

/// Like [`parse`]; the error is the reason only.
pub(crate) fn read(body: &[u8], format: Format) -> Result<Parsed, String> {
    match format {
        Format::Json { .. } => {
            let (value, duplicates) = json::decode(body).map_err(|why| not_json(&why))?;
            // Go decodes a null into the existing value and leaves it unchanged.
            let value = if value.is_null() { Value::Object(Map::new()) } else { value };
            check_object(&value)?;
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

/// Checks that a value can have a kind and a version.
fn check_object(value: &Value) -> Result<(), String> {
    if value.is_object() {
        return Ok(());
    }
    Err(not_json(&format!(
        "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}",
        go::json_kind(value)
    )))
}

/// Checks kind and version, which are read first and by a stricter decoder.
pub(crate) fn check_type_meta(value: &Value) -> Result<(), String> {
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

/// Returns the first bytes of a body, quoted as upstream does.
fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    let cut = &body[..body.len().min(LIMIT)];
    let dots = if body.len() > LIMIT { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(cut)),
        Some(_) => digest::hex(cut) + dots,
    }
}

/// Returns the error of a create or update whose object has another kind.
pub(crate) fn cannot_be_handled(gvk: Gvk<'_>, expected: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {expected}: {why}",
        gvk.kind, gvk.version
    ))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn expect_kind(
    cx: &RequestContext,
    parsed: &Parsed,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(), Status> {
    let (resource, value) = (&*cx.resource, &parsed.value);
    if !resource.is_custom() {
        return expect_builtin_kind(resource.gvk(), value);
    }
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    if kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(match validation {
            // The non-strict decoder fails one step later.
            FieldValidation::Ignore => cannot_be_handled(resource.gvk(), &resource.kind, &why),
            _ => unrecognized(&resource.kind, body, &why),
        });
    }
    if api_version != &*resource.api_version {
        check_in_own_version(cx, parsed, api_version, validation)?;
        return Err(version_mismatch(api_version, &resource.api_version));
    }
    if kind != &*resource.kind {
        let error = evenkeel_schema::field::Error::invalid(
            "kind",
            kind,
            format!("must be {}", resource.kind),
        );
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
        let named = GroupResource { group: &resource.group, resource: kind };
        return Err(Status::invalid(named, name, &[error]));
    }
    Ok(())
}

/// Validates an object of another version against the schema of that version first.
fn check_in_own_version(
    cx: &RequestContext,
    parsed: &Parsed,
    api_version: &str,
    validation: FieldValidation,
) -> Result<(), Status> {
    let resource = &*cx.resource;
    let gvk = Gvk::from_api_version(api_version, text(&parsed.value, "kind"));
    if (gvk.group, gvk.kind) != (&*resource.group, &*resource.kind) {
        return Ok(());
    }
    let unknown = match resource.custom().and_then(|custom| custom.schemas.get(api_version)) {
        Some(schema) => match schema.normalize(&mut parsed.value.clone(), Malformed::Reject) {
            Ok(unknown) => unknown,
            Err(_) => return Ok(()),
        },
        // Of an unknown version only the fields of every object are known.
        None => {
            let known = ["apiVersion", "kind", "metadata"];
            let fields = parsed.value.as_object().into_iter().flat_map(Map::keys);
            fields.filter(|field| !known.contains(&field.as_str())).cloned().collect()
        }
    };
    let unknown: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    report(cx, validation, problems(&parsed.duplicates, unknown))
        .map_err(|why| cannot_be_handled(gvk, &resource.kind, &why))
}

fn version_mismatch(given: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version \
         ({expected})"
    ))
}

/// Checks the kind of a built-in object, which may omit what the URL specifies.
fn expect_builtin_kind(expected: Gvk<'_>, value: &Value) -> Result<(), Status> {
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let given = match api_version {
        "" => Gvk { kind, ..expected },
        api_version => Gvk::from_api_version(api_version, kind),
    };
    if given == expected {
        return Ok(());
    }
    if kind == expected.kind
        && given.group == expected.group
        && evenkeel_types::lookup(given).is_some()
    {
        return Err(version_mismatch(api_version, &expected.api_version()));
    }
    Err(cannot_be_handled(given, expected.kind, &no_conversion(given, expected)))
}

/// Returns why an object of one built-in kind cannot be converted to another.
fn no_conversion(given: Gvk<'_>, expected: Gvk<'_>) -> String {
    if evenkeel_types::lookup(given).is_none() {
        // The line where upstream builds its scheme; clients only print it.
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

/// Checks that a patch has not changed the kind of a built-in object; a missing kind is allowed.
///
/// The error is the reason only.
fn check_patched_kind(expected: Gvk<'_>, value: &mut Value) -> Result<(), String> {
    let (api_version, kind) = (text(value, "apiVersion"), text(value, "kind"));
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let given = Gvk::from_api_version(api_version, kind);
    if !api_version.is_empty() && given != expected {
        return Err(no_conversion(given, expected));
    }
    set_kind(value, expected);
    Ok(())
}

fn conform_and_default(
    cx: &RequestContext,
    body: &[u8],
    format: Format,
    mut parsed: Parsed,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let resource = &*cx.resource;
    set_kind(&mut parsed.value, resource.gvk());
    let sent_empty = EmptyFields::find(resource.gvk(), &parsed.value);
    coerce_and_prune(resource, &mut parsed.value)
        .map(|unknown| match resource.is_custom() {
            true => problems(&parsed.duplicates, unknown),
            false => problems_in_source_order(body, format, &parsed.duplicates, unknown),
        })
        .and_then(|problems| report(cx, validation, problems))
        .map_err(|why| cannot_be_handled(resource.gvk(), &resource.kind, &why))?;
    let applied = resource.fill_defaults(&mut parsed.value, sent_empty);
    Ok(Decoded { object: parsed.value, applied })
}

fn set_kind(value: &mut Value, gvk: Gvk<'_>) {
    value["apiVersion"] = gvk.api_version().into();
    value["kind"] = gvk.kind.into();
}

/// Returns the problems of a body, each once: duplicate fields, then unknown fields.
fn problems(duplicates: &[String], unknown: Vec<String>) -> Vec<String> {
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {}", Quoted(path)));
    duplicates.chain(unknown).collect()
}

/// Like [`problems`], for the decoder of a typed object: it reports them in source order and does
/// not descend into unknown fields.
fn problems_in_source_order(
    body: &[u8],
    format: Format,
    duplicates: &[String],
    unknown: Vec<String>,
) -> Vec<String> {
    let mut left: BTreeSet<String> = problems(duplicates, unknown).into_iter().collect();
    if left.len() < 2 || !matches!(format, Format::Json { .. }) {
        return left.into_iter().collect();
    }
    let mut found = Vec::with_capacity(left.len());
    let mut ignored: Option<String> = None;
    for key in json::keys(body) {
        let within = |outer: &String| {
            key.path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        if ignored.as_ref().is_some_and(within) {
            continue;
        }
        let problem_kind = if key.duplicate { "duplicate" } else { "unknown" };
        let problem = left.take(&format!("{problem_kind} field {}", Quoted(&key.path)));
        if problem.is_some() && !key.duplicate {
            ignored = Some(key.path);
        }
        found.extend(problem);
    }
    found
}

/// Adds warnings or fails, depending on `fieldValidation`. The error is the reason.
fn report(
    cx: &RequestContext,
    validation: FieldValidation,
    problems: Vec<String>,
) -> Result<(), String> {
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            return Err(format!("strict decoding error: {}", problems.join(", ")));
        }
        FieldValidation::Strict | FieldValidation::Ignore => {}
        FieldValidation::Warn => problems.into_iter().for_each(|text| cx.warnings.add(text)),
    }
    Ok(())
}
