//! `evenkeel dev`, with a stand-in for Cargo.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use evenkeel::kube::Api;
use evenkeel::kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use evenkeel::kube::core::GroupVersionKind;
use serde_json::json;

use crate::check::{REQUESTS, access_report};
use crate::support::{Lines, TempDir, block_on, client, command, example, operator, run};

/// Writes a `cargo` that reports an executable, or fails if there is a file `broken`. Its tests record
/// the requests of the operator.
pub(crate) fn write_cargo(dir: &TempDir) {
    write_cargo_of(dir, operator());
}

fn write_cargo_of(dir: &TempDir, operator: &Path) {
    dir.write("Cargo.toml", "");
    let bin = dir.0.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let message = json!({"reason": "compiler-artifact", "executable": operator});
    let report = access_report("greeter", REQUESTS);
    let script = format!(
        "#!/bin/sh\n[ -e broken ] && exit 1\ncase $1 in\nbuild) echo '{message}' ;;\n\
         --version) echo cargo ;;\n\
         test) mkdir -p $EVENKEEL_TEST_ACCESS_DIR\n\
         echo '{report}' > $EVENKEEL_TEST_ACCESS_DIR/a.json ;;\n\
         *) exec {} ;;\nesac\n",
        operator.display()
    );
    let path = bin.join("cargo");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// `evenkeel dev`, killed on drop.
struct Dev {
    child: Child,
    stderr: Lines,
    stdout: Lines,
}

impl Dev {
    fn start(dir: &TempDir, arguments: &[&str]) -> Self {
        Self::start_operator(dir, operator(), arguments)
    }

    fn start_operator(dir: &TempDir, operator: &Path, arguments: &[&str]) -> Self {
        write_cargo_of(dir, operator);
        let path = format!("{}:{}", dir.0.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = command(&dir.0, &[&["dev"], arguments].concat());
        command.env("PATH", path).env("XDG_RUNTIME_DIR", &dir.0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Lines::of(child.stderr.take().unwrap());
        let stdout = Lines::of(child.stdout.take().unwrap());
        Self { child, stderr, stdout }
    }

    /// Reads progress up to a line with this text.
    fn progress(&mut self, text: &str) -> String {
        self.stderr.until(text)
    }

    /// Reads reconciles up to a line with this text.
    fn output(&mut self, text: &str) -> String {
        self.stdout.until(text)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sample(dir: &TempDir) {
    std::fs::create_dir_all(dir.0.join("samples")).unwrap();
    dir.write(
        "samples/greeting.yaml",
        "apiVersion: example.com/v1\nkind: Greeting\nmetadata: {name: ada, namespace: default}\n\
         spec: {name: Ada}\n",
    );
}

/// Returns the processes whose environment names a directory's debug socket.
fn operators(dir: &TempDir) -> usize {
    let marker = format!("EVENKEEL_DEBUG_SOCKET={}", dir.0.display()).into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|it| std::fs::read(it.path().join("environ")).ok());
    environments.filter(|it| it.windows(marker.len()).any(|part| part == marker)).count()
}

#[test]
fn sample_is_reconciled_and_the_operator_started_again_on_change() {
    let dir = TempDir::new("dev");
    dir.write("main.rs", "");
    sample(&dir);
    let mut dev = Dev::start(&dir, &["--access", "access"]);
    let text = dev.progress("is running as service account greeter/greeter");
    assert!(text.contains("export KUBECONFIG="), "{text}");
    assert!(text.contains("greetings.example.com created"), "{text}");
    let text = dev.output("done");
    assert!(text.contains(" Greeting default/ada ← "), "{text}");
    assert!(text.contains("apply ConfigMap default/ada"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");

    // A build that fails leaves the operator running.
    dir.write("broken", "");
    dir.write("main.rs", "// changed");
    dev.progress("the build failed; the previous build keeps running");
    assert_eq!(operators(&dir), 1);
    std::fs::remove_file(dir.0.join("broken")).unwrap();
    dir.write("main.rs", "// changed again");
    dev.progress("A source file has changed.");
    dev.progress("is running as service account");
    // The object is still there. Its ConfigMap may be listed before it.
    dev.output(" listed");

    dev.signal("-INT");
    dev.progress("Stopping.");
    assert!(dev.child.wait().unwrap().success());
    assert_eq!(operators(&dir), 0);
    assert!(!dir.kubeconfig().exists());
    let left = dir.0.join("evenkeel").read_dir().unwrap().count();
    assert_eq!(left, 0, "sockets and credentials should be deleted");
    let access = std::fs::read_to_string(dir.0.join("access/dev.json")).unwrap();
    let access: serde_json::Value = serde_json::from_str(&access).unwrap();
    assert_eq!(access["user"], "system:serviceaccount:greeter:greeter");
    let used = access["used"].as_array().unwrap();
    assert!(used.iter().any(|it| it["verb"] == "patch" && it["resource"] == "configmaps"));
    assert_eq!(access["denied"], json!([]));
}

#[test]
fn webhooks_are_called_for_samples_and_after_a_restart() {
    let dir = TempDir::new("dev-webhooks");
    dir.write("main.rs", "");
    std::fs::create_dir_all(dir.0.join("samples")).unwrap();
    dir.write(
        "samples/tenant.yaml",
        "apiVersion: example.com/v1\nkind: Tenant\nmetadata: {name: acme, namespace: default}\n\
         spec: {owner: ada@example.com}\n",
    );
    let mut dev = Dev::start_operator(&dir, &example("tenant"), &[]);
    dev.progress("is running as service account tenants/tenants");
    dev.progress("Tenant default/acme created");
    block_on(async {
        let gvk = GroupVersionKind::gvk("example.com", "v1", "Tenant");
        let resource = ApiResource::from_gvk(&gvk);
        let client = client(&dir).await;
        let tenants = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
        assert_eq!(tenants.get("acme").await.unwrap().data["spec"]["tier"], "free");
        let parameters = PatchParams::default();
        let rename = Patch::Merge(json!({"spec": {"owner": "bob@example.com"}}));
        let error = tenants.patch("acme", &parameters, &rename).await.unwrap_err().to_string();
        assert!(error.contains("it cannot be changed"), "{error}");

        // The next process listens on another port.
        dir.write("main.rs", "// changed");
        dev.progress("A source file has changed.");
        dev.progress("is running as service account");
        let error = loop {
            let error = tenants.patch("acme", &parameters, &rename).await.unwrap_err().to_string();
            if !error.contains("failed calling webhook") {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert!(error.contains("it cannot be changed"), "{error}");
    });
    dev.signal("-TERM");
    assert!(dev.child.wait().unwrap().success());
}

#[test]
fn directory_without_a_project_is_reported() {
    let dir = TempDir::new("no-project");
    let output = run(&dir.0, &["dev"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("there is no Cargo.toml"), "{output:?}");
    assert!(!dir.kubeconfig().exists());
}

#[test]
fn operator_ends_if_the_command_is_killed() {
    let dir = TempDir::new("killed");
    let mut dev = Dev::start(&dir, &[]);
    dev.progress("is running as service account");
    assert_eq!(operators(&dir), 1);
    dev.signal("-KILL");
    // The operator has the same pipes.
    dev.stderr.end();
    dev.stdout.end();
    assert_eq!(operators(&dir), 0);
}

#[test]
fn persisted_objects_are_there_in_the_next_run() {
    let dir = TempDir::new("persist");
    sample(&dir);
    let mut first = Dev::start(&dir, &["--persist", "data", "--as-admin"]);
    first.progress("is running as cluster administrator");
    first.output("done");
    first.signal("-TERM");
    assert!(first.child.wait().unwrap().success());
    let mut second = Dev::start(&dir, &["--persist", "data", "--no-samples"]);
    second.output(" listed");
    let tree = run(&dir.0, &["tree", "greeting/ada", "-n", "default"]).success().stdout;
    assert!(tree.contains("└─ ConfigMap ada"), "{tree}");
    second.signal("-TERM");
    assert!(second.child.wait().unwrap().success());
}
