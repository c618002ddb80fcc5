//! The objects that pods and volumes refer to by name, and thus the nodes that run them may read.

use serde_json::Value;

/// The annotation of pods that kubelets create for static pods.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The sources of volumes of pods whose `secretRef` names a Secret.
const POD_SECRET_REFS: [&str; 7] =
    ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];

/// The references of a CSI PersistentVolume that kubelets use.
const CSI_SECRET_REFS: [&str; 3] =
    ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// Returns whether a kubelet created the pod for a static pod.
pub fn is_mirror(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a name that is not empty.
fn name<'a>(reference: &'a Value, field: &str) -> Option<&'a str> {
    reference[field].as_str().filter(|name| !name.is_empty())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    CONTAINERS.iter().flat_map(|field| list(&pod["spec"][*field]))
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    list(&pod["spec"]["volumes"])
}

/// Returns the names in environments of containers: those of `source` and of `key_ref`.
fn in_environments<'a>(pod: &'a Value, source: &str, key_ref: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for container in containers(pod) {
        names.extend(list(&container["envFrom"]).filter_map(|from| name(&from[source], "name")));
        let variables = list(&container["env"]);
        names.extend(variables.filter_map(|it| name(&it["valueFrom"][key_ref], "name")));
    }
    names
}

/// Returns the names in projected volumes.
fn projected<'a>(volume: &'a Value, source: &str) -> impl Iterator<Item = &'a str> {
    let sources = list(&volume["projected"]["sources"]);
    sources.filter_map(move |it| name(&it[source], "name"))
}

/// Returns the names of the Secrets that a pod refers to.
pub fn secrets_of_pod(pod: &Value) -> Vec<&str> {
    let mut names = in_environments(pod, "secretRef", "secretKeyRef");
    names.extend(list(&pod["spec"]["imagePullSecrets"]).filter_map(|it| name(it, "name")));
    for volume in volumes(pod) {
        names.extend(projected(volume, "secret"));
        names.extend(name(&volume["secret"], "secretName"));
        names.extend(name(&volume["azureFile"], "secretName"));
        names.extend(name(&volume["csi"]["nodePublishSecretRef"], "name"));
        let sources = POD_SECRET_REFS.iter();
        names.extend(sources.filter_map(|source| name(&volume[*source]["secretRef"], "name")));
    }
    names
}

/// Returns the names of the ConfigMaps that a pod refers to.
pub fn config_maps_of_pod(pod: &Value) -> Vec<&str> {
    let mut names = in_environments(pod, "configMapRef", "configMapKeyRef");
    for volume in volumes(pod) {
        names.extend(projected(volume, "configMap"));
        names.extend(name(&volume["configMap"], "name"));
    }
    names
}

/// Returns the names of the PersistentVolumeClaims of a pod, those of ephemeral volumes included.
pub fn claims_of_pod(pod: &Value) -> Vec<String> {
    volumes(pod).filter_map(|volume| claim_of_volume(pod, volume)).collect()
}

/// Returns the name of the PersistentVolumeClaim of a volume of a pod.
pub fn claim_of_volume(pod: &Value, volume: &Value) -> Option<String> {
    let named = name(&volume["persistentVolumeClaim"], "claimName").map(str::to_owned);
    named.or_else(|| {
        let ephemeral = volume.get("ephemeral").filter(|source| source.is_object());
        let volume = ephemeral.and_then(|_| name(volume, "name"))?;
        let pod = pod["metadata"]["name"].as_str().unwrap_or_default();
        Some(format!("{pod}-{volume}"))
    })
}

/// Returns the names of the ResourceClaims of a pod.
pub fn resource_claims_of_pod(pod: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = list(&pod["spec"]["resourceClaims"])
        .filter_map(|claim| {
            name(claim, "resourceClaimName").or_else(|| {
                let mut created = list(&pod["status"]["resourceClaimStatuses"]);
                let created = created.find(|created| created["name"] == claim["name"])?;
                name(created, "resourceClaimName")
            })
        })
        .collect();
    names.extend(name(&pod["status"]["extendedResourceClaimStatus"], "resourceClaimName"));
    names
}

/// Returns namespaces and names of the Secrets of a PersistentVolume that kubelets use. The
/// namespace is that of the claim unless it is set.
pub fn secrets_of_volume(volume: &Value) -> Vec<(&str, &str)> {
    let spec = &volume["spec"];
    let claim = spec["claimRef"]["namespace"].as_str().unwrap_or_default();
    let sources = POD_SECRET_REFS.iter().map(|source| &spec[*source]["secretRef"]);
    let csi = CSI_SECRET_REFS.iter().map(|field| &spec["csi"][*field]);
    let mut secrets: Vec<(&str, &str)> = sources
        .chain(csi)
        .filter_map(|found| Some((name(found, "namespace").unwrap_or(claim), name(found, "name")?)))
        .collect();
    let azure = &spec["azureFile"];
    let namespace = name(azure, "secretNamespace").unwrap_or(claim);
    secrets.extend(name(azure, "secretName").map(|name| (namespace, name)));
    secrets
}

