//! The checks, each with upstream's reason and detail.

use std::collections::BTreeSet;

use evenkeel_types::go::Quoted;
use serde_json::Value;

use super::{Pod, Violation};

type Outcome = Option<Violation>;

fn violation(reason: &str, detail: String) -> Violation {
    Violation { reason: reason.to_owned(), detail }
}

/// Returns the containers in upstream's order.
fn containers(pod: Pod<'_>) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |field| pod.spec.get(field).and_then(Value::as_array).into_iter().flatten())
}

fn name(object: &Value) -> &str {
    object.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns a field of the security context of a pod or container, unless it is null.
fn security<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("securityContext")?.get(field).filter(|value| !value.is_null())
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    list(value).filter_map(Value::as_str)
}

fn quote<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    if items.is_empty() { String::new() } else { format!("\"{}\"", items.join("\", \"")) }
}

const fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"`, or `containers "a", "b"`.
fn containers_text(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quote(names))
}

/// Returns the names of the containers that are bad.
fn bad<'a>(pod: Pod<'a>, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
    containers(pod).filter(|container| is_bad(container)).map(name).collect()
}

/// What sets a field: the pod, containers, or both.
fn setters(pod: bool, containers: &[&str]) -> Vec<String> {
    let mut setters = Vec::new();
    if pod {
        setters.push("pod".to_owned());
    }
    if !containers.is_empty() {
        setters.push(containers_text(containers));
    }
    setters
}

fn is_windows(pod: Pod<'_>) -> bool {
    pod.spec.pointer("/os/name").and_then(Value::as_str) == Some("windows")
}

fn has_user_namespace(pod: Pod<'_>) -> bool {
    pod.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
}

// === baseline ===

pub(super) fn app_armor(pod: Pod<'_>) -> Outcome {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut is_bad = |object| {
        let Some(profile) = security(object, "appArmorProfile") else { return false };
        let kind = profile.get("type").and_then(Value::as_str).unwrap_or_default();
        let bad = !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind);
        }
        bad
    };
    let of_pod = is_bad(pod.spec);
    let mut setters = setters(of_pod, &bad(pod, is_bad));
    let annotations = pod.metadata.get("annotations").and_then(Value::as_object);
    let annotations: BTreeSet<String> = annotations
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(ANNOTATION))
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| {
            !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={}", Quoted(value)))
        .collect();
    if !annotations.is_empty() {
        setters.push(plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let count = values.len() + annotations.len();
    let values = values.into_iter().map(str::to_owned).chain(annotations);
    Some(violation(
        plural(count, "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quote(values)
        ),
    ))
}

const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Returns the containers that add other capabilities than `allowed`, and those.
fn added<'a>(pod: Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut others = BTreeSet::new();
    let names = bad(pod, |container| {
        let added = strings(security(container, "capabilities").and_then(|all| all.get("add")));
        let before: Vec<&str> = added.filter(|added| !allowed.contains(added)).collect();
        others.extend(before.iter().copied());
        !before.is_empty()
    });
    (names, others)
}

pub(super) fn default_capabilities(pod: Pod<'_>) -> Outcome {
    let (names, others) = added(pod, DEFAULT_CAPABILITIES);
    (!names.is_empty()).then(|| {
        violation(
            "non-default capabilities",
            format!(
                "{} must not include {} in securityContext.capabilities.add",
                containers_text(&names),
                quote(others)
            ),
        )
    })
}

pub(super) fn host_namespaces(pod: Pod<'_>) -> Outcome {
    let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec.get(*field).and_then(Value::as_bool) == Some(true))
        .map(|field| format!("{field}=true"))
        .collect();
    (!used.is_empty()).then(|| violation("host namespaces", used.join(", ")))
}

pub(super) fn host_path_volumes(pod: Pod<'_>) -> Outcome {
    let names: Vec<&str> = list(pod.spec.get("volumes"))
        .filter(|volume| volume.get("hostPath").is_some_and(|source| !source.is_null()))
        .map(name)
        .collect();
    (!names.is_empty()).then(|| {
        let word = plural(names.len(), "volume", "volumes");
        violation("hostPath volumes", format!("{word} {}", quote(&names)))
    })
}

