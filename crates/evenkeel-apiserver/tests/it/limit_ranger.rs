//! `LimitRanger`: default resources of containers, bounds of containers, pods and claims.

use serde_json::{Value, json};

use crate::harness::*;

const LIMIT_RANGES: &str = "/api/v1/namespaces/default/limitranges";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn limited(limit: Value) -> Cluster {
    let cluster = Cluster::new().await;
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"},
        "spec": {"limits": [limit]},
    });
    cluster.post(LIMIT_RANGES, range).await.expect(201);
    cluster
}

fn pod_with(resources: Value) -> Value {
    let mut pod = pod("p");
    pod["spec"]["containers"][0]["resources"] = resources;
    pod
}

fn claim(storage: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn containers_get_the_defaults_they_do_not_set_and_an_annotation_lists_them() {
    let cluster = limited(json!({
        "type": "Container",
        "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "500m", "memory": "512Mi"},
    }))
    .await;
    let mut sent = pod_with(json!({"requests": {"cpu": "100m"}}));
    sent["spec"]["initContainers"] = json!([{"name": "init", "image": "app:1"}]);
    let created = cluster.post(PODS, sent).await.expect(201);
    let resources = |field: &str| created["spec"][field][0]["resources"].clone();
    assert_eq!(
        resources("containers"),
        json!({
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "512Mi"},
        })
    );
    assert_eq!(
        resources("initContainers"),
        json!({
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        })
    );
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: memory request for container main; cpu, memory limit for \
         container main; cpu, memory request for init container init; cpu, memory limit for init \
         container init"
    );
    // Other namespaces are not affected.
    cluster.post(NAMESPACES, namespace("other")).await.expect(201);
    let other = cluster.post("/api/v1/namespaces/other/pods", pod("p")).await.expect(201);
    assert_eq!(other["spec"]["containers"][0]["resources"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn containers_outside_their_bounds_are_rejected_with_all_reasons() {
    let cluster = limited(json!({
        "type": "Container",
        "min": {"cpu": "100m"},
        "max": {"cpu": "1"},
        "maxLimitRequestRatio": {"cpu": "2"},
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "500m"},
    }))
    .await;
    let refused = |resources: Value| {
        let cluster = &cluster;
        async move { text(&cluster.post(PODS, pod_with(resources)).await.expect(403)["message"]) }
    };
    assert_eq!(
        refused(json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "2"}})).await,
        "pods \"p\" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, \
         maximum cpu usage per Container is 1, but limit is 2, cpu max limit to request ratio per \
         Container is 2, but provided ratio is 40.000000]"
    );
    assert_eq!(
        refused(json!({"requests": {"cpu": "300m"}, "limits": {"cpu": "1"}})).await,
        "pods \"p\" is forbidden: cpu max limit to request ratio per Container is 2, but provided \
         ratio is 3.333333"
    );
    cluster.post(PODS, pod("p")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bounded_by_the_sum_of_its_containers() {
    let cluster =
        limited(json!({"type": "Pod", "max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}})).await;
    let mut sent = pod_with(json!({"limits": {"memory": "600Mi"}}));
    let mut second = sent["spec"]["containers"][0].clone();
    second["name"] = "second".into();
    sent["spec"]["containers"].as_array_mut().unwrap().push(second);
    cluster.post(PODS, sent).await.expect_error(
        403,
        "Forbidden",
        "pods \"p\" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 1200Mi",
    );
    cluster.post(PODS, pod("p")).await.expect_error(
        403,
        "Forbidden",
        "pods \"p\" is forbidden: [minimum memory usage per Pod is 1Mi.  No request is specified, \
         maximum memory usage per Pod is 1Gi.  No limit is specified]",
    );
    // A prefix stands for a name that is not generated yet.
    let mut unnamed = pod_with(json!({"limits": {"memory": "1Ki"}}));
    unnamed["metadata"] = json!({"generateName": "p-"});
    let message = text(&cluster.post(PODS, unnamed).await.expect(403)["message"]);
    assert!(message.starts_with("pods \"p-"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_bounded_and_other_updates_are_not() {
    let cluster = Cluster::new().await;
    let sent = pod_with(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}));
    cluster.post(PODS, sent).await.expect(201);
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1500m"}}]},
    });
    cluster.post(LIMIT_RANGES, range).await.expect(201);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.merge(&format!("{PODS}/p"), labels).await.expect(200);
    let resize = |cpu: &str| json!({"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": cpu}}}]}});
    let path = format!("{PODS}/p/resize");
    cluster.patch(&path, Patch::Strategic, resize("3")).await.expect_error(
        403,
        "Forbidden",
        "pods \"p\" is forbidden: maximum cpu usage per Container is 1500m, but limit is 3",
    );
    cluster.patch(&path, Patch::Strategic, resize("1500m")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn claims_are_bounded_on_create_and_update() {
    let cluster = limited(json!({
        "type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"},
    }))
    .await;
    for (storage, why) in [
        ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
    ] {
        let message = format!("persistentvolumeclaims \"c\" is forbidden: {why}");
        cluster.post(CLAIMS, claim(storage)).await.expect_error(403, "Forbidden", &message);
    }
    cluster.post(CLAIMS, claim("2Gi")).await.expect(201);
    // A claim can grow once it is bound.
    let bound = json!({"status": {"phase": "Bound"}});
    cluster.merge(&format!("{CLAIMS}/c/status"), bound).await.expect(200);
    let grow = json!({"spec": {"resources": {"requests": {"storage": "6Gi"}}}});
    cluster.merge(&format!("{CLAIMS}/c"), grow).await.expect_error(
        403,
        "Forbidden",
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per \
         PersistentVolumeClaim is 5Gi, but request is 6Gi",
    );
}

#[tokio::test(start_paused = true)]
async fn the_plugin_can_be_disabled() {
    let builder =
        evenkeel_apiserver::ApiServer::builder().disable_admission_plugins(["LimitRanger"]);
    let cluster = Cluster::built(builder).await;
    let range = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]},
    });
    cluster.post(LIMIT_RANGES, range).await.expect(201);
    let created = cluster.post(PODS, pod("p")).await.expect(201);
    assert_eq!(created["spec"]["containers"][0]["resources"], json!({}));
}
