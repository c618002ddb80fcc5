//! Runs one kubectl script against both servers and compares every line it prints.
//!
//! Skipped, with a message, if kube-apiserver or kubectl are not installed.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use evenkeel_apiserver::ApiServer;
use evenkeel_upstream::{Cluster, UpstreamOptions, locate, report_skipped};
use regex::Regex;
use serde_json::Value;

const SKIPPED: &str = "comparison of kubectl's output with kube-apiserver";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_patches_edits_and_prunes_as_with_kube_apiserver() {
    let binaries = match locate() {
        Ok(binaries) => binaries,
        Err(missing) => return report_skipped(1, SKIPPED, missing),
    };
    let Some(kubectl) = binaries.kubectl.clone() else {
        return report_skipped(1, SKIPPED, "kubectl is not installed");
    };
    let folder = Folder::new();
    let real = Cluster::start(&binaries, &UpstreamOptions::default()).await.unwrap();
    let upstream = run(&kubectl, real.kubeconfig(), &folder.0.join("upstream")).await;

    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = folder.0.join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let ours = run(&kubectl, &kubeconfig, &folder.0.join("ours")).await;

    let (mut upstream, mut ours) = (upstream.lines(), ours.lines());
    let mut command = "";
    loop {
        match (upstream.next(), ours.next()) {
            (None, None) => break,
            (theirs, ours) => {
                assert_eq!(ours, theirs, "after {command}\nleft: ours, right: upstream");
                if let Some(line) = theirs.filter(|line| line.starts_with(['$', '#'])) {
                    command = line;
                }
            }
        }
    }
}

/// Runs the script and returns its canonical output.
async fn run(kubectl: &Path, kubeconfig: &Path, folder: &Path) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let mut command = Command::new("sh");
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/apply.sh"))
        .env("KUBECTL", kubectl)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("== done"), "the script ended early:\n{text}");
    canonical(&text.replace(folder.to_str().unwrap(), "<folder>"))
}

/// Replaces uids, times and addresses, and sorts managedFields and apply errors, which
/// kube-apiserver returns in random order.
fn canonical(text: &str) -> String {
    static PARTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
            (r#"(resourceVersion"?: ?)"?[0-9]+"?"#, "$1<version>"),
            (r"20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{8,}( [+-][0-9]{4}|Z)?", "<time>"),
            (r"[WE][0-9]{4} [0-9:.]+ +[0-9]+ ", "<log> "),
            (r"(LIVE|MERGED|kubectl-[a-z-]+)-[0-9]+", "$1-<number>"),
            (r"10\.[0-9]+\.[0-9]+\.[0-9]+", "<ip>"),
            (r"127\.0\.0\.1:[0-9]+", "<host>"),
            (r"\b[0-9]+m?s\b", "<age>"),
        ]
        .map(|(pattern, name)| (Regex::new(pattern).unwrap(), name))
        .into()
    });
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line.starts_with("#object") {
            let object: Vec<&str> = lines.by_ref().take_while(|line| *line != "#end").collect();
            out.push_str(&sorted(&object.join("\n")));
            out.push('\n');
        }
        if line.ends_with("): errors:") {
            let is_error = |line: &&str| line.starts_with("  .");
            let mut errors: Vec<_> = std::iter::from_fn(|| lines.next_if(is_error)).collect();
            errors.sort_unstable();
            errors.iter().for_each(|line| out.extend([line, "\n"]));
        }
    }
    PARTS.iter().fold(out, |text, (part, name)| part.replace_all(&text, *name).into_owned())
}

/// Sorts managedFields by manager: the second in which each manager wrote is random.
fn sorted(object: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(object) else { return object.to_owned() };
    if let Some(Value::Array(entries)) = value.pointer_mut("/metadata/managedFields") {
        for entry in entries.iter_mut() {
            entry.as_object_mut().unwrap().remove("time");
        }
        entries.sort_by_key(Value::to_string);
    }
    serde_json::to_string_pretty(&value).unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-kubectl-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
