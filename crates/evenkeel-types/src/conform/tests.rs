//! Decoding JSON as Go does.

use serde_json::{Value, json};

use super::conform;
use crate::{Gvk, lookup};

fn try_conform(object: Value) -> Result<(Value, Vec<String>), String> {
    let mut object = object;
    let text = |name: &str| object[name].as_str().unwrap().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let ty = lookup(Gvk::from_api_version(&api_version, &kind)).unwrap();
    let strict_errors = conform(ty, &mut object).map_err(|error| error.to_string())?;
    Ok((object, strict_errors.iter().map(ToString::to_string).collect()))
}

/// Conforms an object of a built-in kind.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tests pass json! values")]
fn conform_object(kind: &str, body: Value) -> Value {
    let (mut conformed, strict_errors) = try_conform(with_type(kind, &body)).unwrap();
    assert_eq!(strict_errors, Vec::<String>::new());
    let map = conformed.as_object_mut().unwrap();
    map.remove("apiVersion");
    map.remove("kind");
    conformed
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tests pass json! values")]
fn conform_error(kind: &str, body: Value) -> String {
    try_conform(with_type(kind, &body)).unwrap_err()
}

fn with_type(kind: &str, body: &Value) -> Value {
    let api_version = match kind {
        "Deployment" => "apps/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "Lease" => "coordination.k8s.io/v1",
        "AdmissionReview" => "admission.k8s.io/v1",
        "SelfSubjectRulesReview" => "authorization.k8s.io/v1",
        _ => "v1",
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind});
    object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    object
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass json! values")]
fn pod(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn unknown_fields_are_removed_and_reported() {
    let (conformed, strict_errors) = try_conform(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "extra": 1,
        "spec": {"replica": 3, "template": {"spec": {"containers": [{"name": "a", "imag": "b"}]}}},
        "metadata": {"labels": {"any": "thing"}, "na\"me": "x"},
    }))
    .unwrap();
    assert_eq!(
        strict_errors,
        [
            r#"unknown field "extra""#,
            r#"unknown field "metadata.na\"me""#,
            r#"unknown field "spec.replica""#,
            r#"unknown field "spec.template.spec.containers[0].imag""#,
        ]
    );
    assert_eq!(conformed["metadata"], json!({"labels": {"any": "thing"}}));
    assert_eq!(conformed["spec"].get("replica"), None);
}

#[test]
fn strict_errors_are_limited_to_one_hundred() {
    let fields: serde_json::Map<_, _> =
        (0..300).map(|index| (format!("x{index}"), Value::from(1))).collect();
    let (_, strict_errors) = try_conform(with_type("ConfigMap", &Value::Object(fields))).unwrap();
    assert_eq!(strict_errors.len(), 100);
}

#[test]
fn minimal_pod_has_the_fields_that_go_always_prints() {
    assert_eq!(
        conform_object("Pod", pod(json!({"containers": [{"name": "a"}, null]}))),
        json!({
            "metadata": {},
            "spec": {"containers": [
                {"name": "a", "resources": {}},
                {"name": "", "resources": {}},
            ]},
            "status": {},
        })
    );
    assert_eq!(conform_object("Pod", json!({}))["spec"], json!({"containers": null}));
    assert_eq!(
        conform_object("Deployment", json!({}))["spec"],
        json!({
            "selector": null,
            "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": null}},
        })
    );
}

#[test]
fn nulls_and_empty_values_are_removed_unless_they_are_pointers() {
    let conformed = conform_object(
        "Pod",
        pod(json!({
            "containers": [],
            "nodeName": "",
            "hostNetwork": false,
            "priority": 0,
            "activeDeadlineSeconds": null,
            "nodeSelector": {},
            "tolerations": [],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "securityContext": {},
            "volumes": null,
            "schedulingGates": [{"name": ""}],
        })),
    );
    assert_eq!(
        conformed["spec"],
        json!({
            "containers": [],
            "priority": 0,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "securityContext": {},
            "schedulingGates": [{"name": ""}],
        })
    );
}

#[test]
fn quantities_become_canonical() {
    let conformed = conform_object(
        "Pod",
        pod(json!({"containers": [{"name": "a", "resources": {"limits": {
            "cpu": "1000m", "memory": "2048Mi", "pods": 3, "rate": 0.5, "none": null, "kept": " 1 ",
        }}}]})),
    );
    assert_eq!(
        conformed["spec"]["containers"][0]["resources"]["limits"],
        json!({"cpu": "1", "memory": "2Gi", "pods": "3", "rate": "500m", "none": "0", "kept": "1"})
    );
    let limits = |value: Value| {
        pod(json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": value}}}]}))
    };
    let format = "quantities must match the regular expression \
                  '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!(conform_error("Pod", limits(json!("abc"))), format);
    assert_eq!(conform_error("Pod", limits(json!(true))), format);
    assert_eq!(conform_error("Pod", limits(json!("1Q"))), format);
    assert_eq!(conform_error("Pod", limits(json!("1mm"))), "unable to parse quantity's suffix");
}

#[test]
fn times_have_the_precision_of_their_type() {
    let meta = |time: &str| json!({"metadata": {"creationTimestamp": time}});
    let conformed = conform_object("ConfigMap", meta("2026-01-02T03:04:05.678+01:00"));
    assert_eq!(conformed["metadata"]["creationTimestamp"], "2026-01-02T02:04:05Z");
    assert_eq!(conform_object("ConfigMap", meta("0001-01-01T00:00:00Z"))["metadata"], json!({}));
    assert_eq!(
        conform_object("ConfigMap", json!({"metadata": {"creationTimestamp": null}}))["metadata"],
        json!({})
    );
    // A pointer to the zero time is set and prints as null.
    assert_eq!(
        conform_object(
            "ConfigMap",
            json!({"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z"}})
        )["metadata"],
        json!({"deletionTimestamp": null})
    );
    let lease =
        conform_object("Lease", json!({"spec": {"renewTime": "2026-01-02T03:04:05.123456+01:00"}}));
    assert_eq!(lease["spec"]["renewTime"], "2026-01-02T02:04:05.123456Z");
    assert_eq!(
        conform_error("ConfigMap", meta("yesterday")),
        r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#
    );
}

