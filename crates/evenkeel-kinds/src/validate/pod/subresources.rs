//! Validates writes through subresources of Pods: ephemeral containers and bindings.

use serde_json::Value;

use super::super::printed::{self, Ty, diff};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_update, checks};
use super::{PodOptions, annotations, meta_and_spec};

/// Validates that ephemeral containers are only added, not changed or removed.
pub(in crate::validate) fn ephemeral_containers(errs: &mut Errors, new: &Value, old: &Value) {
    let opts = PodOptions::for_update(old).for_pod();
    let before = errs.len();
    builtin_update(errs, new, old);
    meta_and_spec(errs, new, &opts);
    annotations::update(errs, new, old, &opts);
    if old.at("metadata").at("annotations").has(annotations::MIRROR) {
        errs.truncate(before);
        errs.forbidden(Path::root(""), "static pods do not support ephemeral containers");
        return;
    }
    let path = Path::root("spec");
    let path = path.child("ephemeralContainers");
    let ty = Ty::Struct(printed::EPHEMERAL_CONTAINER);
    for before in old.at("spec").list("ephemeralContainers") {
        let name = before.text("name");
        let now = new.at("spec").list("ephemeralContainers");
        match now.iter().rfind(|c| c.text("name") == name) {
            None => {
                let detail =
                    format!("existing ephemeral containers \"{name}\" may not be removed\n");
                errs.forbidden(path, detail);
            }
            Some(now) if !printed::same(ty, now, before) => {
                let difference =
                    diff::unified(&printed::pretty(ty, before), &printed::pretty(ty, now));
                let detail = format!(
                    "existing ephemeral containers \"{name}\" may not be changed\n{difference}"
                );
                errs.forbidden(path, detail);
            }
            Some(_) => {}
        }
    }
}

pub(in crate::validate) fn binding(errs: &mut Errors, binding: &Value) {
    let path = Path::root("target");
    let target = binding.at("target");
    let kind = target.text("kind");
    if !kind.is_empty() && kind != "Node" {
        errs.not_supported(path.child("kind"), kind, &["Node", "<empty>"]);
    }
    checks::required_text(errs, path, target, "name");
}
