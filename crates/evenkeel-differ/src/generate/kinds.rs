//! The kinds that sequences use: how to create an object of each kind, and how to change it.

use serde_json::{Value, json};

use super::random::Random;

/// A kind, its paths and sample values.
pub(super) struct Kind {
    pub(super) base: &'static str,
    pub(super) plural: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) custom: bool,
    pub(super) scale: bool,
    pub(super) make: fn(&mut Random) -> Value,
    /// JSON pointers and values to set, valid and invalid.
    pub(super) edits: &'static [(&'static str, &'static str)],
    /// The same for the status subresource.
    pub(super) status: &'static [(&'static str, &'static str)],
    /// Field selectors.
    pub(super) fields: &'static [&'static str],
}

const EMPTY: Kind = Kind {
    base: "/api/v1",
    plural: "",
    api_version: "v1",
    kind: "",
    namespaced: true,
    custom: false,
    scale: false,
    make: |_| json!({}),
    edits: &[],
    status: &[],
    fields: &[],
};

const APPS: Kind = Kind { base: "/apis/apps/v1", api_version: "apps/v1", scale: true, ..EMPTY };
const BATCH: Kind = Kind { base: "/apis/batch/v1", api_version: "batch/v1", ..EMPTY };
const RBAC: Kind = Kind {
    base: "/apis/rbac.authorization.k8s.io/v1",
    api_version: "rbac.authorization.k8s.io/v1",
    ..EMPTY
};
const NETWORKING: Kind =
    Kind { base: "/apis/networking.k8s.io/v1", api_version: "networking.k8s.io/v1", ..EMPTY };
const SHARED: Kind = Kind {
    base: "/apis/shared.differ.test/v1",
    api_version: "shared.differ.test/v1",
    custom: true,
    ..EMPTY
};

const TEMPLATE_EDITS: &[(&str, &str)] = &[
    ("/spec/replicas", "3"),
    ("/spec/replicas", "0"),
    ("/spec/replicas", "-1"),
    ("/spec/replicas", "\"two\""),
    ("/spec/template/spec/containers/0/image", "\"image:2\""),
    ("/spec/template/spec/containers/0/env", "[{\"name\":\"A\",\"value\":\"1\"}]"),
    ("/spec/template/metadata/labels/extra", "\"1\""),
    ("/spec/selector", "{\"matchLabels\":{\"app\":\"other\"}}"),
    ("/spec/template/spec/containers", "[]"),
    ("/spec/minReadySeconds", "5"),
    ("/spec/revisionHistoryLimit", "3"),
];

