//! Rollouts of Deployments and StatefulSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::Key;
use evenkeel::client::Patch;
use evenkeel_test::TestCluster;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{cluster, format_condition, is_pending, make_ready, pending_pods, template};

/// Waits until the ReplicaSets have the expected replicas per image, and returns them.
async fn sets(cluster: &TestCluster, expected: &[(&str, i32)]) -> Vec<Arc<ReplicaSet>> {
    let expected: BTreeMap<String, i32> =
        expected.iter().map(|(image, count)| ((*image).to_owned(), *count)).collect();
    let so = |sets: &[Arc<ReplicaSet>]| {
        let found: BTreeMap<String, i32> = sets.iter().map(|set| (image(set), size(set))).collect();
        let seen = |set: &Arc<ReplicaSet>| {
            let status = set.status.clone().unwrap_or_default();
            status.observed_generation == set.metadata.generation && status.replicas == size(set)
        };
        found == expected && sets.iter().all(seen)
    };
    cluster.eventually_all::<ReplicaSet>(so).await
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default()
}

fn image(set: &ReplicaSet) -> String {
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let pod = template.and_then(|template| template.spec.as_ref()).unwrap();
    pod.containers[0].image.clone().unwrap()
}

fn condition_lines(status: &DeploymentStatus) -> Vec<String> {
    let conditions = status.conditions.iter().flatten();
    let conditions = conditions.map(|it| {
        format_condition(&it.type_, &it.status, it.reason.as_deref(), it.message.as_deref())
    });
    conditions.collect()
}

#[tokio::test]
async fn rollout_progresses_as_pods_become_ready() {
    let Some(cluster) = cluster().await else { return };
    let web = cluster.parse::<Deployment>(
        &json!({"metadata": {"name": "web"}, "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web", "web:1"),
        }})
        .to_string(),
    );
    cluster.client().create(&web).await.unwrap();
    let key = Key::of(&web);
    let first = sets(&cluster, &[("web:1", 3)]).await;
    let starting = |web: &Deployment| {
        let status = web.status.clone().unwrap_or_default();
        status.observed_generation == Some(1) && status.unavailable_replicas == Some(3)
    };
    let web = cluster.eventually::<Deployment>(&key, starting).await;
    let status = web.status.clone().unwrap();
    assert_eq!((status.replicas, status.updated_replicas), (Some(3), Some(3)));
    let name = first[0].metadata.name.clone().unwrap();
    let lacking = "Available=False MinimumReplicasUnavailable: Deployment does not have minimum \
                   availability.";
    let progress =
        format!("Progressing=True ReplicaSetUpdated: ReplicaSet \"{name}\" is progressing.");
    assert_eq!(condition_lines(&status), [lacking.to_owned(), progress]);

    for pod in pending_pods(&cluster, 3).await {
        make_ready(&cluster, &pod).await;
    }
    let up = |web: &Deployment| {
        let status = web.status.clone().unwrap_or_default();
        status.available_replicas == Some(3)
            && condition_lines(&status).iter().any(|it| it.contains("NewReplicaSetAvailable"))
    };
    let web = cluster.eventually::<Deployment>(&key, up).await;
    let mut conditions = condition_lines(web.status.as_ref().unwrap());
    conditions.sort();
    let available =
        "Available=True MinimumReplicasAvailable: Deployment has minimum availability.".to_owned();
    let done = |name: &str| {
        format!(
            "Progressing=True NewReplicaSetAvailable: ReplicaSet \"{name}\" has successfully \
             progressed."
        )
    };
    assert_eq!(conditions, [available.clone(), done(&name)]);

    // The default 25 % of three replicas: maxSurge is 1 and maxUnavailable is 0.
    let patch = json!({"spec": {"template": template("web", "web:2")}});
    cluster.client().patch::<Deployment>(&key, &Patch::Strategic(patch)).await.unwrap();
    for left in [3, 2, 1] {
        sets(&cluster, &[("web:1", left), ("web:2", 4 - left)]).await;
        for pod in pending_pods(&cluster, 1).await {
            make_ready(&cluster, &pod).await;
        }
    }
    let sets = sets(&cluster, &[("web:1", 0), ("web:2", 3)]).await;
    let new = sets.iter().find(|set| image(set) == "web:2").unwrap();
    let name = new.metadata.name.clone().unwrap();
    let finished = |web: &Deployment| {
        let status = web.status.clone().unwrap_or_default();
        status.replicas == Some(3) && condition_lines(&status).contains(&done(&name))
    };
    let web = cluster.eventually::<Deployment>(&key, finished).await;
    let status = web.status.as_ref().unwrap();
    assert_eq!((status.updated_replicas, status.available_replicas), (Some(3), Some(3)));
    let revision = "deployment.kubernetes.io/revision";
    assert_eq!(web.metadata.annotations.as_ref().unwrap()[revision], "2");
    cluster.stop().await;
}

#[tokio::test]
async fn stateful_set_pods_start_and_update_in_order() {
    let Some(cluster) = cluster().await else { return };
    let db = cluster.parse::<StatefulSet>(
        &json!({"metadata": {"name": "db"}, "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "ordinals": {"start": 4},
            "template": template("db", "db:1"),
        }})
        .to_string(),
    );
    cluster.client().create(&db).await.unwrap();
    for ordinal in 4..7 {
        let pods = pending_pods(&cluster, 1).await;
        assert_eq!(pods[0].metadata.name, Some(format!("db-{ordinal}")));
        let index = "apps.kubernetes.io/pod-index";
        assert_eq!(pods[0].metadata.labels.as_ref().unwrap()[index], ordinal.to_string());
        make_ready(&cluster, &pods[0]).await;
    }
    let up = |db: &StatefulSet| {
        let status = db.status.clone().unwrap_or_default();
        status.available_replicas == Some(3) && status.current_revision == status.update_revision
    };
    let key = Key::of(&db);
    let before = cluster.eventually::<StatefulSet>(&key, up).await;
    // Pods below the partition keep their revision; the others are updated in descending order.
    let patch = json!({"spec": {
        "template": template("db", "db:2"),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
    }});
    cluster.client().patch::<StatefulSet>(&key, &Patch::Strategic(patch)).await.unwrap();
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
    for name in ["db-6", "db-5"] {
        let fresh = |pod: &Pod| is_pending(pod) && image(pod) == "db:2";
        let pod = cluster.eventually::<Pod>(&key.sibling(name), fresh).await;
        make_ready(&cluster, &pod).await;
    }
    let updated = |db: &StatefulSet| {
        let status = db.status.clone().unwrap_or_default();
        status.available_replicas == Some(3)
            && (status.updated_replicas, status.current_replicas) == (Some(2), Some(1))
    };
    let after = cluster.eventually::<StatefulSet>(&key, updated).await;
    let (before, after) = (before.status.clone().unwrap(), after.status.clone().unwrap());
    assert_eq!(after.current_revision, before.current_revision);
    assert_ne!(after.update_revision, before.update_revision);
    let first = cluster.eventually::<Pod>(&key.sibling("db-4"), |_| true).await;
    assert_eq!(image(&first), "db:1");
    cluster.stop().await;
}
