//! Validates PersistentVolumeClaims.

use evenkeel_schema::metadata::{check_annotations, check_labels};
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Ty, diff};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, resources};
use crate::names::NameRule;

pub(super) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(super) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Checks that are relaxed because the stored object already violates them.
struct Options {
    selector_values: SelectorValues,
    allow_invalid_api_group: bool,
}

const CREATE: Options =
    Options { selector_values: SelectorValues::Validated, allow_invalid_api_group: false };

pub(super) fn create(errs: &mut Errors, claim: &Value) {
    validate(errs, claim, &CREATE);
}

fn validate(errs: &mut Errors, claim: &Value, opts: &Options) {
    builtin_create(errs, claim, true, NameRule::Subdomain);
    spec(errs, Path::root("spec"), claim.at("spec"), opts);
}

/// Validates a PersistentVolumeClaim in a StatefulSet.
pub(super) fn claim_spec(errs: &mut Errors, path: Path<'_>, claim: &Value) {
    spec(errs, path, claim, &CREATE);
}

/// Validates a PersistentVolumeClaim template of an ephemeral volume. Only labels and annotations
/// are allowed in its metadata.
pub(super) fn template(errs: &mut Errors, path: Path<'_>, template: &Value) {
    let meta = template.at("metadata");
    {
        let path = path.child("metadata");
        check_annotations(meta.at("annotations"), path.child("annotations"), errs.list());
        check_labels(meta.at("labels"), path.child("labels"), errs.list());
        // In the order of the internal struct, with its field names.
        for (field, shown) in [
            ("name", "name"),
            ("generateName", "generateName"),
            ("namespace", "namespace"),
            ("selfLink", "selfLink"),
            ("uid", "uID"),
            ("resourceVersion", "resourceVersion"),
            ("generation", "generation"),
            ("creationTimestamp", "creationTimestamp"),
            ("deletionTimestamp", "deletionTimestamp"),
            ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
            ("ownerReferences", "ownerReferences"),
            ("finalizers", "finalizers"),
            ("managedFields", "managedFields"),
        ] {
            let value = meta.at(field);
            let empty = value.as_str() == Some("")
                || value.as_i64() == Some(0)
                || value.as_array().is_some_and(Vec::is_empty);
            if !value.is_null() && !empty {
                errs.forbidden(path.child(shown), "cannot be set");
            }
        }
    }
    spec(errs, path.child("spec"), template.at("spec"), &CREATE);
}

/// Validates access modes, also of PersistentVolumes.
pub(super) fn access_modes(errs: &mut Errors, path: Path<'_>, modes: &Value) {
    let (mut exclusive, mut other) = (false, false);
    for mode in modes.texts("accessModes") {
        if !ACCESS_MODES.contains(&mode) {
            errs.not_supported(path, mode, ACCESS_MODES);
        } else if mode == "ReadWriteOncePod" {
            exclusive = true;
        } else {
            other = true;
        }
    }
    if exclusive && other {
        errs.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn spec(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &Options) {
    if spec.list("accessModes").is_empty() {
        errs.required(path.child("accessModes"), "at least 1 access mode is required");
    }
    let selector = spec.at("selector");
    checks::label_selector(errs, path.child("selector"), selector, opts.selector_values);
    access_modes(errs, path.child("accessModes"), spec);
    {
        let path = path.child("resources");
        let path = path.key("storage");
        match Quantity::from_json(spec.at("resources").at("requests").at("storage")) {
            None => errs.required(path, ""),
            Some(storage) => resources::positive(errs, path, &storage),
        }
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        checks::dns1123_subdomain(errs, path.child("storageClassName"), class);
    }
    let mode = spec.at("volumeMode");
    checks::one_of_if_set(errs, path.child("volumeMode"), mode, VOLUME_MODES);
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for (field, source) in [("dataSource", source), ("dataSourceRef", reference)] {
        if !source.is_null() {
            data_source(errs, path.child(field), source, opts);
        }
    }
    // Upstream passes the path as the value, which prints as an empty object.
    const SHOWN: &str = "{}";
    if !reference.text("namespace").is_empty() {
        if !source.is_null() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errs.invalid_printed(path, SHOWN, detail);
        }
    } else if !source.is_null() && !reference.is_null() {
        let same = source.at("apiGroup") == reference.at("apiGroup")
            && source.text("kind") == reference.text("kind")
            && source.text("name") == reference.text("name");
        if !same {
            errs.invalid_printed(path, SHOWN, "must match dataSourceRef");
        }
    }
    let class = spec.text("volumeAttributesClassName");
    if !class.is_empty() {
        checks::dns1123_subdomain(errs, path.child("volumeAttributesClassName"), class);
    }
}

fn data_source(errs: &mut Errors, path: Path<'_>, source: &Value, opts: &Options) {
    checks::required_text(errs, path, source, "name");
    checks::required_text(errs, path, source, "kind");
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errs.invalid(path, kind, detail);
    }
    if !group.is_empty() && !opts.allow_invalid_api_group {
        checks::dns1123_subdomain(errs, path.child("apiGroup"), group);
    }
    let namespace = source.text("namespace");
    if !namespace.is_empty() {
        checks::dns1123_label(errs, path.child("namespace"), namespace);
    }
}

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let opts = Options {
        selector_values: checks::selector_values(old_spec.at("selector")),
        allow_invalid_api_group: ["dataSource", "dataSourceRef"]
            .into_iter()
            .any(|field| old_spec.at(field).has("apiGroup")),
    };
    builtin_update(errs, new, old);
    validate(errs, new, &opts);

    let munged = munge(errs, new, old);
    let mut before = old_spec.clone();
    if old_spec.text("volumeName").is_empty()
        && let Some(before) = before.as_object_mut()
    {
        before.insert("volumeName".to_owned(), spec.at("volumeName").clone());
    }
    let ty = Ty::Struct(printed::PERSISTENT_VOLUME_CLAIM_SPEC);
    if !printed::same(ty, &munged, &before) {
        let difference =
            diff::unified(&printed::pretty(ty, &before), &printed::pretty(ty, &munged));
        let detail = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{difference}"
        );
        errs.forbidden(Path::root("spec"), detail);
    }
    size(errs, new, old);
    let (mode, old_mode) = (spec.at("volumeMode"), old_spec.at("volumeMode"));
    if mode != old_mode {
        errs.invalid(Path::root("volumeMode"), mode.clone(), checks::IMMUTABLE);
    }
    attributes_class(errs, spec, old);
}

