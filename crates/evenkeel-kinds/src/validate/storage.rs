//! Validates StorageClasses, CSI kinds and VolumeAttachments.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use evenkeel_schema::metadata;
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::sources;
use super::{builtin_create, builtin_update, persistent_volume, resources};
use crate::names::NameRule;

const PARAMETERS_MAX: usize = 512;
const MAX_BYTES: usize = 256 * 1024;

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    match kind {
        "StorageClass" => storage_class(errs, object),
        "VolumeAttributesClass" => attributes_class(errs, object),
        "VolumeAttachment" => attachment(errs, object),
        "CSINode" => csi_node(errs, object),
        "CSIDriver" => {
            builtin_create(errs, object, false, NameRule::Subdomain);
            csi_driver(errs, object.at("spec"));
        }
        "CSIStorageCapacity" => capacity(errs, object, SelectorValues::Validated),
        _ => {}
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "StorageClass" => {
            storage_class(errs, new);
            builtin_update(errs, new, old);
            for (field, ty) in [
                ("parameters", Ty::Map(&Ty::Str)),
                ("provisioner", Ty::Str),
                ("reclaimPolicy", Ty::Opt(&Ty::Str)),
                ("volumeBindingMode", Ty::Opt(&Ty::Str)),
            ] {
                checks::immutable(errs, Path::root(field), ty, new.at(field), old.at(field));
            }
        }
        "VolumeAttributesClass" => {
            builtin_update(errs, new, old);
            if new.text("driverName") != old.text("driverName") {
                errs.forbidden(Path::root("driverName"), "updates to driverName are forbidden.");
            }
            if new.at("parameters") != old.at("parameters") {
                errs.forbidden(Path::root("parameters"), "updates to parameters are forbidden.");
            }
            attributes_class(errs, new);
        }
        "VolumeAttachment" => {
            attachment(errs, new);
            let ty = Ty::Struct(printed::VOLUME_ATTACHMENT_SPEC);
            checks::immutable(errs, Path::root("spec"), ty, new.at("spec"), old.at("spec"));
        }
        "CSINode" => csi_node_update(errs, new, old),
        "CSIDriver" => {
            builtin_update(errs, new, old);
            let path = Path::root("spec");
            let (spec, before) = (new.at("spec"), old.at("spec"));
            csi_driver(errs, spec);
            let (now, was) = (spec.at("attachRequired"), before.at("attachRequired"));
            checks::immutable(errs, path.child("attachedRequired"), Ty::Opt(&Ty::Bool), now, was);
            let (now, was) = (spec.at("volumeLifecycleModes"), before.at("volumeLifecycleModes"));
            let modes = Ty::List(&Ty::Str);
            checks::immutable(errs, path.child("volumeLifecycleModes"), modes, now, was);
        }
        "CSIStorageCapacity" => {
            capacity(errs, new, checks::selector_values(old.at("nodeTopology")));
            builtin_update(errs, new, old);
            let (now, was) = (new.at("nodeTopology"), old.at("nodeTopology"));
            checks::immutable_selector(errs, Path::root("nodeTopology"), now, was);
            let class = new.text("storageClassName");
            if class != old.text("storageClassName") {
                errs.invalid(Path::root("storageClassName"), class, checks::IMMUTABLE);
            }
        }
        _ => builtin_update(errs, new, old),
    }
}

fn capacity(errs: &mut Errors, object: &Value, values: SelectorValues) {
    builtin_create(errs, object, true, NameRule::Subdomain);
    let topology = object.at("nodeTopology");
    checks::label_selector(errs, Path::root("nodeTopology"), topology, values);
    let class = object.text("storageClassName");
    checks::dns1123_subdomain(errs, Path::root("storageClassName"), class);
    if let Some(capacity) = Quantity::from_json(object.at("capacity")) {
        resources::non_negative(errs, Path::root("capacity"), &capacity);
    }
}

