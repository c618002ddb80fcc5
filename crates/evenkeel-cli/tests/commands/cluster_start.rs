//! `evenkeel cluster start` in the foreground.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::PostParams;

use crate::support::{Background, Lines, TempDir, block_on, client, command};

fn start(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = command(dir, &["cluster", "start"]);
    command.args(arguments).stderr(Stdio::piped());
    command
}

/// A running cluster, killed on drop.
struct Running {
    child: Child,
    lines: Lines,
}

impl Running {
    /// Starts a cluster and waits until it is ready.
    fn new(dir: &Path) -> Self {
        let mut child = start(dir, &[]).spawn().unwrap();
        let lines = Lines::of(child.stderr.take().unwrap());
        let mut running = Self { child, lines };
        running.lines.until("Press Ctrl-C to stop.");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn unknown_names_are_rejected_with_the_known_ones() {
    let dir = TempDir::new("names");
    for (arguments, error, known) in [
        (["--disable-controller", "nope"], "unknown controller \"nope\"", "deployment-controller"),
        (["--disable-admission-plugin", "Nope"], "plugin \"Nope\" is unknown", "ResourceQuota"),
    ] {
        let output = start(&dir.0, &arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(error) && text.contains(known), "{text}");
        assert!(!dir.kubeconfig().exists());
    }
}

#[test]
fn users_without_a_binding_are_denied() {
    let dir = TempDir::new("rbac");
    let _cluster = Background::start(&dir, &["--nodes", "0"]);
    block_on(async {
        let client = client(&dir).await;
        let list = async |user: Option<&str>| {
            let mut request = http::Request::get("/api/v1/namespaces/default/configmaps");
            if let Some(user) = user {
                request = request.header("Impersonate-User", user);
            }
            client.request::<serde_json::Value>(request.body(Vec::new()).unwrap()).await
        };
        list(None).await.unwrap();
        let denied = list(Some("bob")).await.unwrap_err().to_string();
        assert!(denied.contains("User \"bob\" cannot list resource \"configmaps\""), "{denied}");
    });
}

#[test]
fn faults_of_a_plan_are_injected_and_logged() {
    let dir = TempDir::new("faults");
    dir.write("wrong.yaml", "{faults: [{at: {verb: create}, effect: {reject: 409}}]}");
    let output = start(&dir.0, &["--faults", "wrong.yaml"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("wrong.yaml: faults[0]: {\"reject\":409} is not possible"), "{text}");

    dir.write(
        "plan.yaml",
        "faults:\n- at: {verb: create, resource: configmaps, nth: 2}\n  effect: {reject: 500}\n",
    );
    let arguments = ["--api-only", "--faults", "plan.yaml", "--faults-log", "injected.jsonl"];
    let _cluster = Background::start(&dir, &arguments);
    block_on(async {
        let maps = Api::<ConfigMap>::default_namespaced(client(&dir).await);
        let map = |name: &str| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(name.to_owned());
            map
        };
        let create = async |name| maps.create(&PostParams::default(), &map(name)).await;
        create("a").await.unwrap();
        let error = create("b").await.unwrap_err().to_string();
        assert!(error.contains("injected by the fault plan"), "{error}");
        create("b").await.unwrap();
    });
    let log = std::fs::read_to_string(dir.0.join("injected.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!(line["injected"]["effect"], serde_json::json!({"reject": 500}));
}

#[cfg(unix)]
#[test]
fn kubeconfig_in_use_is_kept_and_sigterm_stops_the_cluster() {
    let dir = TempDir::new("term");
    let mut running = Running::new(&dir.0);
    let kubeconfig = std::fs::read_to_string(dir.kubeconfig()).unwrap();

    let second = start(&dir.0, &[]).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{text}");
    assert!(text.contains("is running at https://127.0.0.1:"), "{text}");
    assert!(text.contains("--kubeconfig FILE"), "{text}");
    assert_eq!(std::fs::read_to_string(dir.kubeconfig()).unwrap(), kubeconfig);

    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let text = running.lines.until("Stopped.");
    assert!(running.child.wait().unwrap().success(), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours without a terminal: {text}");
    assert!(!dir.kubeconfig().exists(), "the kubeconfig should be deleted");
}
