//! `evenkeel tree`.

use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{Background, TempDir, block_on, client, run, wait_for};

/// Creates a Deployment and waits until it is available.
pub(crate) async fn create_deployment(dir: &TempDir) {
    let api = Api::<Deployment>::default_namespaced(client(dir).await);
    let labels = json!({"app": "web"});
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "finalizers": ["example.com/backup"]},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        }},
    }));
    api.create(&PostParams::default(), &deployment.unwrap()).await.unwrap();
    let available = async || {
        let found = api.get_status("web").await.unwrap();
        found.status.and_then(|status| status.available_replicas) == Some(2)
    };
    wait_for("the Deployment is available", available).await;
}

#[test]
fn owned_objects_conditions_and_blocked_deletions_are_shown() {
    let dir = TempDir::new("tree");
    let _cluster = Background::start(&dir, &[]);
    block_on(create_deployment(&dir));
    // The short name is found as well.
    let output = run(&dir.0, &["tree", "deploy/web"]).success();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{output:?}");
    assert!(lines[0].starts_with("Deployment web "), "{output:?}");
    assert!(lines[0].contains("Available=True"), "{output:?}");
    assert!(lines[1].starts_with("└─ ReplicaSet web-"), "{output:?}");
    assert!(lines[2].starts_with("   ├─ Pod web-"), "{output:?}");
    assert!(lines[3].starts_with("   └─ Pod web-"), "{output:?}");
    assert!(lines[3].ends_with("Running"), "{output:?}");

    block_on(async {
        let api = Api::<Deployment>::default_namespaced(client(&dir).await);
        api.delete("web", &Default::default()).await.unwrap();
    });
    let output = run(&dir.0, &["tree", "deployments.apps/web", "--json"]).success();
    let tree: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(tree["blockedBy"], json!(["finalizer example.com/backup"]));
    let output = run(&dir.0, &["tree", "Deployment/web"]).success();
    let expected = "deleting, waits for finalizer example.com/backup";
    assert!(output.stdout.contains(expected), "{output:?}");
    block_on(async {
        let api = Api::<Deployment>::default_namespaced(client(&dir).await);
        let remove = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch("web", &PatchParams::default(), &remove).await.unwrap();
    });
    let output = run(&dir.0, &["tree", "deploy/web"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("cannot get deploy/web"), "{output:?}");
}

#[test]
fn unknown_objects_are_errors() {
    let dir = TempDir::new("unknown");
    let output = run(&dir.0, &["tree", "deploy/web"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("evenkeel cluster start"), "{output:?}");
    let _cluster = Background::start(&dir, &[]);
    for (object, error) in
        [("web", "expected KIND/NAME"), ("gizmo/web", "the server has no resource type \"gizmo\"")]
    {
        let output = run(&dir.0, &["tree", object]);
        assert_eq!(output.code, Some(2));
        assert!(output.stderr.contains(error), "{output:?}");
    }
}
