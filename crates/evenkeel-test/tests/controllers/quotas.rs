//! ResourceQuotas: the status that admission enforces.

use evenkeel::Key;
use evenkeel_test::TestCluster;
use k8s_openapi::api::core::v1::{Pod, ReplicationController, ResourceQuota};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::{cluster, set_pod_status, template};

/// Creates a quota and waits until it is enforced.
async fn add_quota(cluster: &TestCluster, hard: Value) {
    let text = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}).to_string();
    cluster.client().create(&cluster.parse::<ResourceQuota>(&text)).await.unwrap();
    let zero = |(name, _): (&String, &Value)| (name.clone(), json!("0"));
    let used: Value = hard.as_object().unwrap().iter().map(zero).collect();
    used_becomes(cluster, used).await;
}

async fn used_becomes(cluster: &TestCluster, used: Value) {
    let key = Key::namespaced(cluster.namespace(), "q");
    let reached = |quota: &ResourceQuota| {
        let status = quota.status.as_ref();
        status.is_some_and(|status| serde_json::to_value(&status.used).unwrap() == used)
    };
    cluster.eventually(&key, reached).await;
}

async fn create(cluster: &TestCluster, name: &str) -> Result<(), evenkeel::client::Error> {
    let mut controller = json!({"metadata": {"name": name}, "spec": {"replicas": 0}});
    controller["spec"]["template"] = template("a", "app:1");
    let controller = cluster.parse::<ReplicationController>(&controller.to_string());
    cluster.client().create(&controller).await.map(drop)
}

#[tokio::test]
async fn a_deletion_makes_room_in_a_quota() {
    let Some(cluster) = cluster().await else { return };
    add_quota(&cluster, json!({"replicationcontrollers": "2"})).await;
    create(&cluster, "a").await.unwrap();
    create(&cluster, "b").await.unwrap();
    let error = create(&cluster, "c").await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    let text = error.status().unwrap().message.clone();
    let expected = "exceeded quota: q, requested: replicationcontrollers=1, \
                    used: replicationcontrollers=2, limited: replicationcontrollers=2";
    assert!(text.ends_with(expected), "{text}");
    let key = Key::namespaced(cluster.namespace(), "a");
    cluster.client().delete_by_key::<ReplicationController>(&key).await.unwrap();
    used_becomes(&cluster, json!({"replicationcontrollers": "1"})).await;
    create(&cluster, "c").await.unwrap();
    used_becomes(&cluster, json!({"replicationcontrollers": "2"})).await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_ended_pod_releases_its_resources() {
    let Some(cluster) = cluster().await else { return };
    add_quota(&cluster, json!({"count/pods": "5", "pods": "5", "requests.cpu": "2"})).await;
    let mut pod = template("a", "app:1");
    pod["metadata"]["name"] = "p".into();
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1500m"}});
    let pod = cluster.parse::<Pod>(&pod.to_string());
    cluster.client().create(&pod).await.unwrap();
    used_becomes(&cluster, json!({"count/pods": "1", "pods": "1", "requests.cpu": "1500m"})).await;
    set_pod_status(&cluster, &pod, json!({"phase": "Succeeded"})).await;
    used_becomes(&cluster, json!({"count/pods": "1", "pods": "0", "requests.cpu": "0"})).await;
    cluster.stop().await;
}

#[tokio::test]
async fn new_limits_take_effect() {
    let Some(cluster) = cluster().await else { return };
    add_quota(&cluster, json!({"replicationcontrollers": "0"})).await;
    create(&cluster, "a").await.unwrap_err();
    let key = Key::namespaced(cluster.namespace(), "q");
    let patch =
        evenkeel::client::Patch::Merge(json!({"spec": {"hard": {"replicationcontrollers": "1"}}}));
    cluster.client().patch::<ResourceQuota>(&key, &patch).await.unwrap();
    let hard = |quota: &ResourceQuota| {
        Some(quota.status.as_ref()?.hard.as_ref()?.get("replicationcontrollers")?.0.clone())
    };
    cluster.eventually(&key, |quota| hard(quota).as_deref() == Some("1")).await;
    create(&cluster, "a").await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn custom_resources_are_counted() {
    let Some(cluster) = cluster().await else { return };
    let group = format!("{}.example.com", cluster.unique_name("quota"));
    let name = format!("widgets.{group}");
    let crd = json!({
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    cluster.client().create(&crd).await.unwrap();
    let established = |crd: &CustomResourceDefinition| {
        let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it.type_ == "Established" && it.status == "True")
    };
    cluster.eventually(&Key::cluster(&name), established).await;
    let count = format!("count/{name}");
    add_quota(&cluster, json!({count.clone(): "1"})).await;

    let kind = GroupVersionKind::gvk(&group, "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let widgets =
        Api::<DynamicObject>::namespaced_with(cluster.kube(), cluster.namespace(), &resource);
    let create = async |name: &str| {
        widgets.create(&PostParams::default(), &DynamicObject::new(name, &resource)).await
    };
    create("a").await.unwrap();
    let error = create("b").await.unwrap_err().to_string();
    assert!(error.contains("exceeded quota: q"), "{error}");
    widgets.delete("a", &DeleteParams::default()).await.unwrap();
    used_becomes(&cluster, json!({count: "0"})).await;
    create("b").await.unwrap();
    let key = Key::cluster(&name);
    cluster.client().delete_by_key::<CustomResourceDefinition>(&key).await.unwrap();
    cluster.stop().await;
}