pub(super) fn host_ports(pod: Pod<'_>) -> Outcome {
    let mut ports = BTreeSet::new();
    let names = bad(pod, |container| {
        let own: Vec<String> = list(container.get("ports"))
            .filter_map(|port| port.get("hostPort")?.as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        let uses = !own.is_empty();
        ports.extend(own);
        uses
    });
    (!names.is_empty()).then(|| {
        let (uses, word) =
            (plural(names.len(), "uses", "use"), plural(ports.len(), "hostPort", "hostPorts"));
        let ports: Vec<String> = ports.into_iter().collect();
        let ports = ports.join(", ");
        violation("hostPort", format!("{} {uses} {word} {ports}", containers_text(&names)))
    })
}

pub(super) fn probe_hosts(pod: Pod<'_>) -> Outcome {
    const HANDLERS: &[&str] = &[
        "/livenessProbe",
        "/readinessProbe",
        "/startupProbe",
        "/lifecycle/postStart",
        "/lifecycle/preStop",
    ];
    let mut hosts = BTreeSet::new();
    let names: BTreeSet<&str> = bad(pod, |container| {
        let handlers = HANDLERS.iter().filter_map(|handler| container.pointer(handler));
        let found: Vec<&str> = handlers
            .flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| handler.get(action)))
            .filter_map(|action| action?.get("host")?.as_str())
            .filter(|host| !host.is_empty())
            .collect();
        hosts.extend(found.iter().copied());
        !found.is_empty()
    })
    .into_iter()
    .collect();
    (!names.is_empty()).then(|| {
        let names: Vec<&str> = names.into_iter().collect();
        let uses = plural(names.len(), "uses", "use");
        let word = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
        let detail = format!("{} {uses} {word} {}", containers_text(&names), quote(hosts));
        violation("probe or lifecycle host", detail)
    })
}

pub(super) fn privileged(pod: Pod<'_>) -> Outcome {
    let names = bad(pod, |container| {
        security(container, "privileged").and_then(Value::as_bool) == Some(true)
    });
    (!names.is_empty()).then(|| {
        let names = containers_text(&names);
        violation("privileged", format!("{names} must not set securityContext.privileged=true"))
    })
}

pub(super) fn proc_mount(pod: Pod<'_>) -> Outcome {
    let mut kinds = BTreeSet::new();
    let names = bad(pod, |container| {
        let kind = security(container, "procMount").and_then(Value::as_str);
        let kind = kind.filter(|kind| *kind != "Default");
        kinds.extend(kind);
        kind.is_some()
    });
    (!names.is_empty()).then(|| {
        let (names, kinds) = (containers_text(&names), quote(kinds));
        violation("procMount", format!("{names} must not set securityContext.procMount to {kinds}"))
    })
}

pub(super) fn proc_mount_unless_user_namespace(pod: Pod<'_>) -> Outcome {
    if has_user_namespace(pod) { None } else { proc_mount(pod) }
}

pub(super) fn selinux_before_1_31(pod: Pod<'_>) -> Outcome {
    selinux_types(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn selinux(pod: Pod<'_>) -> Outcome {
    const TYPES: &[&str] =
        &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    selinux_types(pod, TYPES)
}

fn selinux_types(pod: Pod<'_>, allowed: &[&str]) -> Outcome {
    let mut types = BTreeSet::new();
    let (mut user, mut role) = (false, false);
    let mut is_bad = |object| {
        let Some(options) = security(object, "seLinuxOptions") else { return false };
        let text = |field: &str| options.get(field).and_then(Value::as_str).unwrap_or_default();
        let bad_type = !allowed.contains(&text("type"));
        if bad_type {
            types.insert(text("type"));
        }
        let (sets_user, sets_role) = (!text("user").is_empty(), !text("role").is_empty());
        user |= sets_user;
        role |= sets_role;
        bad_type || sets_user || sets_role
    };
    let of_pod = is_bad(pod.spec);
    let setters = setters(of_pod, &bad(pod, is_bad));
    if setters.is_empty() {
        return None;
    }
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural(types.len(), "type", "types"), quote(types)));
    }
    if user {
        data.push("user may not be set".to_owned());
    }
    if role {
        data.push("role may not be set".to_owned());
    }
    let (setters, data) = (setters.join(" and "), data.join("; "));
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {data}");
    Some(violation("seLinuxOptions", detail))
}

