//! The objects of an operator, in the order of their installation.

use serde_json::{Value, json};

use super::model::Model;
use super::settings::Settings;

/// An object and the file that it belongs to.
pub(crate) struct Document {
    pub(crate) file: &'static str,
    pub(crate) object: Value,
}

const METRICS_FLAG: &str = "--metrics-bind-address";
const HEALTH_FLAG: &str = "--health-probe-bind-address";
const LEADER_FLAG: &str = "--leader-elect";

const METRICS_PORT: u16 = 8443;
const HEALTH_PORT: u16 = 8081;
const WEBHOOK_PORT: u16 = 9443;

/// Returns all objects.
pub(crate) fn all(model: &Model, settings: &Settings) -> Vec<Document> {
    let builder = Builder { model, settings };
    let mut documents = Vec::new();
    let mut add = |file, objects: Vec<Value>| {
        documents.extend(objects.into_iter().map(|object| Document { file, object }));
    };
    add("01-namespace.yaml", vec![builder.namespace()]);
    add("02-crds.yaml", model.crds.clone());
    add("03-rbac.yaml", builder.rbac());
    add("04-user-roles.yaml", builder.user_roles());
    add("05-services.yaml", builder.services());
    add("06-deployment.yaml", builder.deployment());
    if settings.network_policy {
        add("07-network-policy.yaml", vec![builder.network_policy()]);
    }
    if settings.service_monitor && builder.serves_metrics() {
        add("08-service-monitor.yaml", vec![builder.service_monitor()]);
    }
    if let Some(webhooks) = &model.webhooks {
        add("09-webhooks.yaml", webhooks.configurations.clone());
    }
    documents
}

struct Builder<'a> {
    model: &'a Model,
    settings: &'a Settings,
}

