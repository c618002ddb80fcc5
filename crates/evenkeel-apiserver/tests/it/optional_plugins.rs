//! Small admission plugins that are disabled by default.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn cluster(plugin: &str) -> Cluster {
    Cluster::built(ApiServer::builder().seed(1).enable_admission_plugins([plugin])).await
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "nginx", "imagePullPolicy": "Never"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test(start_paused = true)]
async fn always_deny_rejects_every_write() {
    let cluster = cluster("AlwaysDeny").await;
    let why = "admission control is denying all modifications";
    let object = json!({"metadata": {"name": "m"}});
    cluster.post(CONFIG_MAPS, object).await.expect_error(
        403,
        "Forbidden",
        &format!("configmaps \"m\" is forbidden: {why}"),
    );
    let path = format!("{NAMESPACES}/kube-node-lease");
    let message = format!("namespaces \"kube-node-lease\" is forbidden: {why}");
    cluster.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect_error(
        403,
        "Forbidden",
        &message,
    );
    cluster.delete(&path).await.expect_error(403, "Forbidden", &message);
    cluster.get(&path).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn always_pull_images_sets_the_policy_of_new_images() {
    let cluster = cluster("AlwaysPullImages").await;
    let init = json!([{"name": "init", "image": "busybox:1"}]);
    let volume = json!([{"name": "v", "image": {"reference": "data:1", "pullPolicy": "Never"}}]);
    let body = pod(json!({"initContainers": init, "volumes": volume}));
    let stored = cluster.post(PODS, body).await.expect(201);
    assert_eq!(stored["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(stored["spec"]["initContainers"][0]["imagePullPolicy"], "Always");
    assert_eq!(stored["spec"]["volumes"][0]["image"]["pullPolicy"], "Always");
    let plain = Cluster::new().await.post(PODS, pod(json!({}))).await.expect(201);
    assert_eq!(plain["spec"]["containers"][0]["imagePullPolicy"], "Never", "off by default");
}

#[tokio::test(start_paused = true)]
async fn external_ips_of_services_are_kept_but_not_added() {
    let cluster = cluster("DenyServiceExternalIPs").await;
    let service = |ips: Value| {
        json!({
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}], "externalIPs": ips},
        })
    };
    let message =
        "services \"web\" is forbidden: Use of external IPs is denied by admission control";
    let denied = cluster.post(SERVICES, service(json!(["1.2.3.4"]))).await;
    denied.expect_error(403, "Forbidden", message);
    cluster.post(SERVICES, service(json!([]))).await.expect(201);
    let path = format!("{SERVICES}/web");
    let added = cluster.merge(&path, json!({"spec": {"externalIPs": ["1.2.3.4"]}})).await;
    added.expect_error(403, "Forbidden", message);
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_provisioned_on_create() {
    let cluster = cluster("NamespaceAutoProvision").await;
    let path = "/api/v1/namespaces/new/configmaps";
    let object = json!({"metadata": {"name": "m"}});
    let dry_run = cluster.post(&format!("{path}?dryRun=All"), object.clone()).await;
    dry_run.expect_error(404, "NotFound", "namespaces \"new\" not found");
    cluster.post(path, object).await.expect(201);
    let namespace = cluster.get(&format!("{NAMESPACES}/new")).await.expect(200);
    assert_eq!(namespace["status"]["phase"], "Active");
}

#[tokio::test(start_paused = true)]
async fn writes_in_a_missing_namespace_are_rejected() {
    let builder = ApiServer::builder()
        .seed(1)
        .enable_admission_plugins(["NamespaceExists"])
        .disable_admission_plugins(["NamespaceLifecycle"]);
    let cluster = Cluster::built(builder).await;
    let created =
        cluster.post("/api/v1/namespaces/new/configmaps", json!({"metadata": {"name": "m"}})).await;
    created.expect_error(404, "NotFound", "namespaces \"new\" not found");
    cluster.post(CONFIG_MAPS, json!({"metadata": {"name": "m"}})).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn required_anti_affinity_is_between_nodes_only() {
    let cluster = cluster("LimitPodHardAntiAffinityTopology").await;
    let term = |key: &str| json!({"topologyKey": key, "labelSelector": {}});
    let affinity = |key: &str| {
        json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term(key)],
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "podAffinityTerm": term("zone")}],
        }}})
    };
    cluster.post(PODS, pod(affinity("zone"))).await.expect_error(
        403,
        "Forbidden",
        "pods \"web\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has \
         TopologyKey zone but only key kubernetes.io/hostname is allowed",
    );
    cluster.post(PODS, pod(affinity("kubernetes.io/hostname"))).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn pods_tolerate_the_taints_of_their_extended_resources() {
    let cluster = cluster("ExtendedResourceToleration").await;
    let device = |name: &str| {
        let mut quantities = json!({"cpu": "1"});
        quantities[name] = "1".into();
        json!([{"name": "c", "image": "nginx",
                "resources": {"requests": quantities, "limits": quantities}}])
    };
    let body = pod(json!({
        "containers": device("example.com/gpu"), "initContainers": device("example.com/fpga"),
        "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }));
    let mut body = body;
    body["spec"]["initContainers"][0]["name"] = "init".into();
    let stored = cluster.post(PODS, body).await.expect(201);
    let added = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let tolerations = stored["spec"]["tolerations"].as_array().unwrap();
    let own: Vec<&Value> = tolerations.iter().filter(|it| it["effect"] == "NoSchedule").collect();
    assert_eq!(own, [&added("example.com/gpu"), &added("example.com/fpga")]);
}

#[tokio::test(start_paused = true)]
async fn plugins_that_are_not_implemented_cannot_be_enabled() {
    for name in ["EventRateLimit", "PodNodeSelector", "ImagePolicyWebhook"] {
        let built = ApiServer::builder().enable_admission_plugins([name]).build().await;
        let message = built.err().unwrap().to_string();
        let expected = format!(
            "invalid option: enable-admission-plugins plugin {name:?} is not implemented by \
             Evenkeel"
        );
        assert_eq!(message, expected);
        let disabled = ApiServer::builder().disable_admission_plugins([name]).build().await;
        assert!(disabled.is_ok(), "{name}");
    }
}