pub(super) fn seccomp_annotations(pod: Pod<'_>) -> Outcome {
    let annotation = |key: &str| {
        let value = pod.metadata.get("annotations")?.get(key)?.as_str()?;
        let valid = matches!(value, "runtime/default" | "docker/default")
            || value.starts_with("localhost/");
        (!valid).then(|| format!("{key}={}", Quoted(value)))
    };
    let of_pod = annotation("seccomp.security.alpha.kubernetes.io/pod");
    let of_containers = containers(pod).filter_map(|container| {
        annotation(&format!("container.seccomp.security.alpha.kubernetes.io/{}", name(container)))
    });
    let forbidden: BTreeSet<String> = of_pod.into_iter().chain(of_containers).collect();
    (!forbidden.is_empty()).then(|| {
        let word = plural(forbidden.len(), "annotation", "annotations");
        let forbidden: Vec<String> = forbidden.into_iter().collect();
        violation("seccompProfile", format!("forbidden {word} {}", forbidden.join(", ")))
    })
}

/// Returns the type of the seccomp profile of a pod or container.
fn seccomp(object: &Value) -> Option<&str> {
    let profile = security(object, "seccompProfile")?;
    Some(profile.get("type").and_then(Value::as_str).unwrap_or_default())
}

fn is_seccomp_valid(kind: &str) -> bool {
    matches!(kind, "Localhost" | "RuntimeDefault")
}

pub(super) fn seccomp_not_unconfined(pod: Pod<'_>) -> Outcome {
    let mut values = BTreeSet::new();
    let mut is_bad = |object| {
        let kind = seccomp(object).filter(|kind| !is_seccomp_valid(kind));
        values.extend(kind);
        kind.is_some()
    };
    let of_pod = is_bad(pod.spec);
    let setters = setters(of_pod, &bad(pod, is_bad));
    (!setters.is_empty()).then(|| {
        let (setters, values) = (setters.join(" and "), quote(values));
        let detail =
            format!("{setters} must not set securityContext.seccompProfile.type to {values}");
        violation("seccompProfile", detail)
    })
}

