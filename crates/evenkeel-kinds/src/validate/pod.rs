//! Validates Pods on create and update.

use std::collections::{HashMap, HashSet};

use evenkeel_schema::metadata::{check_annotations, check_labels};
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Ty, diff};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, container, resources, scheduling, security};
use crate::names::NameRule;

mod annotations;
pub(super) mod resize;
mod spec;
mod status;
pub(super) mod subresources;

pub(super) use status::status_update;

/// Options that relax checks for stored values and distinguish Pods from templates.
#[derive(Clone, Copy)]
pub(super) struct PodOptions {
    /// Whether this is a Pod and not a template.
    pub(super) is_pod: bool,
    /// Values in selectors of pod affinity.
    pub(super) affinity_values: SelectorValues,
    /// Values in required node affinity.
    pub(super) node_affinity_values: SelectorValues,
    pub(super) allow_invalid_spread_selector: bool,
    pub(super) allow_indivisible_huge_pages: bool,
    pub(super) allow_invalid_deletion_cost: bool,
    pub(super) allow_host_sysctls: bool,
    pub(super) allow_selinux_mount: bool,
    pub(super) allow_init_restart_on_resize: bool,
}

impl PodOptions {
    pub(super) const CREATE: Self = Self {
        is_pod: false,
        affinity_values: SelectorValues::Validated,
        node_affinity_values: SelectorValues::Validated,
        allow_invalid_spread_selector: false,
        allow_indivisible_huge_pages: false,
        allow_invalid_deletion_cost: false,
        allow_host_sysctls: false,
        allow_selinux_mount: false,
        allow_init_restart_on_resize: false,
    };

    /// Returns the options for an update. `old` is a Pod or a template, with `metadata` and `spec`.
    pub(super) fn for_update(old: &Value) -> Self {
        let spec = old.at("spec");
        let affinity = spec.at("affinity");
        let huge_pages = |c: &Value| {
            let resources = c.at("resources");
            ["limits", "requests"]
                .into_iter()
                .any(|list| resources.entries(list).any(|(name, _)| resources::is_huge_page(name)))
        };
        Self {
            is_pod: false,
            affinity_values: affinity_values(affinity),
            node_affinity_values: scheduling::node_selector_values(
                affinity.at("nodeAffinity").at(scheduling::REQUIRED),
            ),
            allow_invalid_spread_selector: spec.list("topologySpreadConstraints").iter().any(|c| {
                checks::selector_values(c.at("labelSelector")) == SelectorValues::AllowInvalid
            }),
            allow_indivisible_huge_pages: spec.list("containers").iter().any(huge_pages)
                && has_indivisible_huge_pages(spec),
            allow_invalid_deletion_cost: annotations::has_invalid_deletion_cost(old.at("metadata")),
            allow_host_sysctls: spec
                .at("securityContext")
                .list("sysctls")
                .iter()
                .any(|s| security::host_sysctl(s.text("name"), spec).is_some()),
            allow_selinux_mount: spec.at("securityContext").has("seLinuxChangePolicy"),
            allow_init_restart_on_resize: spec.list("initContainers").iter().any(|c| {
                c.text("restartPolicy") != "Always"
                    && c.list("resizePolicy")
                        .iter()
                        .any(|p| p.text("restartPolicy") == "RestartContainer")
            }),
        }
    }

    fn for_pod(self) -> Self {
        Self { is_pod: true, ..self }
    }
}

fn affinity_values(affinity: &Value) -> SelectorValues {
    let mut errs = Errors::new();
    let mut pods = Value::Object(serde_json::Map::new());
    if let (Some(pods), Some(affinity)) = (pods.as_object_mut(), affinity.as_object()) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            if let Some(terms) = affinity.get(kind) {
                pods.insert(kind.to_owned(), terms.clone());
            }
        }
    }
    let strict = PodOptions::CREATE;
    scheduling::affinity(&mut errs, Path::root("affinity"), &pods, &strict);
    if errs.is_empty() { SelectorValues::Validated } else { SelectorValues::AllowInvalid }
}

fn has_indivisible_huge_pages(spec: &Value) -> bool {
    spec.list("containers").iter().chain(spec.list("initContainers")).any(|container| {
        ["limits", "requests"].into_iter().any(|list| {
            container.at("resources").entries(list).any(|(name, value)| {
                let size =
                    name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok());
                let amount = Quantity::from_json(value);
                match (size, amount) {
                    (Some(size), Some(amount)) if size.value() > 0 => {
                        amount.value() % size.value() != 0
                    }
                    _ => false,
                }
            })
        })
    })
}

pub(super) fn create(errs: &mut Errors, pod: &Value) {
    let opts = PodOptions::CREATE.for_pod();
    meta_and_spec(errs, pod, &opts);
    let spec = pod.at("spec");
    let path = Path::root("spec");
    if !spec.list("ephemeralContainers").is_empty() {
        errs.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errs.forbidden(path.child("nodeName"), detail);
    }
    annotations::match_profiles(errs, path, pod.at("metadata"), spec);
}

