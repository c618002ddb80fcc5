//! Stage 4: from bytes to an object of the expected kind.
//!
//! Everything happens in the version of the request: the kind is checked, unknown and duplicate
//! fields are dropped and reported as `fieldValidation` asks, types are checked, defaults filled.

use std::collections::BTreeSet;

use evenkeel_kinds::defaults::{Applied, nil_or_empty_field};
use evenkeel_schema::metadata::Malformed;
use evenkeel_types::go::{self, Quoted};
use evenkeel_types::{Gvk, Type, conform, protobuf};
use serde_json::{Map, Value};

use crate::context::RequestContext;
use crate::json;
use crate::negotiate::{self, Format};
use crate::object::{Metadata as _, dedup_owners, set_meta};
use crate::query::FieldValidation;
use crate::registry::custom;
use crate::registry::resource::{Resource, TypeInfo};
use crate::status::{GroupResource, Status};

/// An object as the request gives it: of the right kind, known fields only, defaulted.
#[derive(Clone)]
pub(crate) struct Decoded {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Decoded {
    /// An object that has been through this stage before, with changes the server made.
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

/// A body of one of the accepted formats, and the keys it gives twice.
pub(crate) struct Parsed {
    pub(crate) value: Value,
    duplicates: Vec<String>,
}

/// Reads the object of a create or update.
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
    Ok(decoded)
}

/// Owners that are given twice count once, and the client hears of it.
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

/// Reads a body of another built-in kind: Scale, Eviction, DeleteOptions and their like.
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
    Ok(parsed.value)
}

/// What a patch has made, and how strictly it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Patched<'a> {
    /// Keys the patch gives twice.
    pub(crate) duplicates: &'a [String],
    pub(crate) validation: FieldValidation,
    /// A strategic merge ends in untyped values that are put into the type one by one; the other
    /// patches end in a text that is decoded.
    pub(crate) strategic: bool,
}

impl Patched<'_> {
    /// An object of the request's resource. The error is only the reason.
    ///
    /// The kind of a custom object is not looked at: whoever asks has to.
    pub(crate) fn object(self, cx: &RequestContext, mut value: Value) -> Result<Decoded, String> {
        let resource = &*cx.resource;
        let sent_empty = is_sent_empty(resource, &value);
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
        let applied = Applied { sent_empty, ..fill_defaults(resource, &mut value) };
        Ok(Decoded { object: value, applied })
    }

    /// An object of another built-in kind. The error is only the reason.
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
            evenkeel_types::restore(ty, value).map_err(|why| why.to_string())?;
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

/// As [`parse`]; the error is only the reason.
pub(crate) fn read(body: &[u8], format: Format) -> Result<Parsed, String> {
    match format {
        Format::Json { .. } => {
            let (value, duplicates) = json::decode(body).map_err(|why| not_json(&why))?;
            // Go decodes a null into whatever it has, and leaves that as it is.
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

/// What has a kind and a version is an object.
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

/// The kind and the version are read before anything else, and by a stricter decoder.
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

/// What a create or update says of an object that is none of its kind.
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
            // The decoder that is not strict goes one step further before it gives up.
            FieldValidation::Ignore => cannot_be_handled(resource.gvk(), &resource.kind, &why),
            _ => unrecognized(&resource.kind, body, &why),
        });
    }
    if api_version != &*resource.api_version {
        check_in_its_own_version(cx, parsed, api_version, validation)?;
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

/// An object of another version is first held against the schema of that one.
fn check_in_its_own_version(
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
        // Of a version that is not there nothing is known but what every object has.
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

/// Built-in kinds may leave out what the URL says.
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
    let sent_empty = is_sent_empty(resource, &parsed.value);
    coerce_and_prune(resource, &mut parsed.value)
        .map(|unknown| match resource.is_custom() {
            true => problems(&parsed.duplicates, unknown),
            false => problems_in_source_order(body, format, &parsed.duplicates, unknown),
        })
        .and_then(|problems| report(cx, validation, problems))
        .map_err(|why| cannot_be_handled(resource.gvk(), &resource.kind, &why))?;
    let applied = Applied { sent_empty, ..fill_defaults(resource, &mut parsed.value) };
    Ok(Decoded { object: parsed.value, applied })
}

fn set_kind(value: &mut Value, gvk: Gvk<'_>) {
    value["apiVersion"] = gvk.api_version().into();
    value["kind"] = gvk.kind.into();
}

/// See [`nil_or_empty_field`]. To be asked before the object is given its shape.
pub(crate) fn is_sent_empty(resource: &Resource, value: &Value) -> bool {
    let Some(place) = nil_or_empty_field(resource.gvk()) else { return false };
    match value.pointer(place.parent).and_then(|parent| parent.get(place.field)) {
        Some(Value::Array(items)) => !place.is_map && items.is_empty(),
        Some(Value::Object(map)) => place.is_map && map.is_empty(),
        _ => false,
    }
}

/// Brings an object into the shape of its kind; tells which fields had to go, as a strict
/// decoder words it. The error is only the reason.
pub(crate) fn coerce_and_prune(
    resource: &Resource,
    value: &mut Value,
) -> Result<Vec<String>, String> {
    match &resource.type_info {
        TypeInfo::Builtin(builtin) => conform_to(builtin.ty, value),
        TypeInfo::Custom(custom) => {
            match value.get_mut("metadata") {
                // Upstream reads it by way of JSON, where Go writes the float 1.0 as 1.
                Some(metadata @ Value::Object(_)) => json::normalize_floats(metadata),
                None | Some(Value::Null) => value["metadata"] = Value::Object(Map::new()),
                Some(other) => {
                    return Err(format!(
                        "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                        go::json_kind(other)
                    ));
                }
            }
            custom
                .schema
                .normalize(value, Malformed::Reject)
                .map(|paths| paths.iter().map(|path| format!("unknown field {path:?}")).collect())
                .map_err(|why| why.to_string())
        }
    }
}

pub(crate) fn fill_defaults(resource: &Resource, value: &mut Value) -> Applied {
    match &resource.type_info {
        TypeInfo::Builtin(_) if custom::is_crd(resource) => {
            evenkeel_schema::default_crd(value);
            Applied::default()
        }
        TypeInfo::Builtin(_) => evenkeel_kinds::defaults::apply(resource.gvk(), value),
        TypeInfo::Custom(custom) => {
            custom.schema.default(value);
            Applied::default()
        }
    }
}

fn conform_to(ty: &'static Type, value: &mut Value) -> Result<Vec<String>, String> {
    let resets_managed_fields = value.meta("managedFields") == Some(&Value::Array(Vec::new()));
    let problems = conform(ty, value).map_err(|why| why.to_string())?;
    if resets_managed_fields {
        // Empty, so the type leaves it out; but it is a wish.
        set_meta(value, "managedFields", Some(Value::Array(Vec::new())));
    }
    Ok(problems.into_iter().map(|problem| problem.to_string()).collect())
}

/// What is wrong with a body, each fault once: what is given twice, then what nobody knows.
fn problems(duplicates: &[String], unknown: Vec<String>) -> Vec<String> {
    let duplicates = duplicates.iter().map(|path| format!("duplicate field {}", Quoted(path)));
    duplicates.chain(unknown).collect()
}

/// As [`problems`], for the decoder of a typed object: it comes upon them as they are written, and
/// does not look into what it does not know.
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

/// Warns of or refuses what should not be there. The error is the reason for refusing.
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