const SYSCTLS: &[(u32, &str)] = &[
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

fn sysctls_of(pod: Pod<'_>, minor: u32) -> Outcome {
    let allowed =
        |name: &str| SYSCTLS.iter().any(|(since, known)| *since <= minor && *known == name);
    let forbidden: Vec<&str> =
        list(security(pod.spec, "sysctls")).map(name).filter(|name| !allowed(name)).collect();
    (!forbidden.is_empty()).then(|| violation("forbidden sysctls", forbidden.join(", ")))
}

pub(super) fn sysctls_before_1_27(pod: Pod<'_>) -> Outcome {
    sysctls_of(pod, 0)
}

pub(super) fn sysctls_before_1_29(pod: Pod<'_>) -> Outcome {
    sysctls_of(pod, 27)
}

pub(super) fn sysctls_before_1_32(pod: Pod<'_>) -> Outcome {
    sysctls_of(pod, 29)
}

pub(super) fn sysctls(pod: Pod<'_>) -> Outcome {
    sysctls_of(pod, 32)
}

pub(super) fn host_process(pod: Pod<'_>) -> Outcome {
    let is_bad = |object: &Value| {
        let options = security(object, "windowsOptions");
        options.and_then(|options| options.get("hostProcess")?.as_bool()) == Some(true)
    };
    let setters = setters(is_bad(pod.spec), &bad(pod, is_bad));
    (!setters.is_empty()).then(|| {
        let setters = setters.join(" and ");
        let detail =
            format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
        violation("hostProcess", detail)
    })
}

// === restricted ===

pub(super) fn privilege_escalation(pod: Pod<'_>) -> Outcome {
    let names = bad(pod, |container| {
        let allows = security(container, "allowPrivilegeEscalation").and_then(Value::as_bool);
        allows != Some(false)
    });
    (!names.is_empty()).then(|| {
        let names = containers_text(&names);
        let detail = format!("{names} must set securityContext.allowPrivilegeEscalation=false");
        violation("allowPrivilegeEscalation != false", detail)
    })
}

pub(super) fn privilege_escalation_unless_windows(pod: Pod<'_>) -> Outcome {
    if is_windows(pod) { None } else { privilege_escalation(pod) }
}

pub(super) fn drop_capabilities(pod: Pod<'_>) -> Outcome {
    let keeping = bad(pod, |container| {
        let dropped = security(container, "capabilities").and_then(|all| all.get("drop"));
        !strings(dropped).any(|dropped| dropped == "ALL")
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let names = containers_text(&keeping);
        details.push(format!("{names} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    let (adding, added) = added(pod, &["NET_BIND_SERVICE"]);
    if !adding.is_empty() {
        let (names, added) = (containers_text(&adding), quote(added));
        details
            .push(format!("{names} must not include {added} in securityContext.capabilities.add"));
    }
    (!details.is_empty()).then(|| violation("unrestricted capabilities", details.join("; ")))
}

pub(super) fn drop_capabilities_unless_windows(pod: Pod<'_>) -> Outcome {
    if is_windows(pod) { None } else { drop_capabilities(pod) }
}

const ALLOWED_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// In the order in which the type of a volume is determined.
const OTHER_VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn volume_types(pod: Pod<'_>) -> Outcome {
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in list(pod.spec.get("volumes")) {
        let has = |source: &&&str| volume.get(**source).is_some_and(|source| !source.is_null());
        if !ALLOWED_VOLUMES.iter().any(|source| has(&source)) {
            names.push(name(volume));
            types.insert(OTHER_VOLUMES.iter().find(has).copied().unwrap_or("unknown"));
        }
    }
    (!names.is_empty()).then(|| {
        let (word, uses) =
            (plural(names.len(), "volume", "volumes"), plural(names.len(), "uses", "use"));
        let what = plural(types.len(), "restricted volume type", "restricted volume types");
        let (names, types) = (quote(names), quote(types));
        violation("restricted volume types", format!("{word} {names} {uses} {what} {types}"))
    })
}

pub(super) fn run_as_non_root(pod: Pod<'_>) -> Outcome {
    let setting = |object: &Value| security(object, "runAsNonRoot").and_then(Value::as_bool);
    let of_pod = setting(pod.spec);
    let explicit = bad(pod, |container| setting(container) == Some(false));
    let setters = setters(of_pod == Some(false), &explicit);
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some(violation("runAsNonRoot != true", detail));
    }
    let implicit = bad(pod, |container| setting(container).is_none() && of_pod != Some(true));
    (!implicit.is_empty()).then(|| {
        let names = containers_text(&implicit);
        let detail = format!("pod or {names} must set securityContext.runAsNonRoot=true");
        violation("runAsNonRoot != true", detail)
    })
}

pub(super) fn run_as_non_root_unless_user_namespace(pod: Pod<'_>) -> Outcome {
    if has_user_namespace(pod) { None } else { run_as_non_root(pod) }
}

pub(super) fn run_as_user(pod: Pod<'_>) -> Outcome {
    let is_root = |object: &Value| security(object, "runAsUser").and_then(Value::as_i64) == Some(0);
    let setters = setters(is_root(pod.spec), &bad(pod, is_root));
    (!setters.is_empty()).then(|| {
        violation("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
    })
}

pub(super) fn run_as_user_unless_user_namespace(pod: Pod<'_>) -> Outcome {
    if has_user_namespace(pod) { None } else { run_as_user(pod) }
}

pub(super) fn seccomp_set(pod: Pod<'_>) -> Outcome {
    if let Some(unconfined) = seccomp_not_unconfined(pod) {
        return Some(unconfined);
    }
    let of_pod = seccomp(pod.spec).is_some();
    let implicit = bad(pod, |container| seccomp(container).is_none() && !of_pod);
    (!implicit.is_empty()).then(|| {
        let names = containers_text(&implicit);
        let detail = format!(
            "pod or {names} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\""
        );
        violation("seccompProfile", detail)
    })
}

pub(super) fn seccomp_set_unless_windows(pod: Pod<'_>) -> Outcome {
    if is_windows(pod) { None } else { seccomp_set(pod) }
}
