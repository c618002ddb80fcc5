//! The Deployments that are applied.

use serde_json::{Value, json};

pub(super) const API_VERSION: &str = "apps/v1";
pub(super) const KIND: &str = "Deployment";

/// Returns a typical Deployment: two containers with probes, ports, resources, variables, volumes.
pub(super) fn typical() -> Value {
    let labels = json!({
        "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-production",
        "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "bench"
    });
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 2
    });
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "typical", "namespace": "default", "labels": labels,
                     "annotations": {"example.org/owner": "team-web"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": "web-production"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"prometheus.io/scrape": "true"}},
                "spec": {
                    "serviceAccountName": "web",
                    "securityContext": {"runAsNonRoot": true, "fsGroup": 2000},
                    "volumes": [
                        {"name": "config", "configMap": {"name": "web"}},
                        {"name": "cache", "emptyDir": {}}
                    ],
                    "containers": [
                        {
                            "name": "web", "image": "registry.example.org/shop/web:1.24.3",
                            "args": ["--config=/etc/web/config.yaml", "--listen=:8080"],
                            "ports": [
                                {"name": "http", "containerPort": 8080, "protocol": "TCP"},
                                {"name": "metrics", "containerPort": 9090, "protocol": "TCP"}
                            ],
                            "env": [
                                {"name": "LOG_LEVEL", "value": "info"},
                                {"name": "DATABASE_HOST", "value": "db.shop.svc"},
                                {"name": "DATABASE_PASSWORD", "valueFrom":
                                    {"secretKeyRef": {"name": "db", "key": "password"}}},
                                {"name": "POD_NAME", "valueFrom":
                                    {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
                            ],
                            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"},
                                          "limits": {"memory": "256Mi"}},
                            "readinessProbe": probe, "livenessProbe": probe,
                            "volumeMounts": [
                                {"name": "config", "mountPath": "/etc/web", "readOnly": true},
                                {"name": "cache", "mountPath": "/var/cache/web"}
                            ],
                            "securityContext": {"allowPrivilegeEscalation": false,
                                                "capabilities": {"drop": ["ALL"]}}
                        },
                        {
                            "name": "proxy", "image": "registry.example.org/mesh/proxy:2.1.0",
                            "args": ["--upstream=127.0.0.1:8080"],
                            "ports": [{"name": "mesh", "containerPort": 15001, "protocol": "TCP"}],
                            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}}
                        }
                    ]
                }
            }
        }
    })
}

/// Like [`typical`], with a `fieldRef` without apiVersion. References are atomic, so every apply
/// removes the apiVersion and defaulting restores it.
pub(super) fn typical_but_for_defaults() -> Value {
    let mut object = typical();
    object["metadata"]["name"] = json!("defaulted");
    let variables = &mut object["spec"]["template"]["spec"]["containers"][0]["env"];
    variables[3]["valueFrom"]["fieldRef"] = json!({"fieldPath": "metadata.name"});
    object
}

/// Returns a Deployment with many containers or many environment variables.
pub(super) fn wide(containers: usize, variables: usize) -> Value {
    let variable = |i| json!({"name": format!("VARIABLE_{i:04}"), "value": format!("value {i}")});
    let variables: Vec<Value> = (0..variables).map(variable).collect();
    let container = |i| {
        json!({
            "name": format!("container-{i:04}"), "image": "registry.example.org/app:v1",
            "args": ["run", "it"], "env": variables,
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}
        })
    };
    let containers: Vec<Value> = (0..containers).map(container).collect();
    let labels = json!({"app": "wide"});
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "wide", "namespace": "default", "labels": labels},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}
    })
}