/// Returns the new spec with the mutable fields reset to the old values.
fn munge(errs: &mut Errors, new: &Value, old: &Value) -> Value {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let annotation = |claim: &'_ Value| -> Option<String> {
        claim.at("metadata").at("annotations").text_opt(BETA_CLASS).map(str::to_owned)
    };
    let (now, before) = (annotation(new), annotation(old));
    let class = spec.text_opt("storageClassName");
    let had_class = old_spec.has("storageClassName");
    let mut munged = spec.clone();
    let Some(map) = munged.as_object_mut() else { return munged };
    let upgraded = before.is_some()
        && !had_class
        && class == before.as_deref()
        && (now.is_none() || now == before);
    if upgraded {
        map.remove("storageClassName");
    } else {
        if now.clone().unwrap_or_default() != before.clone().unwrap_or_default() {
            let path = Path::root("metadata");
            let path = path.child("annotations");
            errs.invalid(path.child(BETA_CLASS), now.unwrap_or_default(), checks::IMMUTABLE);
        }
        let first_class =
            !had_class && class.is_some_and(|class| before.is_none_or(|before| class == before));
        if first_class {
            map.remove("storageClassName");
        }
    }
    if new.at("status").text("phase") == "Bound" {
        if let Some(requests) = map
            .get_mut("resources")
            .and_then(|r| r.get_mut("requests"))
            .and_then(Value::as_object_mut)
        {
            let storage = old_spec.at("resources").at("requests").at("storage").clone();
            requests.insert("storage".to_owned(), storage);
        }
        let class = old_spec.at("volumeAttributesClassName").clone();
        map.insert("volumeAttributesClassName".to_owned(), class);
    }
    munged
}

fn size(errs: &mut Errors, new: &Value, old: &Value) {
    let storage = |list: &Value| Quantity::from_json(list.at("storage")).unwrap_or(Quantity::ZERO);
    let now = storage(new.at("spec").at("resources").at("requests"));
    let before = storage(old.at("spec").at("resources").at("requests"));
    if now < before && now <= storage(old.at("status").at("capacity")) {
        let path = Path::root("spec");
        let path = path.child("resources");
        let path = path.child("requests");
        errs.forbidden(path.child("storage"), "field can not be less than status.capacity");
    }
}

fn attributes_class(errs: &mut Errors, spec: &Value, old: &Value) {
    const FIELD: &str = "volumeAttributesClassName";
    if spec.at(FIELD) == old.at("spec").at(FIELD)
        || !old.at("status").has("currentVolumeAttributesClassName")
    {
        return;
    }
    let path = Path::root("spec");
    let what = match spec.text_opt(FIELD) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail = format!(
        "update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    errs.forbidden(path.child(FIELD), detail);
}

pub(super) fn status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    if new.at("metadata").text("resourceVersion").is_empty() {
        errs.required(Path::root("resourceVersion"), "");
    }
    if new.at("spec").list("accessModes").is_empty() {
        errs.required(Path::root("Spec").child("accessModes"), "");
    }
    let path = Path::root("status");
    let status = new.at("status");
    for (name, value) in status.entries("capacity") {
        basic_resource(errs, path.child("capacity").key(name), value);
    }
    const RESIZE: &[&str] = &[
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    for (name, value) in status.entries("allocatedResourceStatuses") {
        let path = path.child("allocatedResourceStatuses");
        resource_key(errs, path, name);
        if !value.as_str().is_some_and(|v| RESIZE.contains(&v)) {
            errs.not_supported(path, name, RESIZE);
        }
    }
    for (name, value) in status.entries("allocatedResources") {
        let path = path.child("allocatedResources");
        let before = errs.len();
        resource_key(errs, path, name);
        if errs.len() == before {
            basic_resource(errs, path.key(name), value);
        }
    }
}

fn resource_key(errs: &mut Errors, path: Path<'_>, name: &str) {
    let before = errs.len();
    checks::qualified_name(errs, path, name);
    if errs.len() == before && resources::is_native(name) && name != "storage" {
        errs.not_supported(path, name, &["storage"]);
    }
}

pub(super) fn basic_resource(errs: &mut Errors, path: Path<'_>, value: &Value) {
    if let Some(amount) = Quantity::from_json(value).map(|amount| amount.value()).filter(|v| *v < 0)
    {
        errs.invalid(path, amount, "must be a valid resource quantity");
    }
}