fn storage_class(errs: &mut Errors, class: &Value) {
    builtin_create(errs, class, false, NameRule::Subdomain);
    provisioner(errs, Path::root("provisioner"), class.text("provisioner"));
    parameters(errs, class.at("parameters"), true);
    let policy = class.text("reclaimPolicy");
    if !policy.is_empty() && !matches!(policy, "Delete" | "Retain") {
        errs.not_supported(Path::root("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let path = Path::root("volumeBindingMode");
    const MODES: &[&str] = &["Immediate", "WaitForFirstConsumer"];
    if class.has("volumeBindingMode") {
        checks::one_of_if_set(errs, path, class.at("volumeBindingMode"), MODES);
    } else {
        errs.required(path, "");
    }
    topologies(errs, class.list("allowedTopologies"));
}

fn provisioner(errs: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        errs.required(path, "");
    } else {
        let lower = name.to_lowercase();
        checks::qualified_name(errs, path, &lower);
    }
}

fn parameters(errs: &mut Errors, parameters: &Value, may_be_empty: bool) {
    let path = Path::root("parameters");
    let entries = parameters.as_object().map(serde_json::Map::len).unwrap_or_default();
    if entries > PARAMETERS_MAX {
        errs.too_long(path, PARAMETERS_MAX);
        return;
    }
    if parameters.has("") {
        errs.invalid(path, "", "field can not be empty.");
    }
    if metadata::total_bytes(parameters) > MAX_BYTES {
        errs.too_long(path, MAX_BYTES);
    }
    if !may_be_empty && entries == 0 {
        errs.required(path, "must contain at least one key/value pair");
    }
}

fn topologies(errs: &mut Errors, terms: &[Value]) {
    let path = Path::root("allowedTopologies");
    // If several expressions have the same key, the last one is used.
    let shape = |term: &Value| -> BTreeMap<String, BTreeSet<String>> {
        let values = |e: &Value| e.texts("values").map(str::to_owned).collect();
        let expressions = term.list("matchLabelExpressions").iter();
        expressions.map(|e| (e.text("key").to_owned(), values(e))).collect()
    };
    let mut shapes = BTreeMap::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i);
        let at = path.child("matchLabelExpressions");
        let mut keys = HashSet::new();
        for (j, expression) in term.list("matchLabelExpressions").iter().enumerate() {
            let at = at.index(j);
            let values: Vec<&str> = expression.texts("values").collect();
            if values.is_empty() {
                errs.required(at.child("values"), "");
            }
            let mut seen = HashSet::new();
            for (k, value) in values.iter().enumerate() {
                if !seen.insert(value) {
                    errs.duplicate(at.child("values").index(k), *value);
                }
            }
            let key = expression.text("key");
            checks::qualified_name(errs, at.child("key"), key);
            if !keys.insert(key) {
                errs.duplicate(at.child("key"), key);
            }
        }
        // Upstream compares with as many empty terms as there are terms, then with the previous
        // terms.
        let own = shape(term);
        let empty = if own.is_empty() { terms.len() } else { 0 };
        let earlier = shapes.entry(own).or_insert(0);
        for _ in 0..empty + *earlier {
            if errs.is_full(64) {
                break;
            }
            errs.duplicate(at, "");
        }
        *earlier += 1;
    }
}

fn attributes_class(errs: &mut Errors, class: &Value) {
    builtin_create(errs, class, false, NameRule::Subdomain);
    provisioner(errs, Path::root("driverName"), class.text("driverName"));
    parameters(errs, class.at("parameters"), false);
}

fn attachment(errs: &mut Errors, attachment: &Value) {
    builtin_create(errs, attachment, false, NameRule::Subdomain);
    let path = Path::root("spec");
    let spec = attachment.at("spec");
    sources::csi_driver_name(errs, path.child("attacher"), spec.text("attacher"));
    let source = spec.at("source");
    let (inline, name) = (source.at("inlineVolumeSpec"), source.text_opt("persistentVolumeName"));
    {
        let path = path.child("source");
        const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (inline.is_null(), name) {
            (true, None) => errs.required(path, ONE),
            (false, Some(_)) => errs.forbidden(path, ONE),
            (true, Some("")) => {
                let detail = "must specify non empty persistentVolumeName";
                errs.required(path.child("persistentVolumeName"), detail);
            }
            (true, Some(_)) => {}
            (false, None) => {
                let path = path.child("inlineVolumeSpec");
                let values = SelectorValues::Validated;
                persistent_volume::spec(errs, path, inline, "", true, values);
            }
        }
    }
    checks::dns1123_subdomain(errs, path.child("nodeName"), spec.text("nodeName"));
    let path = Path::root("status");
    let status = attachment.at("status");
    if metadata::total_bytes(status.at("attachmentMetadata")) > MAX_BYTES {
        errs.too_long(path.child("attachmentMetadata"), MAX_BYTES);
    }
    for field in ["attachError", "detachError"] {
        let error = status.at(field);
        let path = path.child(field);
        if error.text("message").len() > 1024 {
            errs.too_long(path.child("message"), MAX_BYTES);
        }
        if let Some(code) = error.int("errorCode").filter(|code| *code < 0) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errs.invalid(path.child("errorCode"), code, detail);
        }
    }
    if let Some(name) = name {
        checks::dns1123_subdomain(errs, Path::root("spec.source.persistentVolumeName"), name);
    }
}

