//! Objects shared by all sequences: CRDs, since kube-apiserver takes seconds to serve a new one, and
//! policies that keep kube-apiserver's parameter informers running.

use serde_json::{Value, json};

use crate::run::RunError;
use crate::sequence::{Sequence, Step, Until};
use crate::server::Server;
use crate::{RunOptions, run};

/// Creates the shared objects on `server` and waits until the CRDs are served.
///
/// # Errors
///
/// If a connection to the server fails.
pub async fn create(server: &Server) -> Result<(), RunError> {
    let mut steps = Vec::new();
    for crd in [widgets(), loose(), globals()] {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        steps.push(Step::call("POST", path).with_body(crd));
    }
    for kind in ["ConfigMap", "Namespace"] {
        for policy in ["validating", "mutating"] {
            steps.extend(policy_with_parameters(policy, kind));
        }
    }
    steps.extend(wait_until_served());
    let sequence = Sequence { name: "shared".to_owned(), steps, ..Sequence::default() };
    run(server, &sequence, RunOptions { namespace: "setup".to_owned(), ..RunOptions::default() })
        .await?;
    Ok(())
}

/// Returns steps that wait until the shared CRDs are served.
pub(crate) fn wait_until_served() -> Vec<Step> {
    let paths = ["v1/widgets", "v1beta1/widgets", "v1/loose", "v1/globals"];
    paths.iter().map(|path| wait_for(format!("/apis/shared.differ.test/{path}"))).collect()
}

/// Returns a step that waits until a path is served.
pub(super) fn wait_for(path: String) -> Step {
    let mut step = Step::call("GET", path);
    step.until = Some(Until { status: Some(200), ..Until::default() });
    step
}

/// Returns steps that create a policy without effect and its binding.
///
/// kube-apiserver stops the informer of a built-in parameter kind together with the last policy that
/// uses the kind, and a stopped informer never runs again: later policies see parameters as they were.
/// With these policies no sequence has the last one.
fn policy_with_parameters(policy: &str, kind: &str) -> [Step; 2] {
    let name = format!("shared-{}", kind.to_lowercase());
    let mut spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": kind},
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["shared.differ.test"], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["none"],
        }]},
    });
    let mut binding = json!({
        "policyName": name,
        "paramRef": {"name": "none", "parameterNotFoundAction": "Allow"},
    });
    if policy == "validating" {
        spec["validations"] = json!([{"expression": "true"}]);
        binding["validationActions"] = json!(["Deny"]);
    } else {
        spec["reinvocationPolicy"] = json!("Never");
        spec["mutations"] = json!([{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{}"},
        }]);
    }
    let path = format!("/apis/admissionregistration.k8s.io/v1/{policy}admissionpolic");
    [("ies", spec), ("ybindings", binding)].map(|(suffix, spec)| {
        Step::call("POST", format!("{path}{suffix}"))
            .with_body(json!({"metadata": {"name": name}, "spec": spec}))
    })
}

fn widgets() -> Value {
    let spec = json!({
        "type": "object",
        "required": ["color"],
        "properties": {
            "color": {"type": "string", "enum": ["red", "blue", "green"]},
            "size": {"type": "integer", "minimum": 0, "maximum": 100, "default": 10},
            "replicas": {"type": "integer", "format": "int32", "default": 1},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"], "maxItems": 5,
                "items": {
                    "type": "object", "required": ["key"],
                    "properties": {
                        "key": {"type": "string", "pattern": "^[a-z0-9]+$"},
                        "value": {"type": "string", "default": "none"},
                    },
                },
            },
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "maybe": {"type": "string", "nullable": true},
            "nested": {
                "type": "object",
                "properties": {
                    "flag": {"type": "boolean", "default": true},
                    "deep": {
                        "type": "object", "default": {"level": "low"},
                        "properties": {"level": {"type": "string", "maxLength": 5}},
                    },
                },
            },
            "when": {"type": "string", "format": "date-time"},
        },
    });
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "phase": {"type": "string"},
            "selector": {"type": "string"},
        }},
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            }},
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}],
            "additionalPrinterColumns": [
                {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
        })
    };
    crd("widgets", "Widget", "Namespaced", &json!([version("v1", true), version("v1beta1", false)]))
}

fn loose() -> Value {
    let schema = json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"typed": {"type": "string"}},
        }},
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    crd("loose", "Loose", "Namespaced", &json!([version]))
}

fn globals() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"mode": {"type": "string", "enum": ["On", "Off"], "default": "On"}},
    }}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    crd("globals", "Global", "Cluster", &json!([version]))
}

fn crd(plural: &str, kind: &str, scope: &str, versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.shared.differ.test")},
        "spec": {
            "group": "shared.differ.test", "scope": scope, "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
        },
    })
}
