//! Validates security contexts of Pods and containers.

use std::collections::HashSet;

use serde_json::Value;

use super::checks;
use super::pod::PodOptions;
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::sources;

mod windows;

pub(super) use windows::host_process;

/// Maximum user or group ID.
const MAX_ID: i64 = i32::MAX as i64;

pub(super) fn pod(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    let context = spec.at("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(errs, path.child(field), context.at(field));
    }
    for (i, group) in context.list("supplementalGroups").iter().enumerate() {
        id(errs, path.child("supplementalGroups").index(i), group);
    }
    if spec.is("shareProcessNamespace") && spec.is("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errs.invalid(path.child("shareProcessNamespace"), true, detail);
    }
    if context.is_null() {
        return;
    }
    sysctls(errs, path.child("sysctls"), context.list("sysctls"), spec, opts.allow_host_sysctls);
    const CHANGE: &[&str] = &["Always", "OnRootMismatch"];
    let policy = context.at("fsGroupChangePolicy");
    checks::one_of_if_set(errs, path.child("fsGroupChangePolicy"), policy, CHANGE);
    seccomp(errs, path.child("seccompProfile"), context.at("seccompProfile"));
    windows::options(errs, path.child("windowsOptions"), context.at("windowsOptions"));
    app_armor(errs, path.child("appArmorProfile"), context.at("appArmorProfile"));
    let policy = context.at("supplementalGroupsPolicy");
    let at = path.child("supplementalGroupsPolicy");
    checks::one_of_if_set(errs, at, policy, &["Merge", "Strict"]);
    let policy = context.at("seLinuxChangePolicy");
    let at = path.child("seLinuxChangePolicy");
    let supported: &[&str] =
        if opts.allow_selinux_mount { &["MountOption", "Recursive"] } else { &["Recursive"] };
    checks::one_of_if_set(errs, at, policy, supported);
}

pub(super) fn container(errs: &mut Errors, path: Path<'_>, context: &Value, host_users: bool) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(errs, path.child(field), context.at(field));
    }
    if let Some(mount) = context.text_opt("procMount") {
        let path = path.child("procMount");
        if !matches!(mount, "Default" | "Unmasked") {
            errs.not_supported(path, mount, &["Default", "Unmasked"]);
        }
        if host_users && mount == "Unmasked" {
            errs.invalid(path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(errs, path.child("seccompProfile"), context.at("seccompProfile"));
    if context.flag("allowPrivilegeEscalation") == Some(false) {
        let shown = Printed(Ty::Struct(printed::SECURITY_CONTEXT), context);
        if context.is("privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errs.invalid_printed(path, &shown, detail);
        }
        for capability in context.at("capabilities").texts("add") {
            if capability == "CAP_SYS_ADMIN" {
                let detail = "cannot set `allowPrivilegeEscalation` to false and \
                              `capabilities.Add` CAP_SYS_ADMIN";
                errs.invalid_printed(path, &shown, detail);
            }
        }
    }
    windows::options(errs, path.child("windowsOptions"), context.at("windowsOptions"));
    app_armor(errs, path.child("appArmorProfile"), context.at("appArmorProfile"));
}

fn id(errs: &mut Errors, path: Path<'_>, id: &Value) {
    if let Some(id) = id.as_i64().filter(|id| !(0..=MAX_ID).contains(id)) {
        errs.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

fn sysctls(
    errs: &mut Errors,
    path: Path<'_>,
    sysctls: &[Value],
    spec: &Value,
    allow_host_sysctls: bool,
) {
    let mut names = HashSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errs.required(path, "");
        } else if !is_sysctl_name(name) {
            let detail = "must have at most 253 characters and match regex \
                          ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errs.invalid(path, name, detail);
        } else if !names.insert(name) {
            errs.duplicate(path, name);
        }
        if !allow_host_sysctls && let Some(detail) = host_sysctl(name, spec) {
            errs.invalid(path, name, detail);
        }
    }
}

/// Returns why a sysctl may not be set in a pod that shares a namespace with its host.
pub(super) fn host_sysctl(name: &str, spec: &Value) -> Option<&'static str> {
    let name = name.replace('/', ".");
    let ipc = matches!(name.as_str(), "kernel.sem")
        || name.starts_with("kernel.shm")
        || name.starts_with("kernel.msg")
        || name.starts_with("fs.mqueue.");
    if spec.is("hostNetwork") && name.starts_with("net.") {
        Some("may not be specified when 'hostNetwork' is true")
    } else if spec.is("hostIPC") && ipc {
        Some("may not be specified when 'hostIPC' is true")
    } else {
        None
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().is_some_and(alnum)
                && bytes.last().is_some_and(alnum)
                && bytes.iter().all(|b| alnum(b) || matches!(b, b'-' | b'_'))
        })
}

fn seccomp(errs: &mut Errors, path: Path<'_>, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    if kind.is_empty() {
        errs.required(path.child("type"), "type is required when seccompProfile is set");
    } else if !TYPES.contains(&kind) {
        errs.not_supported(path.child("type"), kind, TYPES);
    }
    let path = path.child("localhostProfile");
    match (kind, profile.text_opt("localhostProfile")) {
        ("Localhost", None) => {
            errs.required(path, "must be set when seccomp type is Localhost");
        }
        ("Localhost", Some(local)) => sources::descending_path(errs, path, local),
        (_, Some(_)) => {
            let shown = Printed(Ty::Struct(printed::SECCOMP_PROFILE), profile);
            errs.invalid_printed(path, shown, "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

fn app_armor(errs: &mut Errors, path: Path<'_>, profile: &Value) {
    if profile.is_null() {
        return;
    }
    let local = profile.text_opt("localhostProfile");
    let at = path.child("localhostProfile");
    const REQUIRED: &str = "must be set when AppArmor type is Localhost";
    match profile.text("type") {
        "Localhost" => {
            let Some(local) = local else {
                errs.required(at, REQUIRED);
                return;
            };
            if local.trim() != local {
                errs.invalid(at, local, "must not be padded with whitespace");
            } else if local.is_empty() {
                errs.required(at, REQUIRED);
            }
            if local.len() > 4095 {
                errs.too_long(at, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(local) = local {
                errs.invalid(at, local, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errs.required(path.child("type"), "type is required when appArmorProfile is set"),
        other => {
            let supported = &["Localhost", "RuntimeDefault", "Unconfined"];
            errs.not_supported(path.child("type"), other, supported);
        }
    }
}