fn csi_node(errs: &mut Errors, node: &Value) {
    builtin_create(errs, node, false, NameRule::Subdomain);
    let path = Path::root("spec");
    let path = path.child("drivers");
    let mut names = HashSet::new();
    for (i, driver) in node.at("spec").list("drivers").iter().enumerate() {
        let path = path.index(i);
        let name = driver.text("name");
        sources::csi_driver_name(errs, path.child("name"), name);
        let id = driver.text("nodeID");
        if id.is_empty() {
            errs.required(path.child("nodeID"), "");
        }
        if id.len() > 256 {
            errs.invalid(path.child("nodeID"), id, "must be 256 characters or less");
        }
        let count = driver.at("allocatable").int("count");
        checks::non_negative(errs, path.child("allocatable").child("count"), count);
        if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        }
        let mut keys = HashSet::new();
        for key in driver.texts("topologyKeys") {
            if key.is_empty() {
                errs.required(path, "");
            }
            if !keys.insert(key) {
                errs.duplicate(path, key);
            }
            checks::qualified_name(errs, path, key);
        }
    }
}

fn csi_node_update(errs: &mut Errors, new: &Value, old: &Value) {
    csi_node(errs, new);
    let path = Path::root("spec");
    let path = path.child("drivers");
    let ty = Ty::Struct(printed::CSI_NODE_DRIVER);
    let without_count = |driver: &Value| -> Value {
        let mut driver = driver.clone();
        if let Some(driver) = driver.as_object_mut() {
            driver.remove("allocatable");
        }
        driver
    };
    let mut by_name: HashMap<&str, Vec<Value>> = HashMap::new();
    for now in new.at("spec").list("drivers") {
        by_name.entry(now.text("name")).or_default().push(without_count(now));
    }
    for before in old.at("spec").list("drivers") {
        // Names of stored drivers are unique.
        let Some(drivers) = by_name.remove(before.text("name")) else { continue };
        let before = without_count(before);
        for now in drivers.iter().filter(|now| !printed::same(ty, now, &before)) {
            errs.invalid_printed(path, Printed(ty, now), checks::IMMUTABLE);
        }
    }
}

fn csi_driver(errs: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.has(field) {
            errs.required(path.child(shown), "");
        }
    }
    const POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
    let policy = spec.at("fsGroupPolicy");
    checks::one_of_if_set(errs, path.child("fsGroupPolicy"), policy, POLICIES);
    let mut audiences = HashSet::new();
    for (i, request) in spec.list("tokenRequests").iter().enumerate() {
        let path = path.child("tokenRequests");
        let path = path.index(i);
        let audience = request.text("audience");
        if !audiences.insert(audience) {
            errs.duplicate(path.child("audience"), audience);
        } else if request.has("expirationSeconds") {
            super::volume::token_expiration(errs, path, request);
        }
    }
    for mode in spec.texts("volumeLifecycleModes") {
        if !matches!(mode, "Persistent" | "Ephemeral") {
            let path = path.child("volumeLifecycleModes");
            errs.not_supported(path, mode, &["Persistent", "Ephemeral"]);
        }
    }
    if !spec.has("seLinuxMount") {
        errs.required(path.child("seLinuxMount"), "");
    }
    if let Some(period) = spec.int("nodeAllocatableUpdatePeriodSeconds").filter(|p| *p < 10) {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errs.invalid(path, period, "must be greater than or equal to 10 seconds");
    }
    if let Some(flag) = spec.flag("serviceAccountTokenInSecrets")
        && spec.list("tokenRequests").is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errs.invalid(path.child("serviceAccountTokenInSecrets"), flag, detail);
    }
}
