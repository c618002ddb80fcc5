//! Warnings about Pods and pod templates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::storage::check_fraction;
use super::{MAX_PER_ELEMENT, address, deprecated_node_label, volume};
use crate::defaults::set::{self, Object};
use crate::strategy::pod::{APP_ARMOR, app_armor_profile};

/// Adds the warnings about a pod.
pub(super) fn warn_about_pod(pod: &Object, warnings: &mut Vec<String>) {
    add_warnings(pod, "", warnings);
}

/// Adds the warnings about a pod template. `base` is its path with a trailing dot.
pub(super) fn warn_about_template(template: &Object, base: &str, warnings: &mut Vec<String>) {
    add_warnings(template, base, warnings);
}

/// Warns about AppArmor annotations that were copied to fields or could not be parsed.
pub(super) fn app_armor_on_create(pod: &Object, warnings: &mut Vec<String>) {
    let Some(annotations) = super::annotations(pod) else { return };
    let Some(spec) = set::get(pod, "spec") else { return };
    if !annotations.keys().any(|key| key.starts_with(APP_ARMOR))
        || set::get(spec, "os").is_some_and(|os| set::string(os, "name") == "windows")
    {
        return;
    }
    let of_pod = set::get(spec, "securityContext").and_then(|sc| sc.get("appArmorProfile"));
    visit(spec, "", |container, _| {
        let key = format!("{APP_ARMOR}{}", set::string(container, "name"));
        let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else { return };
        let profile = app_armor_profile(annotation);
        // The pod is already prepared: a profile that could be parsed is in the field.
        let own = set::get(container, "securityContext").and_then(|sc| sc.get("appArmorProfile"));
        let needs_warning = match (&profile, own) {
            (None, None) => true,
            (Some(profile), Some(own)) => profile == own && of_pod != Some(own),
            _ => false,
        };
        if needs_warning {
            warnings.push(format!("metadata.annotations[{key}]: {APP_ARMOR_MESSAGE}"));
        }
    });
}

const APP_ARMOR_MESSAGE: &str =
    r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;

/// The path of a container. Formatted only if there is a warning.
#[derive(Clone, Copy)]
struct At<'a> {
    base: &'a str,
    kind: &'static str,
    index: usize,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}spec.{}[{}]", self.base, self.kind, self.index)
    }
}

/// Calls `f` with every container and its path.
fn visit<'a>(spec: &'a Object, base: &'a str, mut f: impl FnMut(&'a Object, At<'a>)) {
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in set::list(spec, kind).enumerate() {
            f(container, At { base, kind, index });
        }
    }
}

/// Adds all warnings about a pod whose fields are under `base`.
fn add_warnings(pod: &Object, base: &str, warnings: &mut Vec<String>) {
    let empty = Object::new();
    let spec = set::get(pod, "spec").unwrap_or(&empty);
    let annotations = super::annotations(pod).unwrap_or(&empty);
    scheduling(spec, base, warnings);
    for (key, message) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            r#"non-functional in v1.11+; use the "sysctls" field instead"#,
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            r#"non-functional in v1.11+; use the "sysctls" field instead"#,
        ),
    ] {
        if annotations.contains_key(key) {
            warnings.push(format!("{base}metadata.annotations[{key}]: {message}"));
        }
    }
    volume::add_warnings(spec, base, warnings);
    duplicates(spec, base, warnings);
    for name in ["memory", "ephemeral-storage"] {
        check_fraction(spec, "overhead", name, format_args!("{base}spec"), warnings);
    }
    security(spec, annotations, base, warnings);
    ports(spec, base, warnings);
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace.is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{base}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid \
             and will be treated as 1"
        ));
    }
    pod_affinity(spec, base, warnings);
    if let Some(config) = set::get(spec, "dnsConfig") {
        address::check_list(
            config,
            "nameservers",
            &format!("{base}spec.dnsConfig.nameservers"),
            warnings,
        );
    }
    for (i, alias) in set::list(spec, "hostAliases").enumerate() {
        let path = format!("{base}spec.hostAliases[{i}].ip");
        address::check_address(&path, set::string(alias, "ip"), warnings);
    }
}