#[test]
fn bytes_are_validated_and_rewritten_only_if_needed() {
    let secret = |value: Value| json!({"data": {"a": value}});
    assert_eq!(conform_object("Secret", secret(json!("aGVsbG8=")))["data"]["a"], "aGVsbG8=");
    assert_eq!(conform_object("Secret", secret(json!("aGVs\nbG8=")))["data"]["a"], "aGVsbG8=");
    assert_eq!(conform_object("Secret", secret(json!(null)))["data"]["a"], Value::Null);
    assert_eq!(conform_object("Secret", secret(json!([104, 105])))["data"]["a"], "aGk=");
    assert_eq!(conform_error("Secret", secret(json!("a!"))), "illegal base64 data at input byte 1");
    assert_eq!(
        conform_error("Secret", secret(json!(1))),
        "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"
    );
}

#[test]
fn wrong_types_are_rejected_with_messages_of_go() {
    let cannot = |what: &str| format!("json: cannot unmarshal {what}");
    for (kind, body, error) in [
        (
            "ConfigMap",
            json!({"data": {"a": 1}}),
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            json!({"data": []}),
            "array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "Pod",
            pod(json!({"containers": "x"})),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            pod(json!({"containers": [{"ports": [{"protocol": 1}]}]})),
            "number into Go struct field ContainerPort.spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            "Pod",
            pod(json!({"containers": ["x"]})),
            "string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Pod",
            pod(json!({"volumes": [{"hostPath": 1}]})),
            "number into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "Deployment",
            json!({"spec": {"replicas": 1.5}}),
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            json!({"spec": {"replicas": 3_000_000_000_u64}}),
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": true}}}}),
            "bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        (
            "ConfigMap",
            json!({"metadata": {"creationTimestamp": 1}}),
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "ConfigMap",
            json!({"metadata": 1}),
            "number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
    ] {
        assert_eq!(conform_error(kind, body), cannot(error));
    }
    let pod = lookup(Gvk::new("", "v1", "Pod")).unwrap();
    assert_eq!(
        conform(pod, &mut json!([])).unwrap_err().to_string(),
        "json: cannot unmarshal array into Go value of type v1.Pod"
    );
}

#[test]
fn schemas_nest_without_strictness_below_their_own_decoders() {
    let crd = |schema: Value| {
        json!({"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}})
    };
    let (conformed, strict_errors) = try_conform(with_type(
        "CustomResourceDefinition",
        &crd(json!({
            "type": "object", "typo": 1, "maximum": 5.0, "minimum": 0.5, "default": {"keep": null},
            "additionalProperties": {"type": "string", "typo": 1},
            "items": [], "enum": [1, null, "a"], "nullable": false,
            "dependencies": {"a": ["b"], "c": {"typo": 1}},
            "properties": {"x": {"typo": 1, "additionalProperties": false}},
        })),
    ))
    .unwrap();
    let path = "spec.versions[0].schema.openAPIV3Schema";
    assert_eq!(
        strict_errors,
        [
            format!(r#"unknown field "{path}.properties.x.typo""#),
            format!(r#"unknown field "{path}.typo""#),
        ]
    );
    assert_eq!(
        conformed["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "type": "object", "maximum": 5, "minimum": 0.5, "default": {"keep": null},
            "additionalProperties": {"type": "string"},
            "items": null, "enum": [1, null, "a"],
            "dependencies": {"a": ["b"], "c": {}},
            "properties": {"x": {"additionalProperties": false}},
        })
    );
    assert_eq!(
        conform_error("CustomResourceDefinition", crd(json!({"additionalProperties": 1}))),
        "boolean or JSON schema expected"
    );
    assert_eq!(
        conform_error(
            "CustomResourceDefinition",
            crd(json!({"items": {"properties": {"x": {"type": 1}}}}))
        ),
        "json: cannot unmarshal number into Go struct field \
         JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.properties.type of type string"
    );
}

#[test]
fn raw_values_and_field_sets_are_unchanged() {
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "any": null});
    let conformed = conform_object(
        "ConfigMap",
        json!({"metadata": {"managedFields": [{"manager": "m", "fieldsV1": fields}]}}),
    );
    assert_eq!(conformed["metadata"]["managedFields"][0]["fieldsV1"], fields);
    let raw = json!({"x": [null, "", 0, {}]});
    let review = conform_object("AdmissionReview", json!({"request": {"object": raw}}));
    assert_eq!(review["request"]["object"], raw);
    assert_eq!(review["request"]["oldObject"], Value::Null);
}

#[test]
fn conformed_objects_are_unchanged() {
    let first = conform_object(
        "Deployment",
        json!({"spec": {"template": {"spec": {"containers": [{
        "name": "a", "resources": {"limits": {"cpu": "1.50", "memory": "1Ei"}}}]}}}}),
    );
    assert_eq!(conform_object("Deployment", first.clone()), first);
}
