//! Pod Security Standards: the checks of the levels `baseline` and `restricted`, by version.
//!
//! A namespace selects levels with labels, see [`Policy`]. [`violations`] runs the checks of a level
//! on a pod, in upstream's order and with its texts.

mod checks;
mod policy;

use serde_json::Value;

pub use self::policy::{Level, LevelVersion, Policy, Version};

/// A check that a pod fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is not allowed.
    pub reason: String,
    /// Where it is; may be empty.
    pub detail: String,
}

/// A pod, or the template of one.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    /// The metadata.
    pub metadata: &'a Value,
    /// The spec.
    pub spec: &'a Value,
}

/// The checks of all versions change last in this one.
const NEWEST: u32 = 35;

type Check = fn(Pod<'_>) -> Option<Violation>;

/// One check and the versions that have it.
struct Versioned {
    id: &'static str,
    /// The first minor version, and the check from there on.
    since: &'static [(u32, Check)],
    /// The id of the baseline check that a restricted one replaces.
    replaces: &'static str,
}

const fn check(id: &'static str, since: &'static [(u32, Check)]) -> Versioned {
    Versioned { id, since, replaces: "" }
}

const fn replacing(
    id: &'static str,
    replaces: &'static str,
    since: &'static [(u32, Check)],
) -> Versioned {
    Versioned { id, since, replaces }
}

/// Sorted by id.
const BASELINE: &[Versioned] = &[
    check("appArmorProfile", &[(0, checks::app_armor)]),
    check("capabilities_baseline", &[(0, checks::default_capabilities)]),
    check("hostNamespaces", &[(0, checks::host_namespaces)]),
    check("hostPathVolumes", &[(0, checks::host_path_volumes)]),
    check("hostPorts", &[(0, checks::host_ports)]),
    check("hostProbesAndHostLifecycle", &[(34, checks::probe_hosts)]),
    check("privileged", &[(0, checks::privileged)]),
    check("procMount", &[(0, checks::proc_mount), (35, checks::proc_mount_unless_user_namespace)]),
    check("seLinuxOptions", &[(0, checks::selinux_before_1_31), (31, checks::selinux)]),
    check(
        "seccompProfile_baseline",
        &[(0, checks::seccomp_annotations), (19, checks::seccomp_not_unconfined)],
    ),
    check(
        "sysctls",
        &[
            (0, checks::sysctls_before_1_27),
            (27, checks::sysctls_before_1_29),
            (29, checks::sysctls_before_1_32),
            (32, checks::sysctls),
        ],
    ),
    check("windowsHostProcess", &[(0, checks::host_process)]),
];

/// Sorted by id.
const RESTRICTED: &[Versioned] = &[
    check(
        "allowPrivilegeEscalation",
        &[(8, checks::privilege_escalation), (25, checks::privilege_escalation_unless_windows)],
    ),
    replacing(
        "capabilities_restricted",
        "capabilities_baseline",
        &[(22, checks::drop_capabilities), (25, checks::drop_capabilities_unless_windows)],
    ),
    replacing("procMount_restricted", "procMount", &[(35, checks::proc_mount)]),
    replacing("restrictedVolumes", "hostPathVolumes", &[(0, checks::volume_types)]),
    check(
        "runAsNonRoot",
        &[(0, checks::run_as_non_root), (35, checks::run_as_non_root_unless_user_namespace)],
    ),
    check(
        "runAsUser",
        &[(23, checks::run_as_user), (35, checks::run_as_user_unless_user_namespace)],
    ),
    replacing(
        "seccompProfile_restricted",
        "seccompProfile_baseline",
        &[(19, checks::seccomp_set), (25, checks::seccomp_set_unless_windows)],
    ),
];

/// Returns the checks of a level that the pod fails.
pub fn violations(policy: LevelVersion, pod: Pod<'_>) -> Vec<Violation> {
    let minor = policy.version.minor().unwrap_or(NEWEST).min(NEWEST);
    let in_version = |check: &Versioned| {
        check.since.iter().rev().find(|(since, _)| *since <= minor).map(|(_, check)| *check)
    };
    let restricted = || RESTRICTED.iter().filter(|_| policy.level == Level::Restricted);
    let is_replaced = |check: &Versioned| {
        restricted().any(|other| other.replaces == check.id && in_version(other).is_some())
    };
    if policy.level == Level::Privileged {
        return Vec::new();
    }
    let baseline = BASELINE.iter().filter(|check| !is_replaced(check));
    let checks = baseline.chain(restricted()).filter_map(in_version);
    checks.filter_map(|check| check(pod)).collect()
}

/// Joins the reasons, each with its detail.
pub fn details(violations: &[Violation]) -> String {
    let print = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.clone(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(print).collect::<Vec<_>>().join(", ")
}

/// Joins the reasons.
pub fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason.as_str()).collect();
    reasons.join(", ")
}

/// Returns the pod of an object that has one or a template of one.
pub fn pod_of<'a>(group: &str, plural: &str, object: &'a Value) -> Option<Pod<'a>> {
    let template = match (group, plural) {
        ("", "pods") => object,
        ("", "podtemplates") => object.get("template")?,
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => object.pointer("/spec/template")?,
        ("batch", "cronjobs") => object.pointer("/spec/jobTemplate/spec/template")?,
        _ => return None,
    };
    let part = |field: &str| template.get(field).unwrap_or(&Value::Null);
    Some(Pod { metadata: part("metadata"), spec: part("spec") })
}

#[cfg(test)]
mod tests;
