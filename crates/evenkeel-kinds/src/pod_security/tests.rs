//! The levels of namespaces, and the violations of pods by level and version.

#![expect(clippy::needless_pass_by_value, reason = "fixtures take values for brevity")]

use serde_json::json;

use super::*;

fn policy(labels: Value) -> (Policy, Vec<String>) {
    let (policy, errors) = Policy::of(labels.as_object());
    (policy, errors.iter().map(ToString::to_string).collect())
}

fn found(level: Level, minor: Option<u32>, spec: Value) -> String {
    let version = minor.map_or(Version::Latest, Version::Minor);
    let pod = json!({"metadata": {}, "spec": spec});
    let pod = pod_of("", "pods", &pod).unwrap();
    details(&violations(LevelVersion { level, version }, pod))
}

fn baseline(spec: Value) -> String {
    found(Level::Baseline, None, spec)
}

#[test]
fn labels_select_levels_and_enforcement_implies_a_warning() {
    let (all, errors) = policy(json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/enforce-version": "v1.25",
        "pod-security.kubernetes.io/audit": "restricted",
    }));
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(all.enforce.to_string(), "baseline:v1.25");
    assert_eq!(all.audit.to_string(), "restricted:latest");
    assert_eq!(all.warn.to_string(), "baseline:v1.25");
    let (none, _) = policy(json!({"other": "label"}));
    assert!(none.is_privileged());
    let (warn, _) = policy(json!({
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "privileged",
    }));
    assert_eq!(warn.warn.to_string(), "privileged:latest");
}

#[test]
fn invalid_labels_enforce_the_most_and_audit_nothing() {
    let (policy, errors) = policy(json!({
        "pod-security.kubernetes.io/enforce": "strict",
        "pod-security.kubernetes.io/audit": "strict",
        "pod-security.kubernetes.io/warn-version": "v1.07",
    }));
    assert_eq!(policy.enforce.to_string(), "restricted:latest");
    assert_eq!(policy.audit.to_string(), "privileged:latest");
    assert_eq!(policy.warn.to_string(), "privileged:latest");
    let levels = "must be one of privileged, baseline, restricted";
    assert_eq!(
        errors,
        [
            format!(
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": \
                 {levels}"
            ),
            format!(
                "metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"strict\": \
                 {levels}"
            ),
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.07\": \
             must be \"latest\" or \"v1.x\""
                .to_owned(),
        ]
    );
}

#[test]
fn baseline_reports_every_violation_in_order() {
    let container = |name: &str| {
        json!({
            "name": name,
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "securityContext": {
                "privileged": true,
                "procMount": "Unmasked",
                "capabilities": {"add": ["NET_RAW", "SYS_ADMIN", "CHOWN"]},
                "seccompProfile": {"type": "Unconfined"},
            },
            "livenessProbe": {"httpGet": {"host": "example.com"}},
        })
    };
    let spec = json!({
        "hostNetwork": true, "hostPID": true,
        "initContainers": [container("i")],
        "containers": [container("a")],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "securityContext": {
            "seLinuxOptions": {"type": "spc_t", "user": "u"},
            "sysctls": [{"name": "kernel.msgmax", "value": "1"}],
            "windowsOptions": {"hostProcess": true},
            "appArmorProfile": {"type": "Unconfined"},
        },
    });
    let containers = "containers \"i\", \"a\"";
    let sorted = "containers \"a\", \"i\"";
    assert_eq!(
        baseline(spec),
        format!(
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \
             \"Unconfined\"), non-default capabilities ({containers} must not include \"NET_RAW\", \
             \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces \
             (hostNetwork=true, hostPID=true), hostPath volumes (volume \"v\"), hostPort \
             ({containers} use hostPort 80), probe or lifecycle host ({sorted} use probe or \
             lifecycle host \"example.com\"), privileged ({containers} must not set \
             securityContext.privileged=true), procMount ({containers} must not set \
             securityContext.procMount to \"Unmasked\"), seLinuxOptions (pod set forbidden \
             securityContext.seLinuxOptions: type \"spc_t\"; user may not be set), seccompProfile \
             ({containers} must not set securityContext.seccompProfile.type to \"Unconfined\"), \
             forbidden sysctls (kernel.msgmax), hostProcess (pod must not set \
             securityContext.windowsOptions.hostProcess=true)"
        )
    );
    assert_eq!(baseline(json!({"containers": [{"name": "a"}]})), "");
}