/// Returns the kind of the first API object that a pod refers to, in upstream's words. Pods that a
/// node creates must not refer to any.
pub fn first_of_pod(pod: &Value) -> Option<&'static str> {
    if name(&pod["spec"], "serviceAccountName").is_some() {
        return Some("serviceaccounts");
    }
    if !secrets_of_pod(pod).is_empty() {
        return Some("secrets");
    }
    if !config_maps_of_pod(pod).is_empty() {
        return Some("configmaps");
    }
    if list(&pod["spec"]["resourceClaims"]).next().is_some() {
        return Some("resourceclaims");
    }
    volumes(pod).find_map(of_volume)
}

fn of_volume(volume: &Value) -> Option<&'static str> {
    const SOURCES: [(&str, &str); 7] = [
        ("configMap", "configmaps (via configmap volumes)"),
        ("secret", "secrets (via secret volumes)"),
        ("csi", "csidrivers (via CSI volumes)"),
        ("glusterfs", "endpoints (via glusterFS volumes)"),
        ("persistentVolumeClaim", "persistentvolumeclaims"),
        ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        ("azureFile", "secrets (via azureFile volumes)"),
    ];
    const PROJECTED: [(&str, &str); 5] = [
        ("configMap", "configmaps (via projected volumes)"),
        ("secret", "secrets (via projected volumes)"),
        ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
        ("clusterTrustBundle", "clustertrustbundles"),
        ("podCertificate", "podcertificates"),
    ];
    let found = |source: &Value, table: &[(&str, &'static str)]| {
        let mut table = table.iter();
        table.find(|(field, _)| source[*field].is_object()).map(|(_, what)| *what)
    };
    found(volume, &SOURCES).or_else(|| {
        list(&volume["projected"]["sources"]).find_map(|source| found(source, &PROJECTED))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_reference_of_a_pod_is_found() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "imagePullSecrets": [{"name": "pull"}, {}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "s1"}}]}],
                "containers": [{
                    "envFrom": [{"configMapRef": {"name": "c1"}}],
                    "env": [
                        {"valueFrom": {"secretKeyRef": {"name": "s2"}}},
                        {"valueFrom": {"configMapKeyRef": {"name": "c2"}}},
                    ],
                }],
                "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s3"}}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "s4"}},
                    {"name": "b", "configMap": {"name": "c3"}},
                    {"name": "c", "projected": {"sources": [
                        {"secret": {"name": "s5"}}, {"configMap": {"name": "c4"}},
                    ]}},
                    {"name": "d", "iscsi": {"secretRef": {"name": "s6"}}},
                    {"name": "e", "persistentVolumeClaim": {"claimName": "pvc"}},
                    {"name": "f", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "g", "csi": {"nodePublishSecretRef": {"name": "s7"}}},
                ],
                "resourceClaims": [
                    {"name": "x", "resourceClaimName": "rc1"},
                    {"name": "y", "resourceClaimTemplateName": "t"},
                ],
            },
            "status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "rc2"}]},
        });
        let mut secrets = secrets_of_pod(&pod);
        secrets.sort_unstable();
        assert_eq!(secrets, ["pull", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
        let mut maps = config_maps_of_pod(&pod);
        maps.sort_unstable();
        assert_eq!(maps, ["c1", "c2", "c3", "c4"]);
        assert_eq!(claims_of_pod(&pod), ["pvc", "p-f"]);
        assert_eq!(resource_claims_of_pod(&pod), ["rc1", "rc2"]);
    }

    #[test]
    fn secrets_of_a_volume_are_in_the_namespace_of_its_claim_unless_set() {
        let volume = json!({"spec": {
            "claimRef": {"namespace": "ns", "name": "c"},
            "rbd": {"secretRef": {"name": "a"}},
            "azureFile": {"secretName": "b", "secretNamespace": "other"},
            "csi": {
                "nodeStageSecretRef": {"name": "c", "namespace": "x"},
                "controllerPublishSecretRef": {"name": "d", "namespace": "x"},
            },
        }});
        assert_eq!(secrets_of_volume(&volume), [("ns", "a"), ("x", "c"), ("other", "b")]);
    }

    #[test]
    fn pods_of_nodes_refer_to_no_api_objects() {
        let of = |spec: Value| first_of_pod(&json!({"spec": spec}));
        assert_eq!(of(json!({"volumes": [{"hostPath": {"path": "/"}}]})), None);
        assert_eq!(of(json!({"serviceAccountName": "a"})), Some("serviceaccounts"));
        let projected = json!([{"projected": {"sources": [{"serviceAccountToken": {}}]}}]);
        let expected = Some("serviceaccounts (via projected volumes)");
        assert_eq!(of(json!({"volumes": projected})), expected);
        let claim = json!([{"persistentVolumeClaim": {"claimName": "c"}}]);
        assert_eq!(of(json!({"volumes": claim})), Some("persistentvolumeclaims"));
    }
}
