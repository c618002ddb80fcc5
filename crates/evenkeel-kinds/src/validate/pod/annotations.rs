//! Validates annotations of Pods that were replaced by fields and are still in effect.

use serde_json::Value;

use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::volume::sources;
use super::{PodOptions, each_container};

pub(super) use crate::references::MIRROR;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn pod(
    errs: &mut Errors,
    path: Path<'_>,
    meta: &Value,
    spec: &Value,
    opts: &PodOptions,
) {
    let annotations = meta.at("annotations");
    let Some(all) = annotations.as_object().filter(|all| !all.is_empty()) else { return };
    if let Some(value) = annotations.text_opt(MIRROR)
        && spec.text("nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errs.invalid(path.key(MIRROR), value, detail);
    }
    if !opts.allow_invalid_deletion_cost && has_invalid_deletion_cost(meta) {
        let value = annotations.text(DELETION_COST);
        errs.invalid(path.key(DELETION_COST), value, "must be a 32bit integer");
    }
    if let Some(profile) = annotations.text_opt(SECCOMP_POD) {
        seccomp_profile(errs, path.child(SECCOMP_POD), profile);
    }
    for (key, value) in all.iter().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        seccomp_profile(errs, path.child(key), value.as_str().unwrap_or_default());
    }
    for (key, value) in all {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut found = false;
        each_container(spec, path, |container, _| found |= container.text("name") == name);
        if !found {
            errs.invalid(path.key(key), name, "container not found");
        }
        let profile = value.as_str().unwrap_or_default();
        let known = matches!(profile, "" | "runtime/default" | "unconfined");
        if !known && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: \"{profile}\"");
            errs.invalid(path.key(key), profile, detail);
        }
    }
}

pub(super) fn has_invalid_deletion_cost(meta: &Value) -> bool {
    let Some(cost) = meta.at("annotations").text_opt(DELETION_COST) else { return false };
    let first = matches!(cost.as_bytes(), [b'-' | b'1'..=b'9', ..] | [b'0']);
    !first || cost.parse::<i32>().is_err()
}

fn seccomp_profile(errs: &mut Errors, path: Path<'_>, profile: &str) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(local) => sources::descending_path(errs, path, local),
            None => errs.invalid(path, profile, "must be a valid seccomp profile"),
        },
    }
}

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value, opts: &PodOptions) {
    let path = Path::root("metadata");
    let path = path.child("annotations");
    let (meta, old_meta) = (new.at("metadata"), old.at("metadata"));
    let now = meta.at("annotations");
    for (key, before) in old_meta.entries("annotations") {
        if now.at(key) == before {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(path.key(key), "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(path.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in meta.entries("annotations") {
        if old_meta.at("annotations").has(key) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errs.forbidden(path.key(key), "may not add AppArmor annotations");
        }
        if key == MIRROR {
            errs.forbidden(path.key(key), "may not add mirror pod annotation");
        }
    }
    pod(errs, path, meta, new.at("spec"), opts);
}

/// Checks that an annotation and a field with the same profile agree.
pub(super) fn match_profiles(errs: &mut Errors, path: Path<'_>, meta: &Value, spec: &Value) {
    let annotations = meta.at("annotations");
    if annotations.as_object().is_none_or(serde_json::Map::is_empty) {
        return;
    }
    let pod_context = spec.at("securityContext");
    if let Some(value) = annotations.text_opt(SECCOMP_POD) {
        let context = path.child("securityContext");
        let at = context.child("seccompProfile");
        match_profile(errs, at, value, pod_context.at("seccompProfile"), "seccomp");
    }
    each_container(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
        if let Some(value) = annotations.text_opt(&key) {
            let context = path.child("securityContext");
            let profile = container.at("securityContext").at("seccompProfile");
            match_profile(errs, context.child("seccompProfile"), value, profile, "seccomp");
        }
    });
    if spec.at("os").text("name") == "windows" {
        return;
    }
    each_container(spec, path, |container, path| {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        if let Some(value) = annotations.text_opt(&key) {
            let context = path.child("securityContext");
            let own = container.at("securityContext").at("appArmorProfile");
            let profile = if own.is_null() { pod_context.at("appArmorProfile") } else { own };
            match_profile(errs, context.child("appArmorProfile"), value, profile, "apparmor");
        }
    });
}

fn match_profile(errs: &mut Errors, path: Path<'_>, value: &str, profile: &Value, what: &str) {
    let fits = match profile.text("type") {
        "Unconfined" => value == "unconfined",
        "RuntimeDefault" => {
            value == "runtime/default" || (what == "seccomp" && value == "docker/default")
        }
        "Localhost" => {
            if let Some(local) = value.strip_prefix("localhost/")
                && profile.text_opt("localhostProfile") != Some(local)
            {
                let detail = format!("{what} profile in annotation and field must match");
                errs.forbidden(path.child("localhostProfile"), detail);
                return;
            }
            value.starts_with("localhost/")
        }
        _ => true,
    };
    if !fits {
        let detail = format!("{what} type in annotation and field must match");
        errs.forbidden(path.child("type"), detail);
    }
}