#[test]
fn restricted_requires_hardened_containers() {
    let plain = json!({
        "containers": [{"name": "a"}],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {}}],
    });
    assert_eq!(
        found(Level::Restricted, None, plain),
        "allowPrivilegeEscalation != false (container \"a\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \
         \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), restricted volume types \
         (volumes \"v\", \"n\" use restricted volume types \"hostPath\", \"nfs\"), runAsNonRoot != \
         true (pod or container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile \
         (pod or container \"a\" must set securityContext.seccompProfile.type to \
         \"RuntimeDefault\" or \"Localhost\")"
    );
    let mut hardened = json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}],
    });
    assert_eq!(found(Level::Restricted, None, hardened.clone()), "");
    hardened["securityContext"]["runAsUser"] = 0.into();
    hardened["containers"][0]["securityContext"]["runAsNonRoot"] = false.into();
    assert_eq!(
        found(Level::Restricted, None, hardened.clone()),
        "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false), \
         runAsUser=0 (pod must not set runAsUser=0)"
    );
    // In a user namespace, root is not the root of the node.
    hardened["hostUsers"] = false.into();
    assert_eq!(found(Level::Restricted, None, hardened.clone()), "");
    let old = found(Level::Restricted, Some(34), hardened);
    assert!(old.starts_with("runAsNonRoot != true"), "{old}");
}

#[test]
fn versions_have_the_checks_of_their_release() {
    let sysctl =
        |name: &str| json!({"securityContext": {"sysctls": [{"name": name}]}, "containers": []});
    let forbidden =
        |minor, name: &str| !found(Level::Baseline, Some(minor), sysctl(name)).is_empty();
    assert!(forbidden(26, "net.ipv4.ip_local_reserved_ports"));
    assert!(!forbidden(27, "net.ipv4.ip_local_reserved_ports"));
    assert!(forbidden(31, "net.ipv4.tcp_rmem"));
    assert!(!forbidden(99, "net.ipv4.tcp_rmem"));
    let plain = || json!({"containers": [{"name": "a"}]});
    assert_eq!(
        found(Level::Restricted, Some(7), plain()),
        "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)"
    );
    let windows = json!({"os": {"name": "windows"}, "containers": [{"name": "a"}]});
    assert!(found(Level::Restricted, Some(24), windows.clone()).contains("seccompProfile"));
    assert!(!found(Level::Restricted, Some(25), windows).contains("seccompProfile"));
    // Before 1.22, the restricted level had the capabilities of the baseline.
    let adding = json!({"containers": [
        {"name": "a", "securityContext": {"capabilities": {"add": ["NET_RAW"]}}},
    ]});
    let before = found(Level::Restricted, Some(21), adding);
    assert!(before.starts_with("non-default capabilities"), "{before}");
}

#[test]
fn templates_of_controllers_are_found() {
    let template = json!({"metadata": {"name": "t"}, "spec": {"containers": []}});
    for (group, plural, object) in [
        ("", "podtemplates", json!({"template": template})),
        ("apps", "deployments", json!({"spec": {"template": template}})),
        ("batch", "cronjobs", json!({"spec": {"jobTemplate": {"spec": {"template": template}}}})),
    ] {
        let pod = pod_of(group, plural, &object).unwrap();
        assert_eq!(pod.metadata["name"], "t", "{plural}");
    }
    assert!(pod_of("", "services", &template).is_none());
}
