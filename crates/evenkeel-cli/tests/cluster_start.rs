//! `evenkeel cluster start` as a process: its kubeconfig, its refusals, its end.

#![expect(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.0.join("evenkeel.kubeconfig")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["cluster", "start"]).args(arguments).current_dir(folder);
    command.stderr(Stdio::piped());
    command
}

/// A running cluster; killed if the test fails.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts one and waits until it is ready.
    fn new(folder: &Path) -> Self {
        let mut child = start(folder, &[]).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut running = Self { child, lines };
        running.until("Press Ctrl-C to stop.");
        running
    }

    /// Reads lines up to one that contains `text`, and returns all of them.
    fn until(&mut self, text: &str) -> String {
        let mut all = String::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            all.push_str(&line);
            all.push('\n');
            if line.contains(text) {
                return all;
            }
        }
        panic!("{text:?} was not printed: {all}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn names_that_do_not_exist_are_refused_with_those_that_do() {
    let folder = Folder::new("names");
    for (arguments, error, known) in [
        (["--without", "nope"], "no controller \"nope\"", "deployment-controller"),
        (["--disable-admission-plugin", "Nope"], "plugin \"Nope\" is unknown", "ResourceQuota"),
    ] {
        let output = start(&folder.0, &arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(error) && text.contains(known), "{text}");
        assert!(!folder.kubeconfig().exists());
    }
}

#[cfg(unix)]
#[test]
fn a_kubeconfig_in_use_is_kept_and_sigterm_ends_the_cluster_in_order() {
    let folder = Folder::new("term");
    let mut running = Running::new(&folder.0);
    let kubeconfig = std::fs::read_to_string(folder.kubeconfig()).unwrap();

    let second = start(&folder.0, &[]).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{text}");
    assert!(text.contains("is running at https://127.0.0.1:"), "{text}");
    assert!(text.contains("--kubeconfig FILE"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.kubeconfig()).unwrap(), kubeconfig);

    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let text = running.until("Stopped.");
    assert!(running.child.wait().unwrap().success(), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a file: {text}");
    assert!(!folder.kubeconfig().exists(), "its certificates died with the cluster");
}