/// All kinds: built-in kinds first, then those of the shared CRDs.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "configmaps",
        kind: "ConfigMap",
        make: |random| match random.below(4) {
            0 => json!({"data": {"a": "1", "b": "2"}}),
            1 => json!({"data": {"a": "1"}, "binaryData": {"z": "AAEC"}}),
            2 => json!({"data": {"a": "1"}, "immutable": true}),
            _ => json!({}),
        },
        edits: &[
            ("/data/a", "\"2\""),
            ("/data/c", "\"3\""),
            ("/data", "null"),
            ("/data/a", "5"),
            ("/binaryData/q", "\"AQ==\""),
            ("/binaryData/q", "\"not base64!\""),
            ("/data/bad key", "\"1\""),
            ("/immutable", "true"),
        ],
        ..EMPTY
    },
    Kind {
        plural: "secrets",
        kind: "Secret",
        make: |random| match random.below(4) {
            0 => json!({"stringData": {"a": "text"}}),
            1 => json!({"data": {"a": "dGV4dA=="}, "type": "Opaque"}),
            2 => json!({"type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}}),
            _ => json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
        },
        edits: &[
            ("/stringData/b", "\"x\""),
            ("/data/a", "\"eA==\""),
            ("/type", "\"other\""),
            ("/immutable", "true"),
        ],
        fields: &["type=Opaque", "type!=Opaque"],
        ..EMPTY
    },
    Kind {
        plural: "services",
        kind: "Service",
        make: |random| match random.below(5) {
            0 => json!({"spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}),
            1 => {
                json!({"spec": {"clusterIP": "None", "ports": [{"name": "a", "port": 80, "targetPort": "http"}]}})
            }
            2 => json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}}),
            3 => json!({"spec": {"type": "ExternalName", "externalName": "example.com"}}),
            _ => {
                json!({"spec": {"type": "LoadBalancer", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}})
            }
        },
        edits: &[
            ("/spec/ports/0/port", "81"),
            ("/spec/ports/0/port", "0"),
            ("/spec/selector/tier", "\"db\""),
            ("/spec/type", "\"NodePort\""),
            ("/spec/type", "\"ClusterIP\""),
            ("/spec/sessionAffinity", "\"ClientIP\""),
            ("/spec/ports", "[{\"port\":1},{\"port\":2}]"),
        ],
        status: &[("/status/loadBalancer/ingress", "[{\"ip\":\"192.0.2.1\"}]")],
        ..EMPTY
    },
    Kind {
        plural: "pods",
        kind: "Pod",
        make: |random| {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "image:1"}]}});
            match random.below(6) {
                0 => pod["spec"]["restartPolicy"] = "Never".into(),
                1 => pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]),
                2 => {
                    pod["spec"]["containers"][0]["resources"] =
                        json!({"limits": {"cpu": "500m", "memory": "1Gi"}});
                }
                3 => pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]),
                4 => {
                    pod["spec"]["containers"][0]["livenessProbe"] =
                        json!({"httpGet": {"port": 80}, "periodSeconds": 3});
                }
                _ => {}
            }
            pod
        },
        edits: &[
            ("/spec/containers/0/image", "\"image:2\""),
            ("/spec/containers/0/name", "\"d\""),
            ("/spec/activeDeadlineSeconds", "100"),
            ("/spec/tolerations", "[{\"key\":\"k\",\"operator\":\"Exists\"}]"),
            ("/spec/nodeName", "\"n1\""),
            ("/spec/restartPolicy", "\"Sometimes\""),
            ("/spec/containers/0/resources/limits/cpu", "\"1x\""),
        ],
        status: &[
            ("/status/phase", "\"Running\""),
            ("/status/phase", "\"Succeeded\""),
            ("/status/conditions", "[{\"type\":\"Ready\",\"status\":\"True\"}]"),
            ("/status/podIP", "\"192.0.2.7\""),
        ],
        fields: &["status.phase=Pending", "spec.nodeName=", "spec.restartPolicy!=Never"],
        ..EMPTY
    },
    Kind {
        plural: "deployments",
        kind: "Deployment",
        make: |random| {
            let mut spec = workload();
            if random.percent(30) {
                spec["replicas"] = random.below(5).into();
            }
            if random.percent(20) {
                spec["strategy"] = json!({"type": "Recreate"});
            }
            json!({"spec": spec})
        },
        edits: TEMPLATE_EDITS,
        status: &[
            ("/status/replicas", "1"),
            ("/status/observedGeneration", "1"),
            (
                "/status/conditions",
                "[{\"type\":\"Available\",\"status\":\"True\",\"reason\":\"r\",\"message\":\"m\"}]",
            ),
            ("/status/readyReplicas", "9"),
        ],
        ..APPS
    },
    Kind {
        plural: "statefulsets",
        kind: "StatefulSet",
        make: |random| {
            let mut spec = workload();
            spec["serviceName"] = "s".into();
            if random.percent(30) {
                spec["podManagementPolicy"] = "Parallel".into();
            }
            json!({"spec": spec})
        },
        edits: TEMPLATE_EDITS,
        status: &[("/status/replicas", "2"), ("/status/currentRevision", "\"r1\"")],
        ..APPS
    },
    Kind {
        plural: "replicasets",
        kind: "ReplicaSet",
        make: |_| json!({"spec": workload()}),
        edits: TEMPLATE_EDITS,
        status: &[("/status/replicas", "2")],
        fields: &["status.replicas=0"],
        ..APPS
    },
    Kind {
        plural: "daemonsets",
        kind: "DaemonSet",
        scale: false,
        make: |_| json!({"spec": workload()}),
        edits: TEMPLATE_EDITS,
        status: &[("/status/desiredNumberScheduled", "2")],
        ..APPS
    },
    Kind {
        plural: "jobs",
        kind: "Job",
        make: |random| {
            let mut job = json!({"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}],
            }}}});
            if random.percent(30) {
                job["spec"]["completions"] = 3.into();
                job["spec"]["parallelism"] = 2.into();
            }
            if random.percent(15) {
                job["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
            }
            job
        },
        edits: &[
            ("/spec/parallelism", "4"),
            ("/spec/suspend", "true"),
            ("/spec/backoffLimit", "-1"),
            ("/spec/ttlSecondsAfterFinished", "10"),
        ],
        status: &[("/status/active", "1")],
        ..BATCH
    },
    Kind {
        plural: "cronjobs",
        kind: "CronJob",
        make: |random| {
            json!({"spec": {
                "schedule": *random.pick(&["*/5 * * * *", "@hourly", "not a schedule"]),
                "jobTemplate": {"spec": {"template": {"spec": {
                    "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "image"}],
                }}}},
            }})
        },
        edits: &[
            ("/spec/suspend", "true"),
            ("/spec/schedule", "\"0 0 * * *\""),
            ("/spec/concurrencyPolicy", "\"Forbid\""),
            ("/spec/concurrencyPolicy", "\"Whatever\""),
            ("/spec/timeZone", "\"Etc/UTC\""),
        ],
        status: &[("/status/lastScheduleTime", "\"2001-01-01T00:00:00Z\"")],
        ..BATCH
    },
    Kind {
        plural: "serviceaccounts",
        kind: "ServiceAccount",
        make: |random| match random.below(3) {
            0 => json!({"automountServiceAccountToken": false}),
            1 => json!({"imagePullSecrets": [{"name": "s"}]}),
            _ => json!({}),
        },
        edits: &[("/automountServiceAccountToken", "true"), ("/secrets", "[{\"name\":\"x\"}]")],
        ..EMPTY
    },
    Kind {
        plural: "persistentvolumeclaims",
        kind: "PersistentVolumeClaim",
        make: |random| {
            json!({"spec": {
                "accessModes": [*random.pick(&["ReadWriteOnce", "ReadWriteMany", "Bogus"])],
                "resources": {"requests": {"storage": *random.pick(&["1Gi", "500Mi", "0"])}},
            }})
        },
        edits: &[("/spec/resources/requests/storage", "\"2Gi\""), ("/spec/volumeName", "\"pv\"")],
        status: &[("/status/phase", "\"Bound\"")],
        ..EMPTY
    },
    Kind {
        plural: "roles",
        kind: "Role",
        make: |random| match random.below(3) {
            0 => json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            1 => json!({"rules": [{"resources": ["pods"]}]}),
            _ => json!({}),
        },
        edits: &[(
            "/rules",
            "[{\"apiGroups\":[\"apps\"],\"resources\":[\"*\"],\"verbs\":[\"*\"]}]",
        )],
        ..RBAC
    },
    Kind {
        plural: "rolebindings",
        kind: "RoleBinding",
        make: |random| {
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": *random.pick(&["Role", "ClusterRole", "Other"]), "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}],
            })
        },
        edits: &[
            (
                "/subjects",
                "[{\"kind\":\"User\",\"name\":\"u\",\"apiGroup\":\"rbac.authorization.k8s.io\"}]",
            ),
            ("/roleRef/name", "\"other\""),
        ],
        ..RBAC
    },
    Kind {
        plural: "ingresses",
        kind: "Ingress",
        make: |random| {
            json!({"spec": {"rules": [{"host": *random.pick(&["a.example.com", "*.example.com", "BAD_HOST"]), "http": {"paths": [{
                "path": *random.pick(&["/", "no-slash"]), "pathType": *random.pick(&["Prefix", "Exact"]),
                "backend": {"service": {"name": "s", "port": {"number": 80}}},
            }]}}]}})
        },
        edits: &[
            ("/spec/ingressClassName", "\"nginx\""),
            ("/spec/tls", "[{\"hosts\":[\"a.example.com\"],\"secretName\":\"t\"}]"),
            ("/spec/rules", "[]"),
        ],
        status: &[("/status/loadBalancer/ingress", "[{\"ip\":\"192.0.2.1\"}]")],
        ..NETWORKING
    },
    Kind {
        plural: "networkpolicies",
        kind: "NetworkPolicy",
        make: |random| match random.below(2) {
            0 => json!({"spec": {"podSelector": {}}}),
            _ => {
                json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}})
            }
        },
        edits: &[
            ("/spec/policyTypes", "[\"Ingress\",\"Egress\"]"),
            ("/spec/ingress", "[{\"from\":[{\"ipBlock\":{\"cidr\":\"10.1.0.0/16\"}}]}]"),
            ("/spec/ingress", "[{\"from\":[{\"ipBlock\":{\"cidr\":\"bogus\"}}]}]"),
        ],
        ..NETWORKING
    },
    Kind {
        base: "/apis/policy/v1",
        api_version: "policy/v1",
        plural: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        make: |random| match random.below(3) {
            0 => json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
            1 => json!({"spec": {"maxUnavailable": "25%"}}),
            _ => json!({"spec": {"maxUnavailable": "25%", "minAvailable": 1}}),
        },
        edits: &[("/spec/minAvailable", "\"50%\""), ("/spec/minAvailable", "\"many\"")],
        status: &[("/status/disruptionsAllowed", "1"), ("/status/currentHealthy", "1")],
        ..EMPTY
    },
    Kind {
        base: "/apis/autoscaling/v2",
        api_version: "autoscaling/v2",
        plural: "horizontalpodautoscalers",
        kind: "HorizontalPodAutoscaler",
        make: |random| {
            json!({"spec": {
                "maxReplicas": random.below(4),
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }})
        },
        edits: &[
            ("/spec/minReplicas", "2"),
            ("/spec/maxReplicas", "10"),
            ("/spec/minReplicas", "-1"),
        ],
        status: &[("/status/currentReplicas", "1"), ("/status/desiredReplicas", "2")],
        ..EMPTY
    },
    Kind {
        base: "/apis/coordination.k8s.io/v1",
        api_version: "coordination.k8s.io/v1",
        plural: "leases",
        kind: "Lease",
        make: |random| match random.below(3) {
            0 => {
                json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2001-02-03T04:05:06.000007Z"}})
            }
            1 => json!({"spec": {"leaseDurationSeconds": 0}}),
            _ => json!({}),
        },
        edits: &[
            ("/spec/holderIdentity", "\"you\""),
            ("/spec/leaseTransitions", "3"),
            ("/spec/renewTime", "\"2001-02-03T04:05:07.000008Z\""),
            ("/spec/renewTime", "\"yesterday\""),
        ],
        ..EMPTY
    },
    Kind {
        base: "/apis/discovery.k8s.io/v1",
        api_version: "discovery.k8s.io/v1",
        plural: "endpointslices",
        kind: "EndpointSlice",
        make: |random| {
            json!({
                "addressType": *random.pick(&["IPv4", "IPv6", "FQDN"]),
                "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}],
                "ports": [{"port": 80}],
            })
        },
        edits: &[
            ("/endpoints/0/addresses/0", "\"192.0.2.2\""),
            ("/addressType", "\"IPv6\""),
            ("/ports/0/name", "\"http\""),
        ],
        ..EMPTY
    },
    Kind {
        plural: "endpoints",
        kind: "Endpoints",
        make: |_| json!({"subsets": [{"addresses": [{"ip": "192.0.2.2"}, {"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}),
        edits: &[("/subsets/0/ports/0/port", "81"), ("/subsets/0/addresses/0/ip", "\"bogus\"")],
        ..EMPTY
    },
    Kind {
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        edits: &[("/spec/finalizers", "[\"example.com/x\"]")],
        status: &[("/status/phase", "\"Active\"")],
        fields: &["status.phase=Active"],
        ..EMPTY
    },
    Kind {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        make: |random| match random.below(2) {
            0 => json!({"spec": {"podCIDR": "10.1.0.0/24"}}),
            _ => json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        },
        edits: &[("/spec/unschedulable", "true"), ("/spec/podCIDR", "\"10.2.0.0/24\"")],
        status: &[
            ("/status/capacity", "{\"cpu\":\"4\",\"memory\":\"8Gi\"}"),
            ("/status/conditions", "[{\"type\":\"Ready\",\"status\":\"True\"}]"),
        ],
        fields: &["spec.unschedulable=true"],
        ..EMPTY
    },
    Kind {
        plural: "persistentvolumes",
        kind: "PersistentVolume",
        namespaced: false,
        make: |random| {
            json!({"spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": *random.pick(&["/data", "../up"])},
            }})
        },
        edits: &[
            ("/spec/persistentVolumeReclaimPolicy", "\"Delete\""),
            ("/spec/capacity/storage", "\"2Gi\""),
            ("/spec/hostPath/path", "\"/other\""),
        ],
        status: &[("/status/phase", "\"Available\"")],
        ..EMPTY
    },
    Kind {
        plural: "clusterroles",
        kind: "ClusterRole",
        namespaced: false,
        make: |_| json!({"rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]}),
        edits: &[("/rules", "[]"), ("/aggregationRule", "{\"clusterRoleSelectors\":[]}")],
        ..RBAC
    },
    Kind {
        base: "/apis/storage.k8s.io/v1",
        api_version: "storage.k8s.io/v1",
        plural: "storageclasses",
        kind: "StorageClass",
        namespaced: false,
        make: |_| json!({"provisioner": "example.com/p"}),
        edits: &[("/allowVolumeExpansion", "true"), ("/provisioner", "\"other\"")],
        ..EMPTY
    },
    Kind {
        base: "/apis/scheduling.k8s.io/v1",
        api_version: "scheduling.k8s.io/v1",
        plural: "priorityclasses",
        kind: "PriorityClass",
        namespaced: false,
        make: |random| json!({"value": random.below(1000)}),
        edits: &[("/value", "5"), ("/description", "\"d\"")],
        ..EMPTY
    },
    Kind {
        plural: "widgets",
        kind: "Widget",
        scale: true,
        make: widget,
        edits: WIDGET_EDITS,
        status: &[
            ("/status/replicas", "2"),
            ("/status/phase", "\"Ready\""),
            ("/status/phase", "7"),
            ("/status/unknown", "1"),
        ],
        fields: &["spec.color=red", "metadata.name=a", "spec.size=3"],
        ..SHARED
    },
    Kind {
        plural: "loose",
        kind: "Loose",
        make: |random| match random.below(3) {
            0 => json!({"anything": {"goes": [1, "two", {"three": 3}]}, "spec": {"typed": "x"}}),
            1 => json!({"spec": {"typed": "x", "more": {"a": null}}}),
            _ => json!({}),
        },
        edits: &[
            ("/spec/typed", "5"),
            ("/spec/more", "{\"b\":[1,2]}"),
            ("/status", "{\"x\":1}"),
            ("/anything", "null"),
        ],
        ..SHARED
    },
    Kind {
        plural: "globals",
        kind: "Global",
        namespaced: false,
        make: |random| json!({"spec": {"mode": *random.pick(&["On", "Off", "Other"])}}),
        edits: &[("/spec/mode", "\"Off\""), ("/spec/mode", "1"), ("/spec", "null")],
        ..SHARED
    },
    Kind {
        base: "/apis/shared.differ.test/v1beta1",
        api_version: "shared.differ.test/v1beta1",
        plural: "widgets",
        kind: "Widget",
        scale: true,
        make: widget,
        edits: WIDGET_EDITS,
        status: &[("/status/phase", "\"Ready\"")],
        ..SHARED
    },
];

const WIDGET_EDITS: &[(&str, &str)] = &[
    ("/spec/color", "\"blue\""),
    ("/spec/color", "\"mauve\""),
    ("/spec/size", "3"),
    ("/spec/size", "101"),
    ("/spec/size", "\"big\""),
    ("/spec/replicas", "4"),
    ("/spec/tags", "[\"a\",\"b\"]"),
    ("/spec/tags", "[\"a\",\"a\"]"),
    ("/spec/items", "[{\"key\":\"k1\",\"value\":\"1\"},{\"key\":\"k2\"}]"),
    ("/spec/items", "[{\"key\":\"k1\"},{\"key\":\"k1\"}]"),
    ("/spec/items", "[{\"value\":\"no key\"}]"),
    ("/spec/port", "\"http\""),
    ("/spec/port", "80"),
    ("/spec/port", "1.5"),
    ("/spec/free/form", "{\"x\":[1]}"),
    ("/spec/map/k", "7"),
    ("/spec/map/k", "\"seven\""),
    ("/spec/maybe", "null"),
    ("/spec/size", "null"),
    ("/spec/unknown", "1"),
    ("/spec/nested/deep/level", "\"x\""),
    ("/spec/when", "\"2001-02-03T04:05:06Z\""),
    ("/spec/when", "\"noon\""),
];

fn widget(random: &mut Random) -> Value {
    let mut spec = json!({"color": *random.pick(&["red", "blue", "green", "mauve"])});
    if random.percent(40) {
        spec["size"] = random.below(120).into();
    }
    if random.percent(30) {
        spec["tags"] = json!(["x", "y"]);
    }
    if random.percent(30) {
        spec["items"] = json!([{"key": "k1"}, {"key": "k2", "value": "v"}]);
    }
    if random.percent(20) {
        spec["port"] = random.pick(&[json!(80), json!("http"), json!(true)]).clone();
    }
    if random.percent(20) {
        spec["free"] = json!({"any": {"thing": [1, {"a": null}]}});
    }
    if random.percent(20) {
        spec["nested"] = json!({});
    }
    json!({"spec": spec})
}

fn workload() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "image:1"}]},
        },
    })
}
