//! `evenkeel cluster` with a cluster in the background.

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::PostParams;

use crate::support::{Background, TempDir, block_on, client, run};

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// Creates a ConfigMap and returns its uid.
fn create(dir: &TempDir, name: &str) -> Option<String> {
    block_on(async {
        let api = Api::default_namespaced(client(dir).await);
        api.create(&PostParams::default(), &config_map(name)).await.unwrap().metadata.uid
    })
}

fn uid(dir: &TempDir, name: &str) -> Option<String> {
    block_on(async {
        let api = Api::<ConfigMap>::default_namespaced(client(dir).await);
        api.get_opt(name).await.unwrap().and_then(|map| map.metadata.uid)
    })
}

#[test]
fn snapshot_restores_objects_with_their_uids() {
    let dir = TempDir::new("snapshot");
    let _cluster = Background::start(&dir, &[]);
    let kept = create(&dir, "kept");
    let output = run(&dir.0, &["cluster", "snapshot", "objects.jsonl"]).success();
    assert!(output.stderr.starts_with("Wrote "), "{output:?}");
    create(&dir, "later");

    run(&dir.0, &["cluster", "load", "objects.jsonl"]).success();
    assert_eq!(uid(&dir, "kept"), kept);
    assert_eq!(uid(&dir, "later"), None);

    run(&dir.0, &["cluster", "reset"]).success();
    assert_eq!(uid(&dir, "kept"), None);
}

#[test]
fn invalid_snapshot_leaves_the_cluster_running() {
    let dir = TempDir::new("invalid");
    let _cluster = Background::start(&dir, &[]);
    let kept = create(&dir, "kept");
    dir.write("bad.jsonl", "{\"apiVersion\":\"v1\"}\n");
    let output = run(&dir.0, &["cluster", "load", "bad.jsonl"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("line 1: not an object with"), "{output:?}");
    assert_eq!(uid(&dir, "kept"), kept);
}

#[test]
fn objects_in_a_data_directory_survive_a_restart_until_a_reset() {
    let dir = TempDir::new("durable");
    let cluster = Background::start(&dir, &["--data-dir", "data"]);
    let kept = create(&dir, "kept");
    drop(cluster);
    let _cluster = Background::start(&dir, &["--data-dir", "data"]);
    assert_eq!(uid(&dir, "kept"), kept);
    // The kubeconfig of before stays valid.
    let kubeconfig = std::fs::read_to_string(dir.kubeconfig()).unwrap();
    let authority = |text: &str| {
        let line = text.lines().find(|line| line.contains("certificate-authority-data"));
        line.unwrap().to_owned()
    };
    run(&dir.0, &["cluster", "reset"]).success();
    assert_eq!(uid(&dir, "kept"), None);
    let after = std::fs::read_to_string(dir.kubeconfig()).unwrap();
    assert_eq!(authority(&kubeconfig), authority(&after));
}

#[test]
fn status_is_reported_by_text_json_and_exit_code() {
    let dir = TempDir::new("status");
    let output = run(&dir.0, &["cluster", "status"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("there is no evenkeel.kubeconfig"), "{output:?}");

    let cluster = Background::start(&dir, &["--data-dir", "data"]);
    let output = run(&dir.0, &["cluster", "status"]).success();
    assert!(output.stdout.starts_with("State    ready\n"), "{output:?}");
    let output = run(&dir.0, &["cluster", "status", "--json"]).success();
    let status: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(status["state"], "ready");
    assert_eq!(status["background"], true);
    let kubeconfig = run(&dir.0, &["cluster", "kubeconfig"]).success().stdout;
    assert_eq!(kubeconfig, std::fs::read_to_string(dir.kubeconfig()).unwrap());

    drop(cluster);
    let output = run(&dir.0, &["cluster", "status"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.starts_with("State    stopped\n"), "{output:?}");
    let output = run(&dir.0, &["cluster", "stop"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("is not running at https://127.0.0.1:"), "{output:?}");
}

#[test]
fn failed_start_in_the_background_reports_its_reason() {
    let dir = TempDir::new("failed");
    let output = run(&dir.0, &["cluster", "start", "--detach", "--disable-controller", "nope"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.starts_with("error: "), "{output:?}");
    assert!(output.stderr.contains("unknown controller \"nope\""), "{output:?}");
    assert!(!dir.kubeconfig().exists());
}
