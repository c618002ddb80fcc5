//! Runs `cargo run -p appservice` as a process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_appservice"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn once_prints_a_summary_and_no_kubeconfig() {
    let output = demo(&["--once"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Scenario completed: 6 steps, "), "{text}");
    assert!(!text.contains("KUBECONFIG"), "{text}");
    // A reconcile that is running when the Deployment is edited corrects it without a comparison;
    // `tests/operator.rs` has the detection itself.
    let drifts = text.matches("drift detected: ").count();
    assert!(drifts <= 1, "only the edit of the Deployment: {text}");
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text}");
}

#[test]
fn closed_stdout_stops_the_program() {
    let mut child = demo(&[]).spawn().unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    assert!(first.contains("API is ready"), "{first}");
    drop(stdout);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn errors_go_to_standard_error() {
    let output = demo(&["--kubeconfig", "/nowhere/kubeconfig"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let mut text = String::new();
    output.stderr.as_slice().read_to_string(&mut text).unwrap();
    assert!(text.contains("error: ") && text.contains("/nowhere/kubeconfig"), "{text}");
    assert!(output.stdout.is_empty());
}
