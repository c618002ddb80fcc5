//! Validates the containers of a pod: regular, init and ephemeral.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::pod::PodOptions;
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::Volumes;
use super::volume::sources;
use super::{checks, env, probe, resources, security};
use crate::names;

/// Data of the pod that the validation of its containers needs.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: Volumes<'a>,
    /// Names of the pod's resource claims.
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) grace: Option<i64>,
    pub(super) restart_policy: &'a str,
    /// Whether the pod uses the host's user namespace.
    pub(super) host_users: bool,
    pub(super) opts: &'a PodOptions,
}

pub(super) fn containers(errs: &mut Errors, path: Path<'_>, containers: &[Value], pod: &Pod<'_>) {
    if containers.is_empty() {
        errs.required(path, "");
        return;
    }
    let mut names = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        common_fields(errs, path, container, pod);
        let name = container.text("name");
        if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        }
        let lifecycle = container.at("lifecycle");
        if !lifecycle.is_null() {
            let os = pod.spec.at("os");
            probe::lifecycle(errs, path.child("lifecycle"), lifecycle, pod.grace, os);
        }
        probe::probes(errs, path, container, pod.grace);
        restart_policy(errs, path, container);
    }
    unique_host_ports(errs, path, containers);
}

pub(super) fn init_containers(
    errs: &mut Errors,
    path: Path<'_>,
    containers: &[Value],
    regular: &[Value],
    pod: &Pod<'_>,
) {
    let mut names: HashSet<&str> = regular.iter().map(|c| c.text("name")).collect();
    for (i, container) in containers.iter().enumerate() {
        let at = path.index(i);
        common_fields(errs, at, container, pod);
        let sidecar = container.text("restartPolicy") == "Always";
        if container.has("restartPolicy") {
            restart_policy(errs, at, container);
        } else if !container.list("restartPolicyRules").is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            errs.required(at.child("restartPolicy"), detail);
        }
        let name = container.text("name");
        // Like upstream, does not add init containers without a name.
        let repeated = if name.is_empty() { names.contains(name) } else { !names.insert(name) };
        if repeated {
            errs.duplicate(at.child("name"), name);
        }
        // Upstream validates each init container in a list of its own, so the index is zero.
        unique_host_ports(errs, path, std::slice::from_ref(container));
        if sidecar {
            let lifecycle = container.at("lifecycle");
            if !lifecycle.is_null() {
                let os = pod.spec.at("os");
                probe::lifecycle(errs, at.child("lifecycle"), lifecycle, pod.grace, os);
            }
            probe::probes(errs, at, container, pod.grace);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(field) {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errs.forbidden(at.child(field), detail);
                }
            }
            for (j, policy) in container.list("resizePolicy").iter().enumerate() {
                if policy.text("restartPolicy") == "RestartContainer"
                    && !pod.opts.allow_init_restart_on_resize
                {
                    let path = at.child("resizePolicy");
                    let path = path.index(j);
                    let detail =
                        "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errs.invalid(path.child("restartPolicy"), "RestartContainer", detail);
                }
            }
        }
    }
}

pub(super) fn ephemeral_containers(
    errs: &mut Errors,
    path: Path<'_>,
    containers: &[Value],
    pod: &Pod<'_>,
) {
    let others = pod.spec.list("containers").iter().chain(pod.spec.list("initContainers"));
    let others: HashSet<&str> = others.map(|c| c.text("name")).collect();
    let mut names = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        common_fields(errs, path, container, pod);
        image_whitespace(errs, path, container);
        let name = container.text("name");
        if !names.insert(name) || others.contains(name) {
            errs.duplicate(path.child("name"), name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errs.not_found(path.child("targetContainerName"), target, "");
        }
        const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
        // In the order of the internal struct, with its field names.
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let value = container.at(field);
            let set = match value {
                Value::Null => false,
                Value::Object(fields) => field != "resources" || !fields.is_empty(),
                _ => true,
            };
            if set {
                errs.forbidden(path.child(field), FORBIDDEN);
            }
        }
        for (j, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    let path = path.child("volumeMounts");
                    errs.forbidden(path.index(j).child(field), FORBIDDEN);
                }
            }
        }
    }
}

/// Checks the image of a running pod for white space. Templates are exempt because they can still
/// be edited.
pub(super) fn image_whitespace(errs: &mut Errors, path: Path<'_>, container: &Value) {
    let image = container.text("image");
    if image.trim().len() != image.len() {
        let detail = "must not have leading or trailing whitespace";
        errs.invalid(path.child("image"), image, detail);
    }
}