/// Validates a pod template, without the additional rules of the object that contains it.
pub(super) fn template(errs: &mut Errors, path: Path<'_>, template: &Value, opts: &PodOptions) {
    let (meta, pod_spec) = (template.at("metadata"), template.at("spec"));
    check_labels(meta.at("labels"), path.child("labels"), errs.list());
    template_annotations(errs, path, template, opts);
    spec::spec(errs, path.child("spec"), pod_spec, "", false, opts);
    annotations::match_profiles(errs, path.child("spec"), meta, pod_spec);
    if !pod_spec.list("ephemeralContainers").is_empty() {
        let path = path.child("spec");
        let detail = "ephemeral containers not allowed in pod template";
        errs.forbidden(path.child("ephemeralContainers"), detail);
    }
}

pub(super) fn template_annotations(
    errs: &mut Errors,
    path: Path<'_>,
    template: &Value,
    opts: &PodOptions,
) {
    let meta = template.at("metadata");
    check_annotations(meta.at("annotations"), path.child("annotations"), errs.list());
    annotations::pod(errs, path.child("annotations"), meta, template.at("spec"), opts);
}

fn meta_and_spec(errs: &mut Errors, pod: &Value, opts: &PodOptions) {
    let (meta, pod_spec) = (pod.at("metadata"), pod.at("spec"));
    builtin_create(errs, pod, true, NameRule::Subdomain);
    let metadata = Path::root("metadata");
    annotations::pod(errs, metadata.child("annotations"), meta, pod_spec, opts);
    let path = Path::root("spec");
    let mirror = meta.at("annotations").has(annotations::MIRROR);
    spec::spec(errs, path, pod_spec, meta.text("name"), mirror, opts);
    if pod_spec.text("serviceAccountName").is_empty() {
        for (i, volume) in pod_spec.list("volumes").iter().enumerate() {
            for (j, source) in volume.at("projected").list("sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    let path = path.child("volumes");
                    let path = path.index(i);
                    let path = path.child("projected");
                    let path = path.child("sources");
                    let detail = "must not be specified when serviceAccountName is not set";
                    errs.forbidden(path.index(j).child("serviceAccountToken"), detail);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in pod_spec.list(list).iter().enumerate() {
            container::image_whitespace(errs, path.child(list).index(i), container);
        }
    }
}

const UPDATABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value) {
    let opts = PodOptions::for_update(old).for_pod();
    builtin_update(errs, new, old);
    meta_and_spec(errs, new, &opts);
    annotations::update(errs, new, old, &opts);

    let path = Path::root("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    for list in ["containers", "initContainers"] {
        let (now, before) = (spec.list(list), old_spec.list(list));
        if now.len() != before.len() {
            errs.forbidden(path.child(list), "pod updates may not add or remove containers");
            return;
        }
        for (i, container) in now.iter().enumerate() {
            let path = path.child(list);
            checks::required_text(errs, path.index(i), container, "image");
            container::image_whitespace(errs, path.index(i), container);
        }
    }
    match (spec.int("activeDeadlineSeconds"), old_spec.int("activeDeadlineSeconds")) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            errs.invalid(path.child("activeDeadlineSeconds"), now, detail);
            return;
        }
        (Some(now), Some(before)) if before < now => {
            let detail = "must be less than or equal to previous value";
            errs.invalid(path.child("activeDeadlineSeconds"), now, detail);
            return;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errs.invalid(path.child("activeDeadlineSeconds"), Value::Null, detail);
        }
        _ => {}
    }
    added_tolerations(errs, path.child("tolerations"), spec, old_spec);
    removed_gates(errs, path.child("schedulingGates"), spec, old_spec);

    if spec == old_spec {
        return;
    }
    let (spec, old_spec) = (printed::internal_pod_spec(spec), printed::internal_pod_spec(old_spec));
    let ty = Ty::Struct(printed::POD_SPEC);
    if printed::same(ty, &spec, &old_spec) {
        return;
    }
    let munged = munge(errs, spec, &old_spec);
    if !printed::same(ty, &munged, &old_spec) {
        let difference =
            diff::unified(&printed::pretty(ty, &old_spec), &printed::pretty(ty, &munged));
        errs.forbidden(path, format!("{UPDATABLE}\n{difference}"));
    }
}

