//! The output of an operator: help, invalid arguments, errors and a missing CRD.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use evenkeel_cluster::Cluster;

fn greeter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greeting"));
    for variable in ["KUBECONFIG", "RUST_LOG", "NO_COLOR", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(variable);
    }
    command.env("HOME", "/nonexistent");
    command
}

fn run(arguments: &[&str]) -> Output {
    greeter().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_and_version_are_printed() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let shown = text(&help.stdout);
    assert!(shown.starts_with("greeter: a Kubernetes operator"), "{shown}");
    assert!(shown.contains("--kubeconfig FILE") && shown.contains("--print-crds"), "{shown}");
    let version = run(&["--version"]);
    let expected = concat!("greeter ", env!("CARGO_PKG_VERSION"), " (evenkeel ");
    assert!(text(&version.stdout).starts_with(expected), "{}", text(&version.stdout));
    assert!(version.status.success() && version.stderr.is_empty());
}

#[test]
fn invalid_arguments_exit_with_code_2() {
    for (arguments, problem) in [
        (&["--kubeconfg", "x"][..], "error: unknown flag --kubeconfg\nSee greeter --help.\n"),
        (&["--log-level", "loud"], "error: \"loud\" is not a log level"),
        (&["serve"], "error: unexpected argument \"serve\""),
    ] {
        let rejected = run(arguments);
        assert_eq!(rejected.status.code(), Some(2));
        assert!(text(&rejected.stderr).starts_with(problem), "{}", text(&rejected.stderr));
        assert!(rejected.stdout.is_empty());
    }
}

#[test]
fn print_crds_writes_yaml() {
    let printed = run(&["--print-crds"]);
    assert!(printed.status.success());
    let yaml = text(&printed.stdout);
    let start = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";
    assert!(yaml.starts_with(start), "{yaml}");
    assert!(yaml.contains("name: greetings.example.com"), "{yaml}");
}

#[test]
fn main_prints_errors_with_their_causes() {
    let failed = run(&["--kubeconfig", "/nonexistent/config"]);
    assert_eq!(failed.status.code(), Some(1));
    let error = text(&failed.stderr);
    assert!(error.starts_with("Error: cannot use the kubeconfig /nonexistent/config\n"), "{error}");
    assert!(error.contains("\n  caused by: "), "{error}");
    assert!(!error.contains('{') && !error.contains("Kubeconfig {"), "{error}");
    assert_eq!(error.matches("No such file or directory").count(), 1, "{error}");
    let nowhere = text(&run(&[]).stderr);
    assert!(
        nowhere.starts_with("Error: no cluster configuration: --kubeconfig and KUBECONFIG"),
        "{nowhere}"
    );
}

/// A child process, killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_crd_is_logged_by_name() {
    let cluster = Cluster::start().await.unwrap();
    let serving = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("missing-crd.kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let log = tokio::task::spawn_blocking(move || {
        let mut command = greeter();
        command.arg("--kubeconfig").arg(&kubeconfig).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
        let mut log = Vec::new();
        for line in lines.map_while(Result::ok) {
            let found = line.contains("Greeting.example.com/v1");
            log.push(line);
            if found {
                break;
            }
        }
        log.join("\n")
    })
    .await
    .unwrap();
    let named = "the API server does not serve Greeting.example.com/v1: install its CRD";
    assert!(log.contains(" WARN ") && log.contains(named), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours without a terminal: {log}");
    serving.stop().await;
    cluster.stop().await;
}