pub(super) fn pull_policy(errs: &mut Errors, path: Path<'_>, policy: &str) {
    checks::one_of(errs, path, policy, &["Always", "IfNotPresent", "Never"]);
}

fn common_fields(errs: &mut Errors, path: Path<'_>, container: &Value, pod: &Pod<'_>) {
    let name = container.text("name");
    if name.is_empty() {
        errs.required(path.child("name"), "");
    } else {
        checks::dns1123_label(errs, path.child("name"), name);
    }
    checks::required_text(errs, path, container, "image");
    const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
    let policy = container.text("terminationMessagePolicy");
    checks::one_of(errs, path.child("terminationMessagePolicy"), policy, MESSAGE_POLICIES);
    ports(errs, path.child("ports"), container.list("ports"));
    env::env(errs, path.child("env"), container.list("env"));
    env::env_from(errs, path.child("envFrom"), container.list("envFrom"));
    volume_mounts(errs, path.child("volumeMounts"), container, pod);
    volume_devices(errs, path.child("volumeDevices"), container, pod);
    pull_policy(errs, path.child("imagePullPolicy"), container.text("imagePullPolicy"));
    resources::requirements(
        errs,
        path.child("resources"),
        container.at("resources"),
        resources::Scope::Container,
        &pod.claims,
        pod.opts.allow_indivisible_huge_pages,
    );
    resize_policy(errs, path.child("resizePolicy"), container, pod.restart_policy);
    let context = container.at("securityContext");
    security::container(errs, path.child("securityContext"), context, pod.host_users);
}

pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn ports(errs: &mut Errors, path: Path<'_>, ports: &[Value]) {
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let name = port.text("name");
        if !name.is_empty() {
            let reasons = names::port_name(name);
            let path = path.index(i);
            if !reasons.is_empty() {
                errs.reasons(path.child("name"), name, reasons);
            } else if !names.insert(name) {
                errs.duplicate(path.child("name"), name);
            }
        }
        let path = path.index(i);
        let number = port.num("containerPort");
        if number == 0 {
            errs.required(path.child("containerPort"), "");
        } else {
            checks::port_number(errs, path.child("containerPort"), number);
        }
        let host = port.num("hostPort");
        if host != 0 {
            checks::port_number(errs, path.child("hostPort"), host);
        }
        checks::one_of(errs, path.child("protocol"), port.text("protocol"), PROTOCOLS);
    }
}

fn unique_host_ports(errs: &mut Errors, path: Path<'_>, containers: &[Value]) {
    let mut taken: HashSet<(&str, &str, i64)> = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in container.list("ports").iter().enumerate() {
            let number = port.num("hostPort");
            if number == 0 {
                continue;
            }
            let key = (port.text("protocol"), port.text("hostIP"), number);
            if !taken.insert(key) {
                let path = path.index(i);
                let path = path.child("ports");
                let shown = format!("{}/{}/{}", key.0, key.1, key.2);
                errs.duplicate(path.index(j).child("hostPort"), shown);
            }
        }
    }
}

fn volume_mounts(errs: &mut Errors, path: Path<'_>, container: &Value, pod: &Pod<'_>) {
    let mounts = container.list("volumeMounts");
    let devices = VolumeUses::new(container.list("volumeDevices"), "devicePath");
    let mut targets = HashSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let at = path.index(i);
        let (name, target) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errs.required(at.child("name"), "");
        }
        if pod.volumes.get(name).is_none() {
            errs.not_found(at.child("name"), name, "");
        }
        if target.is_empty() {
            errs.required(at.child("mountPath"), "");
        }
        if !targets.insert(target) {
            errs.invalid(at.child("mountPath"), target, "must be unique");
        }
        if devices.names.contains(name) {
            errs.invalid(at.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.paths.contains(target) {
            let detail = "must not already exist as a path in volumeDevices";
            errs.invalid(at.child("mountPath"), target, detail);
        }
        let (sub_path, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub_path.is_empty() {
            sources::descending_path(errs, path.child("subPath"), sub_path);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errs.invalid(at.child("subPathExpr"), expression, detail);
            }
            sources::descending_path(errs, path.child("subPathExpr"), expression);
        }
        mount_propagation(errs, path.child("mountPropagation"), mount, container);
        recursive_read_only(errs, path.child("recursiveReadOnly"), mount);
    }
}

/// The volumes that a list of mounts or devices refers to, and their paths.
struct VolumeUses<'a> {
    names: HashSet<&'a str>,
    /// If a volume occurs twice, only its last path, as in upstream.
    paths: HashSet<&'a str>,
}