/// Returns the new spec with the mutable fields reset to the old values.
fn munge(errs: &mut Errors, mut spec: Value, old: &Value) -> Value {
    let gated = !old.list("schedulingGates").is_empty();
    let grace =
        (old.int("terminationGracePeriodSeconds"), spec.int("terminationGracePeriodSeconds"));
    if gated {
        gated_changes(errs, &mut spec, old);
    }
    let Some(map) = spec.as_object_mut() else { return spec };
    for list in ["containers", "initContainers"] {
        let containers = map.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in containers.into_iter().flatten().zip(old.list(list)) {
            if let Some(container) = container.as_object_mut() {
                container.insert("image".to_owned(), before.at("image").clone());
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        map.insert(field.to_owned(), old.at(field).clone());
    }
    if let (Some(before), Some(1)) = grace
        && before < 0
    {
        map.insert("terminationGracePeriodSeconds".to_owned(), before.into());
    }
    spec
}

/// Validates the changes to a pod with scheduling gates, which may narrow its node selection.
fn gated_changes(errs: &mut Errors, spec: &mut Value, old: &Value) {
    let path = Path::root("spec");
    let labels = Ty::Map(&Ty::Str);
    if !printed::same(labels, spec.at("nodeSelector"), old.at("nodeSelector")) {
        let lost = old
            .entries("nodeSelector")
            .any(|(key, value)| spec.at("nodeSelector").at(key) != value);
        if lost {
            let detail =
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let shown = printed::Printed(labels, spec.at("nodeSelector"));
            errs.invalid_printed(path.child("nodeSelector"), shown, detail);
        }
        if let Some(map) = spec.as_object_mut() {
            map.insert("nodeSelector".to_owned(), old.at("nodeSelector").clone());
        }
    }

    let node_affinity = Ty::Opt(&Ty::Struct(printed::NODE_AFFINITY));
    let (now, before) =
        (spec.at("affinity").at("nodeAffinity"), old.at("affinity").at("nodeAffinity"));
    if printed::same(node_affinity, now, before) {
        return;
    }
    let affinity = path.child("affinity");
    node_affinity_additions(errs, affinity.child("nodeAffinity"), now, before);
    let Some(map) = spec.as_object_mut() else { return };
    let now = map.get("affinity").cloned().unwrap_or_default();
    let alone = !now.has("podAffinity") && !now.has("podAntiAffinity");
    let restored = if !old.has("affinity") && alone {
        Value::Null
    } else {
        let mut restored = now;
        if restored.is_null() {
            restored = Value::Object(serde_json::Map::new());
        }
        if let Some(restored) = restored.as_object_mut() {
            restored.insert("nodeAffinity".to_owned(), before.clone());
        }
        restored
    };
    map.insert("affinity".to_owned(), restored);
}

fn node_affinity_additions(errs: &mut Errors, path: Path<'_>, now: &Value, before: &Value) {
    let before = before.at(scheduling::REQUIRED);
    if before.is_null() {
        return;
    }
    let (terms, old_terms) =
        (now.at(scheduling::REQUIRED).at("nodeSelectorTerms"), before.list("nodeSelectorTerms"));
    let path = path.child(scheduling::REQUIRED);
    let path = path.child("nodeSelectorTerms");
    let term = Ty::Struct(printed::NODE_SELECTOR_TERM);
    let count = terms.as_array().map(Vec::len).unwrap_or_default();
    if !old_terms.is_empty() && old_terms.len() != count {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = printed::Printed(Ty::List(&Ty::Struct(printed::NODE_SELECTOR_TERM)), terms);
        errs.invalid_printed(path, shown, detail);
        return;
    }
    let empty = Vec::new();
    for (i, (now, before)) in terms.as_array().unwrap_or(&empty).iter().zip(old_terms).enumerate() {
        let lists = ["matchExpressions", "matchFields"];
        let matched_nothing = lists.iter().all(|list| before.list(list).is_empty());
        let only_added = if matched_nothing {
            lists.iter().all(|list| now.list(list).is_empty())
        } else {
            lists.iter().all(|list| now.list(list).starts_with(before.list(list)))
        };
        if !only_added {
            let detail = "only additions are allowed (no mutations or deletions)";
            errs.invalid_printed(path.index(i), printed::Printed(term, now), detail);
        }
    }
}

fn added_tolerations(errs: &mut Errors, path: Path<'_>, spec: &Value, old: &Value) {
    let now: HashSet<_> =
        spec.list("tolerations").iter().map(scheduling::toleration_identity).collect();
    if !old
        .list("tolerations")
        .iter()
        .all(|before| now.contains(&scheduling::toleration_identity(before)))
    {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errs.forbidden(path, detail);
        return;
    }
    scheduling::tolerations(errs, path, spec.list("tolerations"));
}

fn removed_gates(errs: &mut Errors, path: Path<'_>, spec: &Value, old: &Value) {
    let gates = spec.list("schedulingGates");
    let before = old.list("schedulingGates").iter().map(|gate| gate.text("name"));
    let before: HashSet<&str> = before.collect();
    // If several gates have the same name, the last one is reported.
    let last: HashMap<&str, usize> =
        gates.iter().enumerate().map(|(i, gate)| (gate.text("name"), i)).collect();
    for (i, gate) in gates.iter().enumerate() {
        let name = gate.text("name");
        if !before.contains(name) && last.get(name) == Some(&i) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errs.forbidden(path.index(i).child("name"), detail);
        }
    }
}

/// Calls `f` with init, regular and ephemeral containers and their paths.
pub(super) fn each_container(
    spec: &Value,
    path: Path<'_>,
    mut visit: impl FnMut(&Value, Path<'_>),
) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in spec.list(list).iter().enumerate() {
            visit(container, path.child(list).index(i));
        }
    }
}
