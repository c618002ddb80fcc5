//! Rules of selected ClusterRoles are aggregated and follow their changes.

use evenkeel::Key;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::NAME;
use crate::testing::{cluster, object, until};

fn has(role: &ClusterRole, resource: &str) -> bool {
    let rules = role.rules.iter().flatten();
    rules.flat_map(|rule| rule.resources.iter().flatten()).any(|other| other == resource)
}

#[tokio::test(start_paused = true)]
async fn bootstrap_roles_are_aggregated() {
    let cluster = cluster(&[NAME]).await;
    for name in ["admin", "edit", "view"] {
        let key = Key::cluster(name);
        until::<ClusterRole>(&cluster, &key, |role| has(role, "configmaps")).await;
    }
    let view = until::<ClusterRole>(&cluster, &Key::cluster("view"), |_| true).await;
    assert!(!has(&view, "secrets"), "view does not read Secrets");
}

#[tokio::test(start_paused = true)]
async fn rules_follow_the_selected_roles() {
    let cluster = cluster(&[NAME]).await;
    let api: Api<ClusterRole> = Api::all(cluster.client());
    let widgets = object(json!({
        "metadata": {
            "name": "widgets",
            "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        },
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}],
    }));
    api.create(&PostParams::default(), &widgets).await.unwrap();
    for name in ["view", "edit", "admin"] {
        until::<ClusterRole>(&cluster, &Key::cluster(name), |role| has(role, "widgets")).await;
    }
    api.delete("widgets", &DeleteParams::default()).await.unwrap();
    for name in ["view", "edit", "admin"] {
        until::<ClusterRole>(&cluster, &Key::cluster(name), |role| !has(role, "widgets")).await;
    }
}