fn scheduling(spec: &Object, base: &str, warnings: &mut Vec<String>) {
    for key in set::get(spec, "nodeSelector").into_iter().flat_map(Object::keys) {
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{base}spec.nodeSelector[{key}]: {message}"));
        }
    }
    let affinity = set::get(spec, "affinity").and_then(|a| set::get(a, "nodeAffinity"));
    if let Some(affinity) = affinity {
        let base = format!("{base}spec.affinity.nodeAffinity");
        let kind = "requiredDuringSchedulingIgnoredDuringExecution";
        if let Some(required) = set::get(affinity, kind) {
            for (i, term) in set::list(required, "nodeSelectorTerms").enumerate() {
                let path = format!("{base}.{kind}.nodeSelectorTerms[{i}]");
                warn_about_node_selector_term(term, &path, warnings);
            }
        }
        let kind = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in set::list(affinity, kind).enumerate() {
            if let Some(term) = set::get(term, "preference") {
                warn_about_node_selector_term(
                    term,
                    &format!("{base}.{kind}[{i}].preference"),
                    warnings,
                );
            }
        }
    }
    for (i, constraint) in set::list(spec, "topologySpreadConstraints").enumerate() {
        let path = format!("{base}spec.topologySpreadConstraints[{i}]");
        let key = set::string(constraint, "topologyKey");
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {message}"));
        }
        null_selector(constraint, &path, warnings);
    }
}

/// Adds the warnings about a node selector term.
pub(super) fn warn_about_node_selector_term(term: &Object, path: &str, warnings: &mut Vec<String>) {
    for (i, expression) in set::list(term, "matchExpressions").enumerate() {
        let key = set::string(expression, "key");
        if let Some(message) = deprecated_node_label(key) {
            warnings.push(format!("{path}.matchExpressions[{i}].key: {key} is {message}"));
        }
    }
}

fn null_selector(parent: &Object, path: &str, warnings: &mut Vec<String>) {
    if set::is_unset(parent.get("labelSelector")) {
        warnings
            .push(format!("{path}.labelSelector: a null labelSelector results in matching no pod"));
    }
}

fn pod_affinity(spec: &Object, base: &str, warnings: &mut Vec<String>) {
    let Some(affinity) = set::get(spec, "affinity") else { return };
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = set::get(affinity, side) else { continue };
        let kind = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in set::list(terms, kind).enumerate() {
            null_selector(term, &format!("{base}spec.affinity.{side}.{kind}[{i}]"), warnings);
        }
        let kind = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in set::list(terms, kind).enumerate() {
            if let Some(term) = set::get(term, "podAffinityTerm") {
                let path = format!("{base}spec.affinity.{side}.{kind}[{i}].podAffinityTerm");
                null_selector(term, &path, warnings);
            }
        }
    }
}

fn duplicates(spec: &Object, base: &str, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (i, item) in set::list(spec, list).enumerate() {
            let value = set::string(item, field);
            if !seen.insert(value) {
                warnings
                    .push(format!("{base}spec.{list}[{i}].{field}: duplicate {field} {value:?}"));
            }
        }
    }
    for (i, secret) in set::list(spec, "imagePullSecrets").enumerate() {
        if set::string(secret, "name").is_empty() {
            warnings
                .push(format!(r#"{base}spec.imagePullSecrets[{i}].name: invalid empty name """#));
        }
    }
}

fn security(spec: &Object, annotations: &Object, base: &str, warnings: &mut Vec<String>) {
    const SECCOMP_MESSAGE: &str =
        r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
    let context = set::get(spec, "securityContext");
    let key = "seccomp.security.alpha.kubernetes.io/pod";
    if annotations.contains_key(key)
        && context.is_none_or(|context| set::is_unset(context.get("seccompProfile")))
    {
        warnings.push(format!("{base}metadata.annotations[{key}]: {SECCOMP_MESSAGE}"));
    }
    let of_pod = context.and_then(|context| context.get("appArmorProfile"));
    visit(spec, base, |container, at| {
        let name = set::string(container, "name");
        let context = set::get(container, "securityContext");
        let is_unset =
            |field: &str| context.is_none_or(|context| set::is_unset(context.get(field)));
        if !annotations.is_empty() {
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            if is_unset("seccompProfile") && annotations.contains_key(&key) {
                warnings.push(format!("{base}metadata.annotations[{key}]: {SECCOMP_MESSAGE}"));
            }
            // For Pods themselves this warning was added by [`app_armor_on_create`].
            let key = format!("{APP_ARMOR}{name}");
            if !base.is_empty()
                && is_unset("appArmorProfile")
                && let Some(annotation) = annotations.get(&key).and_then(Value::as_str)
                && (of_pod.is_none() || of_pod != app_armor_profile(annotation).as_ref())
            {
                warnings.push(format!("{base}metadata.annotations[{key}]: {APP_ARMOR_MESSAGE}"));
            }
        }
        if let Some(resources) = set::get(container, "resources") {
            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    check_fraction(resources, list, name, format_args!("{at}.resources"), warnings);
                }
            }
        }
        environment(container, at, warnings);
    });
}