impl Builder<'_> {
    /// Whether the operator has an endpoint of metrics.
    fn serves_metrics(&self) -> bool {
        self.model.accepts(METRICS_FLAG)
    }

    /// Whether the operator has an endpoint of health probes.
    fn serves_health(&self) -> bool {
        self.model.accepts(HEALTH_FLAG)
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.model.name})
    }

    /// Returns the metadata of an object in the operator's namespace.
    fn meta(&self, suffix: &str) -> Value {
        let name = format!("{}{suffix}", self.model.name);
        json!({"name": name, "namespace": self.settings.namespace, "labels": self.labels()})
    }

    /// Returns the metadata of a cluster-scoped object.
    fn cluster_meta(&self, suffix: &str) -> Value {
        json!({"name": format!("{}{suffix}", self.model.name), "labels": self.labels()})
    }

    fn namespace(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": self.settings.namespace,
                "labels": {
                    "app.kubernetes.io/name": self.model.name,
                    "pod-security.kubernetes.io/enforce": "restricted",
                },
            },
        })
    }

    fn rbac(&self) -> Vec<Value> {
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.meta(""),
        })];
        if !self.model.rules.is_empty() {
            objects.push(self.cluster_role("", &self.model.rules));
            objects.push(self.cluster_role_binding(""));
        }
        if !self.model.namespace_rules.is_empty() {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": self.meta(""),
                "rules": self.model.namespace_rules,
            }));
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": self.meta(""),
                "roleRef": self.role_ref("Role", ""),
                "subjects": self.subjects(),
            }));
        }
        if !self.serves_metrics() {
            return objects;
        }
        // Clients of the metrics endpoint are authenticated and authorized by the API server.
        let reviews = [
            json!({
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["tokenreviews"],
                "verbs": ["create"],
            }),
            json!({
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["subjectaccessreviews"],
                "verbs": ["create"],
            }),
        ];
        objects.push(self.cluster_role("-metrics-auth", &reviews));
        objects.push(self.cluster_role_binding("-metrics-auth"));
        let metrics = [json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})];
        objects.push(self.cluster_role("-metrics-reader", &metrics));
        objects
    }

    fn cluster_role(&self, suffix: &str, rules: &[Value]) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": self.cluster_meta(suffix),
            "rules": rules,
        })
    }

    fn cluster_role_binding(&self, suffix: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": self.cluster_meta(suffix),
            "roleRef": self.role_ref("ClusterRole", suffix),
            "subjects": self.subjects(),
        })
    }

    fn role_ref(&self, kind: &str, suffix: &str) -> Value {
        json!({
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": format!("{}{suffix}", self.model.name),
        })
    }

    fn subjects(&self) -> Value {
        json!([{
            "kind": "ServiceAccount",
            "name": self.model.name,
            "namespace": self.settings.namespace,
        }])
    }

    /// Returns the roles for users of each CRD, which the built-in roles aggregate.
    fn user_roles(&self) -> Vec<Value> {
        /// Role, verbs on objects, and the built-in role that includes it.
        const ROLES: [(&str, &[&str], &str); 3] = [
            ("admin", &["*"], "admin"),
            ("editor", &["create", "delete", "get", "list", "patch", "update", "watch"], "edit"),
            ("viewer", &["get", "list", "watch"], "view"),
        ];
        let mut objects = Vec::new();
        for crd in &self.model.crds {
            let text = |pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
            let singular = match text("/spec/names/singular") {
                "" => text("/spec/names/kind").to_lowercase(),
                singular => singular.to_owned(),
            };
            for (role, verbs, aggregate) in ROLES {
                let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}");
                let mut metadata = self.cluster_meta(&format!("-{singular}-{role}"));
                metadata["labels"][label] = "true".into();
                objects.push(json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRole",
                    "metadata": metadata,
                    "rules": [
                        {"apiGroups": [group], "resources": [plural], "verbs": verbs},
                        {
                            "apiGroups": [group],
                            "resources": [format!("{plural}/status")],
                            "verbs": ["get"],
                        },
                    ],
                }));
            }
        }
        objects
    }

    fn services(&self) -> Vec<Value> {
        let service = |suffix: &str, port: u16, name: &str, target: u16| {
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": self.meta(suffix),
                "spec": {
                    "selector": self.labels(),
                    "ports": [{"name": name, "port": port, "targetPort": target}],
                },
            })
        };
        let mut services = Vec::new();
        if self.serves_metrics() {
            services.push(service("-metrics", METRICS_PORT, "https", METRICS_PORT));
        }
        if let Some(webhooks) = &self.model.webhooks {
            let mut webhook = service("", webhooks.port, "webhook", WEBHOOK_PORT);
            webhook["metadata"]["name"] = webhooks.service.clone().into();
            services.push(webhook);
        }
        services
    }

    fn deployment(&self) -> Vec<Value> {
        let settings = self.settings;
        let (mut ports, mut arguments) = (Vec::new(), Vec::new());
        if self.model.accepts(LEADER_FLAG) {
            arguments.push(LEADER_FLAG.to_owned());
        }
        if self.serves_metrics() {
            ports.push(json!({"name": "metrics", "containerPort": METRICS_PORT}));
            arguments.push(format!("{METRICS_FLAG}=:{METRICS_PORT}"));
        }
        if self.serves_health() {
            ports.push(json!({"name": "health", "containerPort": HEALTH_PORT}));
            arguments.push(format!("{HEALTH_FLAG}=:{HEALTH_PORT}"));
        }
        if self.model.webhooks.is_some() {
            ports.push(json!({"name": "webhook", "containerPort": WEBHOOK_PORT}));
        }
        let mut container = json!({
            "name": "manager",
            "image": settings.image,
            "args": arguments,
            "env": [{
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            }],
            "ports": ports,
            "resources": {
                "limits": {"cpu": settings.cpu, "memory": settings.memory},
                "requests": {"cpu": "10m", "memory": "32Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        });
        if self.serves_health() {
            let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
            container["livenessProbe"] = probe("/healthz");
            container["readinessProbe"] = probe("/readyz");
        }
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.meta(""),
            "spec": {
                "replicas": settings.replicas,
                "selector": {"matchLabels": self.labels()},
                "template": {
                    "metadata": {"labels": self.labels()},
                    "spec": {
                        "serviceAccountName": self.model.name,
                        // The grace period of the manager is 30 seconds.
                        "terminationGracePeriodSeconds": 40,
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": 65532,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "topologySpreadConstraints": [{
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": self.labels()},
                        }],
                        "containers": [container],
                    },
                },
            },
        });
        let mut objects = vec![deployment];
        if settings.replicas > 1 {
            objects.push(json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": self.meta(""),
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": self.labels()}},
            }));
        }
        objects
    }

    /// Allows ingress to the ports of the operator only. The API server that calls webhooks has no
    /// pod that a peer could select, so these ports are open to all.
    fn network_policy(&self) -> Value {
        let open = [
            (self.serves_metrics(), METRICS_PORT),
            (self.serves_health(), HEALTH_PORT),
            (self.model.webhooks.is_some(), WEBHOOK_PORT),
        ];
        let open = open.into_iter().filter(|(open, _)| *open);
        let ports: Vec<_> =
            open.map(|(_, port)| json!({"port": port, "protocol": "TCP"})).collect();
        // Without ports in a rule, all would be open.
        let ingress = if ports.is_empty() { json!([]) } else { json!([{"ports": ports}]) };
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.meta(""),
            "spec": {
                "podSelector": {"matchLabels": self.labels()},
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        })
    }

    fn service_monitor(&self) -> Value {
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": self.meta(""),
            "spec": {
                "selector": {"matchLabels": self.labels()},
                "endpoints": [{
                    "path": "/metrics",
                    "port": "https",
                    "scheme": "https",
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    // The certificate of the endpoint is self-signed.
                    "tlsConfig": {"insecureSkipVerify": true},
                }],
            },
        })
    }
}
