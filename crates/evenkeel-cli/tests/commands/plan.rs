//! `evenkeel plan`, with the operator of the README.

use std::path::{Path, PathBuf};

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use evenkeel::k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::install::{account_kubeconfig, greeting, greetings};
use crate::operator::{Running, create_greeting};
use crate::support::{
    Background, Output, TempDir, block_on, client, command, example, operator, run,
};

/// Creates a user that can only read the cluster, and returns its kubeconfig.
fn reader(dir: &TempDir) -> PathBuf {
    let meta = || ObjectMeta { name: Some("reader".to_owned()), ..ObjectMeta::default() };
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]});
    let role = json!({"metadata": meta(), "rules": [rule]});
    let binding = json!({
        "metadata": meta(),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    let account = ServiceAccount { metadata: meta(), ..ServiceAccount::default() };
    block_on(async {
        let (client, parameters) = (client(dir).await, PostParams::default());
        Api::all(client.clone()).create(&parameters, &role).await.unwrap();
        Api::all(client.clone()).create(&parameters, &binding).await.unwrap();
        let accounts = Api::namespaced(client.clone(), "default");
        accounts.create(&parameters, &account).await.unwrap();
        account_kubeconfig(dir, client, "default", "reader").await
    })
}

/// Runs `evenkeel plan` with a kubeconfig.
fn plan(dir: &TempDir, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let kubeconfig = kubeconfig.to_str().unwrap();
    let binary = operator().to_str().unwrap();
    let fixed = ["plan", "--binary", binary, "--kubeconfig", kubeconfig];
    let mut command = command(&dir.0, &[&fixed, arguments].concat());
    let output = command.env("XDG_RUNTIME_DIR", &dir.0).output().unwrap();
    let left = std::fs::read_dir(dir.0.join("evenkeel")).unwrap().count();
    assert_eq!(left, 0, "sockets and credentials should be deleted");
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn config_map(dir: &TempDir) -> Option<ConfigMap> {
    let maps = Api::<ConfigMap>::namespaced(client(dir).await, "default");
    maps.get_opt("ada").await.unwrap()
}

#[test]
fn writes_are_shown_and_the_cluster_is_only_read() {
    let dir = TempDir::new("plan");
    let _cluster = Background::start(&dir, &[]);
    run(&dir.0, &["install", "--binary", operator().to_str().unwrap()]).success();
    let uid = block_on(async {
        let client = client(&dir).await;
        let secret = json!({"metadata": {"name": "login"}, "stringData": {"password": "hunter2"}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let secrets = Api::<Secret>::namespaced(client.clone(), "default");
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let created = greetings(client).create(&PostParams::default(), &greeting(&[])).await;
        created.unwrap().metadata.uid.unwrap()
    });
    let reader = reader(&dir);
    let output = plan(&dir, &reader, &["--detailed-exitcode"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let text = &output.stdout;
    assert!(text.starts_with("create ConfigMap default/ada\n  patch by greeting\n"), "{text}");
    assert!(text.contains("+  text: Hello, Ada!\n"), "{text}");
    assert!(text.contains(&format!("uid: {uid}\n")), "{text}");
    assert!(text.ends_with("Plan: 1 to create.\n"), "{text}");
    assert!(!text.contains("managedFields"), "{text}");
    assert!(output.stderr.contains("calls to systems other than this API server"), "{output:?}");
    assert!(output.stderr.contains("Secrets are replaced in the copy"), "{output:?}");

    // Without --detailed-exitcode, writes are a success.
    let output = plan(&dir, &reader, &["--json"]).success();
    let line: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&line["action"], &line["resource"]), (&"create".into(), &"configmaps".into()));
    assert_eq!(line["writes"][0]["fieldManager"], "greeting");
    assert_eq!(line["after"]["data"]["text"], "Hello, Ada!");
    assert_eq!(block_on(config_map(&dir)), None);
}

#[test]
fn copy_keeps_what_the_operator_wrote_before() {
    let dir = TempDir::new("plan-again");
    let _cluster = Background::start(&dir, &[]);
    let running = Running::start(&dir);
    create_greeting(&dir);
    drop(running);
    let before = block_on(config_map(&dir));
    let reader = reader(&dir);
    // With another uid, owner or field manager, it would write.
    let output = plan(&dir, &reader, &["--detailed-exitcode"]).success();
    assert_eq!(output.stdout, "No writes.\n", "{output:?}");
    assert_eq!(block_on(config_map(&dir)), before);

    block_on(async {
        let maps = Api::<ConfigMap>::namespaced(client(&dir).await, "default");
        let patch = Patch::Merge(json!({"data": {"text": "Bye"}}));
        maps.patch("ada", &PatchParams::default(), &patch).await.unwrap();
    });
    let text = plan(&dir, &reader, &[]).success().stdout;
    assert!(text.starts_with("update ConfigMap default/ada\n"), "{text}");
    assert!(text.contains("\n-  text: Bye\n+  text: Hello, Ada!\n"), "{text}");
    assert!(text.ends_with("Plan: 1 to update.\n"), "{text}");
}

#[test]
fn plan_for_a_real_kube_apiserver_has_no_other_writes() {
    let binaries = match evenkeel_upstream::locate() {
        Ok(binaries) => binaries,
        Err(reason) => {
            let what = "test of `evenkeel plan` with a real kube-apiserver";
            return evenkeel_upstream::report_skipped(1, what, reason);
        }
    };
    // Its processes end with this value.
    let options = evenkeel_upstream::UpstreamOptions::default();
    let cluster = block_on(evenkeel_upstream::Cluster::start(&binaries, &options)).unwrap();
    let dir = TempDir::new("plan-real");
    let kubeconfig = dir.kubeconfig();
    std::fs::copy(cluster.kubeconfig(), &kubeconfig).unwrap();
    run(&dir.0, &["install", "--binary", operator().to_str().unwrap()]).success();
    block_on(async {
        let greetings = greetings(client(&dir).await);
        greetings.create(&PostParams::default(), &greeting(&[])).await.unwrap();
    });
    let output = plan(&dir, &kubeconfig, &[]).success();
    assert!(output.stdout.starts_with("create ConfigMap default/ada\n"), "{output:?}");
    assert!(output.stdout.ends_with("Plan: 1 to create.\n"), "{output:?}");
    assert_eq!(block_on(config_map(&dir)), None);

    // The copy keeps the managed fields of that server, so nothing is written again.
    let running = Running::start(&dir);
    block_on(async { while config_map(&dir).await.is_none() {} });
    drop(running);
    let output = plan(&dir, &kubeconfig, &["--detailed-exitcode"]).success();
    assert_eq!(output.stdout, "No writes.\n", "{output:?}");
}

#[test]
fn operator_with_webhooks_only_becomes_idle_and_its_certificates_are_no_writes() {
    let dir = TempDir::new("plan-webhooks");
    let _cluster = Background::start(&dir, &[]);
    let binary = example("tenant");
    let arguments = ["plan", "--detailed-exitcode", "--binary", binary.to_str().unwrap()];
    let output = run(&dir.0, &arguments).success();
    assert_eq!(output.stdout, "No writes.\n", "{output:?}");
    assert!(!output.stderr.contains("was not idle"), "{output:?}");
}

#[test]
fn plan_of_an_operator_that_ends_is_incomplete() {
    let dir = TempDir::new("plan-ended");
    let _cluster = Background::start(&dir, &[]);
    let binary = operator().to_str().unwrap();
    let output = run(&dir.0, &["plan", "--binary", binary, "--", "--no-such-flag"]);
    assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{output:?}");
    assert!(output.stderr.contains("the plan is incomplete: the operator ended"), "{output:?}");
}

#[test]
fn operator_must_run_on_the_copy() {
    let dir = TempDir::new("plan-misuse");
    let _cluster = Background::start(&dir, &[]);
    let output = run(&dir.0, &["plan", "--", "--kubeconfig=other"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("remove its argument --kubeconfig=other"), "{output:?}");
    // The exit code 2 is that of writes.
    let output = run(&dir.0, &["plan", "--detailed-exitcode", "--binary", "/bin/true"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("the operator printed no description"), "{output:?}");
}