/// Warns about variables defined twice, unless the second extends the first.
fn environment(container: &Object, at: At<'_>, warnings: &mut Vec<String>) {
    let mut names: Vec<&str> =
        set::list(container, "env").map(|variable| set::string(variable, "name")).collect();
    if all_differ(&mut names) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, variable) in set::list(container, "env").enumerate() {
        let name = set::string(variable, "name");
        if seen.insert(name) {
            continue;
        }
        let (value, reference) = (set::string(variable, "value"), format!("$({name})"));
        let extends = set::is_unset(variable.get("valueFrom"))
            && value != reference
            && value.contains(&reference);
        if !extends {
            warnings.push(format!(
                "{at}.env[{i}]: hides previous definition of {name:?}, which may be dropped when \
                 using apply"
            ));
        }
    }
}

/// Returns whether all values are distinct. Sorts them.
fn all_differ<T: Ord>(values: &mut [T]) -> bool {
    values.sort_unstable();
    values.windows(2).all(|pair| pair[0] != pair[1])
}

struct Port<'a> {
    at: At<'a>,
    index: usize,
    name: &'a str,
    number: i64,
    protocol: &'a str,
    host_ip: &'a str,
    host_port: i64,
}

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.ports[{}]", self.at, self.index)
    }
}

fn ports(spec: &Object, base: &str, warnings: &mut Vec<String>) {
    let mut all: Vec<Port<'_>> = Vec::new();
    visit(spec, base, |container, at| {
        let number = |port: &Object, key: &str| port.get(key).and_then(Value::as_i64).unwrap_or(0);
        all.extend(set::list(container, "ports").enumerate().map(|(index, port)| Port {
            at,
            index,
            name: set::string(port, "name"),
            number: number(port, "containerPort"),
            protocol: set::string(port, "protocol"),
            host_ip: set::string(port, "hostIP"),
            host_port: number(port, "hostPort"),
        }));
    });
    let mut numbers: Vec<(i64, &str)> = all.iter().map(|p| (p.number, p.protocol)).collect();
    let mut names: Vec<&str> = all.iter().map(|p| p.name).filter(|n| !n.is_empty()).collect();
    if all_differ(&mut numbers)
        && all_differ(&mut names)
        && all.iter().all(|port| port.host_ip.is_empty() || port.host_port != 0)
    {
        return;
    }
    let mut by_number: BTreeMap<(i64, &str), Vec<&Port<'_>>> = BTreeMap::new();
    for port in &all {
        if !port.host_ip.is_empty() && port.host_port == 0 {
            warnings.push(format!(
                "{port}: hostIP set without hostPort: {{Name:{} HostPort:{} ContainerPort:{} \
                 Protocol:{} HostIP:{}}}",
                port.name, port.host_port, port.number, port.protocol, port.host_ip
            ));
        }
        let others = by_number.entry((port.number, port.protocol)).or_default();
        for other in others.iter().take(MAX_PER_ELEMENT) {
            let relation = if port.host_ip == other.host_ip && port.host_port == other.host_port {
                "duplicate"
            } else if port.host_port == 0 || other.host_port == 0 {
                "overlapping"
            } else if port.host_port == other.host_port
                && port.host_ip.is_empty() != other.host_ip.is_empty()
            {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{port}: {relation} port definition with {other}"));
        }
        others.push(port);
    }
    let mut by_name: BTreeMap<&str, &Port<'_>> = BTreeMap::new();
    for port in all.iter().filter(|port| !port.name.is_empty()) {
        match by_name.get(port.name) {
            Some(first) => warnings.push(format!(
                "{port}: duplicate port name {:?} with {first}, services and probes that select \
                 ports by name will use {first}",
                port.name
            )),
            None => {
                by_name.insert(port.name, port);
            }
        }
    }
}
