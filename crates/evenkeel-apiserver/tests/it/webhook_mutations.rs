//! Mutating webhooks: what is recorded about a mutation, and what runs again after it.

use evenkeel_apiserver::audit::AuditAnnotations;
use http::Method;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::harness::{CONFIG_MAPS, Cluster, PODS, config_map, pod, request};
use crate::webhook_service::{MUTATING, Webhook, allow, install, install_patch};

#[tokio::test(start_paused = true)]
async fn mutations_and_patches_are_annotated() {
    let cluster = Cluster::new().await;
    let patch = json!([{"op": "add", "path": "/data", "value": {"k": "v"}}]);
    install_patch(&cluster, "a", patch.clone(), |_| ()).await;
    let webhook = Webhook::new(allow);
    let client = webhook.register(&cluster, "b");
    install(&cluster, MUTATING, "b", &client, |_| ()).await;
    let body = config_map("m", json!({})).to_string();
    let sent = request(Method::POST, CONFIG_MAPS, &[("content-type", "application/json")], body);
    let response = cluster.server.service().call(sent).await.unwrap();
    let annotations = response.extensions().get::<AuditAnnotations>().unwrap();
    let annotation = |key: &str| -> Value {
        serde_json::from_str(annotations.get(key).unwrap_or_else(|| panic!("{key}"))).unwrap()
    };
    let mutation =
        |at| annotation(&format!("mutation.webhook.admission.k8s.io/round_0_index_{at}"));
    assert_eq!(
        mutation(0),
        json!({"configuration": "a", "webhook": "a.example.com", "mutated": true})
    );
    assert_eq!(
        mutation(1),
        json!({"configuration": "b", "webhook": "b.example.com", "mutated": false})
    );
    assert_eq!(
        annotation("patch.webhook.admission.k8s.io/round_0_index_0"),
        json!({
            "configuration": "a", "webhook": "a.example.com", "patch": patch,
            "patchType": "JSONPatch",
        })
    );
    assert_eq!(annotations.get("patch.webhook.admission.k8s.io/round_0_index_1"), None);
}

#[tokio::test(start_paused = true)]
async fn plugins_run_again_after_a_webhook_has_changed_the_object() {
    let cluster = Cluster::new().await;
    let limit = json!({"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
    ]});
    let limit = json!({"metadata": {"name": "l"}, "spec": limit});
    cluster.post("/api/v1/namespaces/default/limitranges", limit).await.expect(201);
    let sidecar = json!({"name": "side", "image": "side:1"});
    let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": sidecar}]);
    install_patch(&cluster, "inject", patch, |hook| {
        hook["rules"][0]["resources"] = json!(["pods"]);
    })
    .await;
    let pod = cluster.post(PODS, pod("a")).await.expect(201);
    let containers = pod["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2, "the webhook is not called again");
    for container in containers {
        assert_eq!(container["resources"]["limits"], json!({"cpu": "1"}), "{container}");
        assert_eq!(container["resources"]["requests"], json!({"cpu": "100m"}), "{container}");
    }
}
