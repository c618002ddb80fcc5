//! Validates in-place resize of a Pod: only CPU and memory of its containers and of the pod may
//! change.

use serde_json::{Map, Value, json};

use super::super::builtin_update;
use super::super::printed::{self, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::{PodOptions, annotations, meta_and_spec};
use crate::strategy::qos_class;

const LISTS: [&str; 2] = ["requests", "limits"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

pub(in crate::validate) fn resize(errs: &mut Errors, new: &Value, old: &Value) {
    let before = errs.len();
    builtin_update(errs, new, old);
    meta_and_spec(errs, new, &PodOptions::for_update(old).for_pod());
    let object_path = Path::root("");
    if old.at("metadata").at("annotations").has(annotations::MIRROR) {
        errs.truncate(before);
        return errs.forbidden(object_path, "static pods cannot be resized");
    }
    if old.at("spec").at("os").text("name") == "windows" {
        errs.truncate(before);
        return errs.forbidden(object_path, "windows pods cannot be resized");
    }
    let path = Path::root("spec");
    let class = new.at("status").text("qosClass");
    if current_qos_class(old) != computed_qos_class(new) {
        errs.invalid(path, class, "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(old) {
        errs.forbidden(path, "Pod running on node without support for resize");
    }
    let (new, old) = (new.at("spec"), old.at("spec"));
    if sets_any(new.at("resources")) || sets_any(old.at("resources")) {
        check_pod(errs, path, new, old);
    }
    if same_containers(errs, path, new, old) {
        check_containers(errs, path, new, old);
    }
}

/// Returns the QoS class in the status, or the one computed from the resources.
fn current_qos_class(pod: &Value) -> &str {
    match pod.at("status").text("qosClass") {
        "" => computed_qos_class(pod),
        class => class,
    }
}

fn computed_qos_class(pod: &Value) -> &'static str {
    let empty = Map::new();
    qos_class(pod.map("spec").unwrap_or(&empty))
}

/// Returns whether the node supports resizing: it then reports allocated resources in the status.
fn is_supported(pod: &Value) -> bool {
    let statuses = pod.at("status").list("containerStatuses");
    let running = statuses.iter().find(|status| status.at("state").has("running"));
    running.is_none_or(|status| status.has("resources"))
}

fn sets_any(resources: &Value) -> bool {
    LISTS.iter().any(|list| resources.entries(list).next().is_some())
}

fn check_pod(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let (new, old) = (new.at("resources"), old.at("resources"));
    let at = path.child("resources");
    if new.is_null() {
        return errs.forbidden(at, "pod-level resources cannot be removed");
    }
    for list in LISTS {
        if removes_any(new, old, list) {
            errs.forbidden(at.child(list), format!("pod-level resource {list} cannot be removed"));
        }
    }
    let mut expected = with_old_cpu_and_memory(new, old);
    if new.has("claims") {
        expected["claims"] = new.at("claims").clone();
    }
    if !printed::same(Ty::Struct(printed::RESOURCE_REQUIREMENTS), &expected, old) {
        errs.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Checks that the containers are unchanged and in the same order, which the checks below rely on.
fn same_containers(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) -> bool {
    let before = errs.len();
    for kind in ["containers", "initContainers"] {
        let at = path.child(kind);
        let (now, were) = (new.list(kind), old.list(kind));
        if now.len() != were.len() {
            errs.forbidden(at, format!("{kind} may not be added or removed on resize"));
            continue;
        }
        for (index, (now, was)) in now.iter().zip(were).enumerate() {
            if now.text("name") != was.text("name") {
                let detail = format!("{kind} may not be renamed or reordered on resize");
                errs.forbidden(at.index(index).child("name"), detail);
            }
        }
    }
    errs.len() == before
}

fn check_containers(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let pairs = |kind: &'static str| new.list(kind).iter().zip(old.list(kind)).enumerate();
    for kind in ["initContainers", "containers"] {
        let at = path.child(kind);
        for (index, (now, was)) in pairs(kind) {
            let at = at.index(index);
            let at = at.child("resources");
            for list in LISTS {
                if removes_any(now.at("resources"), was.at("resources"), list) {
                    errs.forbidden(at.child(list), format!("resource {list} cannot be removed"));
                }
            }
        }
    }
    for (_, (now, was)) in pairs("containers") {
        if has_other_changes(now, was) {
            errs.forbidden(path, "only cpu and memory resources are mutable");
        }
    }
    let at = path.child("initContainers");
    for (index, (now, was)) in pairs("initContainers") {
        let at = at.index(index);
        if has_other_changes(now, was) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errs.forbidden(at, detail);
        }
        let sidecar = now.text("restartPolicy") == "Always";
        if sidecar || printed::same(CONTAINER, now, was) {
            continue;
        }
        for policy in now.list("resizePolicy") {
            if policy.text("restartPolicy") == "RestartContainer" {
                let detail = "non-sidecar init containers with a resize policy of RestartContainer \
                              cannot be resized";
                errs.forbidden(at, detail);
            }
        }
    }
}

const CONTAINER: Ty = Ty::Struct(printed::CONTAINER);

/// Returns whether fields other than CPU and memory change.
fn has_other_changes(now: &Value, was: &Value) -> bool {
    let mut expected = now.clone();
    expected["resources"] = with_old_cpu_and_memory(now.at("resources"), was.at("resources"));
    !printed::same(CONTAINER, &expected, was)
}

/// Returns the new resources with the old CPU and memory. Claims are not part of a resize.
fn with_old_cpu_and_memory(new: &Value, old: &Value) -> Value {
    let mut expected = json!({});
    for list in LISTS {
        let fixed = new.entries(list).filter(|(name, _)| !RESIZABLE.contains(name));
        let resizable = old.entries(list).filter(|(name, _)| RESIZABLE.contains(name));
        let amounts =
            fixed.chain(resizable).map(|(name, amount)| (name.to_owned(), amount.clone()));
        expected[list] = amounts.collect::<Map<_, _>>().into();
    }
    expected
}

fn removes_any(new: &Value, old: &Value, list: &str) -> bool {
    old.entries(list).any(|(name, _)| !new.at(list).has(name))
}