impl<'a> VolumeUses<'a> {
    fn new(items: &'a [Value], field: &str) -> Self {
        let mut uses = Self { names: HashSet::new(), paths: HashSet::new() };
        for item in items.iter().rev() {
            if uses.names.insert(item.text("name")) {
                uses.paths.insert(item.text(field));
            }
        }
        uses
    }
}

fn mount_propagation(errs: &mut Errors, path: Path<'_>, mount: &Value, container: &Value) {
    const MODES: &[&str] = &["Bidirectional", "HostToContainer", "None"];
    checks::one_of_if_set(errs, path, mount.at("mountPropagation"), MODES);
    let privileged = container.at("securityContext").is("privileged");
    if mount.text("mountPropagation") == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errs.forbidden(path, detail);
    }
}

fn recursive_read_only(errs: &mut Errors, path: Path<'_>, mount: &Value) {
    match mount.text_opt("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.is("readOnly") {
                errs.forbidden(path, "may only be specified when readOnly is true");
            }
            if mount.text_opt("mountPropagation").is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errs.forbidden(path, detail);
            }
        }
        Some(other) => errs.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn volume_devices(errs: &mut Errors, path: Path<'_>, container: &Value, pod: &Pod<'_>) {
    let devices = container.list("volumeDevices");
    let mounts = VolumeUses::new(container.list("volumeMounts"), "mountPath");
    let (mut names, mut targets) = (HashSet::new(), HashSet::new());
    for (i, device) in devices.iter().enumerate() {
        let path = path.index(i);
        let (name, target) = (device.text("name"), device.text("devicePath"));
        let volume = pod.volumes.get(name);
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else if !names.insert(name) {
            errs.invalid(path.child("name"), name, "must be unique");
        }
        match volume {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let detail = "can only use volume source type of PersistentVolumeClaim or \
                              Ephemeral for block mode";
                errs.invalid(path.child("name"), name, detail);
            }
            Some(_) => {}
            None => errs.not_found(path.child("name"), name, ""),
        }
        let backsteps = sources::has_backsteps(target);
        if target.is_empty() {
            errs.required(path.child("devicePath"), "");
        }
        if !targets.insert(target) && !backsteps {
            errs.invalid(path.child("devicePath"), target, "must be unique");
        }
        if backsteps {
            let detail = "can not contain backsteps ('..')";
            errs.invalid(path.child("devicePath"), target, detail);
        }
        if mounts.names.contains(name) {
            errs.invalid(path.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.paths.contains(target) {
            let detail = "must not already exist as a path in volumeMounts";
            errs.invalid(path.child("devicePath"), target, detail);
        }
    }
}

fn resize_policy(errs: &mut Errors, path: Path<'_>, container: &Value, restart_policy: &str) {
    let mut names = HashSet::new();
    for (i, policy) in container.list("resizePolicy").iter().enumerate() {
        let (name, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !names.insert(name) {
            errs.duplicate(path.index(i), name);
        }
        checks::one_of(errs, path, name, &["cpu", "memory"]);
        checks::one_of(errs, path, restart, &["NotRequired", "RestartContainer"]);
        if restart_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errs.invalid(path, restart, detail);
        }
    }
}

fn restart_policy(errs: &mut Errors, path: Path<'_>, container: &Value) {
    let rules = container.list("restartPolicyRules");
    match container.text_opt("restartPolicy") {
        None if rules.is_empty() => return,
        None => {
            let detail = "must specify restartPolicy when restart rules are used";
            errs.required(path.child("restartPolicy"), detail);
        }
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => {
            let supported = &["Always", "Never", "OnFailure"];
            errs.not_supported(path.child("restartPolicy"), other, supported);
        }
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errs.too_many(path, rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        let action = rule.text("action");
        if !matches!(action, "Restart" | "RestartAllContainers") {
            let supported = &["Restart", "RestartAllContainers"];
            errs.not_supported(path.child("action"), action, supported);
        }
        let codes = rule.at("exitCodes");
        if codes.is_null() {
            errs.required(path.child("exitCodes"), "must be specified");
            continue;
        }
        let path = path.child("exitCodes");
        let operator = codes.text("operator");
        if !matches!(operator, "In" | "NotIn") {
            errs.not_supported(path.child("operator"), operator, &["In", "NotIn"]);
        }
        let values = codes.list("values").len();
        if values > 255 {
            errs.too_many(path.child("values"), values, 255);
        }
    }
}
