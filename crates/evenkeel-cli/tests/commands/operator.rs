//! `evenkeel run`, and the commands that inspect and control a running operator.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::kube::api::{DeleteParams, PostParams};
use serde_json::Value;

use crate::install::{greeting, greetings};
use crate::support::{
    Background, Output, TempDir, block_on, client, command, operator, run, wait_for,
};

/// `evenkeel run`, stopped on drop.
pub(crate) struct Running(Child);

impl Running {
    /// Installs the CRD, starts the operator and waits until it runs.
    pub(crate) fn start(dir: &TempDir) -> Self {
        let binary = operator().to_str().unwrap();
        run(&dir.0, &["install", "--binary", binary]).success();
        let mut command = command(&dir.0, &["run", "--binary", binary]);
        command.env("XDG_RUNTIME_DIR", &dir.0).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let running = Self(child);
        let mut lines = BufReader::new(stderr).lines();
        let started = lines.by_ref().map(|line| line.unwrap()).find(|line| {
            assert!(!line.starts_with("error"), "{line}");
            line.contains("starting workers")
        });
        assert!(started.is_some(), "the operator ended");
        // Read on, so that it never waits for the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        running
    }

    /// Stops it with SIGTERM and returns its exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.0.id().to_string();
        // It stops the operator, which a kill would not.
        let _ = Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

fn evenkeel(dir: &TempDir, arguments: &[&str]) -> Output {
    let mut command = command(&dir.0, arguments);
    let output = command.env("XDG_RUNTIME_DIR", &dir.0).output().unwrap();
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Creates a Greeting and waits for its ConfigMap.
pub(crate) fn create_greeting(dir: &TempDir) {
    block_on(async {
        let client = client(dir).await;
        greetings(client.clone()).create(&PostParams::default(), &greeting(&[])).await.unwrap();
        wait_for_config_map(dir).await;
    });
}

async fn wait_for_config_map(dir: &TempDir) {
    let maps = Api::<ConfigMap>::namespaced(client(dir).await, "default");
    let created = async || maps.get_opt("ada").await.unwrap().is_some();
    wait_for("the ConfigMap exists", created).await;
}

#[test]
fn running_operator_explains_its_reconciles() {
    let dir = TempDir::new("why");
    let _cluster = Background::start(&dir, &[]);
    let refused = evenkeel(&dir, &["why", "greeting/ada"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("start it with `evenkeel run`"), "{refused:?}");

    let operator = Running::start(&dir);
    let none = evenkeel(&dir, &["why", "greeting/ada"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    create_greeting(&dir);
    let text = evenkeel(&dir, &["why", "greetings/ada", "-n", "default"]).success().stdout;
    assert!(text.contains(" Greeting default/ada ← created"), "{text}");
    assert!(text.contains("apply ConfigMap default/ada"), "{text}");
    let records = lines(&evenkeel(&dir, &["why", "Greeting/ada", "--json"]).success().stdout);
    assert_eq!(records[0]["outcome"], "done");
    let wrong = evenkeel(&dir, &["why", "website/ada"]);
    assert!(wrong.stderr.contains("no such controller; there are greeting"), "{wrong:?}");

    let cache = evenkeel(&dir, &["cache"]).success().stdout;
    assert!(cache.lines().any(|line| line.starts_with("Greeting.example.com  1 ")), "{cache}");
    let top = evenkeel(&dir, &["top"]).success().stdout;
    assert!(top.starts_with("greeter "), "{top}");
    assert!(!top.contains('\u{1b}'), "{top}");
    assert_eq!(operator.stop(), Some(0));
    let sockets = dir.0.join("evenkeel").read_dir().unwrap().count();
    assert_eq!(sockets, 0, "the socket should be deleted");
}

#[test]
fn paused_controllers_reconcile_nothing_until_they_are_resumed() {
    let dir = TempDir::new("pause");
    let _cluster = Background::start(&dir, &[]);
    let _operator = Running::start(&dir);
    create_greeting(&dir);
    evenkeel(&dir, &["pause", "greeting"]).success();
    evenkeel(&dir, &["trigger", "greeting/ada"]).success();
    let items = lines(&evenkeel(&dir, &["queue", "--json"]).success().stdout);
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!((&items[0]["state"], &items[0]["object"]["name"]), (&"due".into(), &"ada".into()));
    let cause = items[0]["causes"][0].as_str().unwrap();
    assert!(cause.starts_with("evenkeel trigger"), "{items:?}");
    let queue = evenkeel(&dir, &["queue"]).success().stdout;
    assert!(queue.lines().nth(1).unwrap().contains("default/ada  due for "), "{queue}");
    let top = lines(&evenkeel(&dir, &["top", "--json"]).success().stdout);
    assert_eq!(top[0]["controllers"][0]["paused"], true);

    block_on(async {
        let maps = Api::<ConfigMap>::namespaced(client(&dir).await, "default");
        maps.delete("ada", &DeleteParams::default()).await.unwrap();
    });
    evenkeel(&dir, &["resume"]).success();
    block_on(wait_for_config_map(&dir));
    let unknown = evenkeel(&dir, &["pause", "nope"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("no such controller"), "{unknown:?}");
}
