//! The examples in `--help` work.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dev::write_cargo;
use crate::operator::{Running, create_greeting};
use crate::support::{Background, TempDir, block_on, run};
use crate::{add, tree};

/// Commands whose examples run without a cluster.
const WITHOUT_CLUSTER: &[&str] = &[
    "add controller",
    "add kind",
    "add version",
    "add webhook",
    "cluster start",
    "completions",
    "dev",
    "image",
    "manifests",
    "new",
    "types",
];

/// Commands that need a running operator with a reconciled object.
const WITH_OPERATOR: &[&str] = &["cache", "pause", "queue", "resume", "top", "trigger", "why"];

/// Commands that run until they are stopped, and what they print once they run.
const SERVERS: &[(&str, &str)] = &[("dev", "is running as"), ("run", "starting workers")];

/// Returns the `--help` of each command that has no sub-commands.
fn help_texts(prefix: &[&str], texts: &mut BTreeMap<String, String>) {
    let text = run(Path::new("."), &[prefix, &["--help"]].concat()).success().stdout;
    let Some((_, commands)) = text.split_once("\nCommands:\n") else {
        texts.insert(prefix.join(" "), text);
        return;
    };
    let names = commands.lines().take_while(|line| !line.is_empty());
    // Continued descriptions are indented further.
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !name.is_empty() && *name != "help") {
        help_texts(&[prefix, &[name]].concat(), texts);
    }
}

/// Returns the examples in a `--help`.
fn examples(text: &str) -> Vec<&str> {
    let rest = text.split_once("Example").map_or("", |(_, rest)| rest);
    rest.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

/// Writes an executable script.
fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts stand-ins of the programs in the examples into `bin`.
fn write_programs(dir: &TempDir) {
    let bin = dir.0.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/src/types/example.yaml");
    std::fs::copy(crd, dir.0.join("crd.yaml")).unwrap();
    write_cargo(dir);
    script(&bin.join("kubectl"), "[ \"$1\" = get ] && cat crd.yaml || cat > /dev/null");
    script(&bin.join("docker"), "tar -t > /dev/null");
    script(&bin.join("go"), "exit 0");
}

/// Writes what the examples of a command refer to, and returns the directory to run them in.
fn prepare(dir: &TempDir, name: &str) -> PathBuf {
    if name.starts_with("add ") {
        return add::project(dir, &[]);
    }
    if name == "new" {
        // It finds the checkout around it.
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        std::os::unix::fs::symlink(crates, dir.0.join("crates")).unwrap();
    }
    if name == "image" {
        let release = dir.0.join("target/release");
        std::fs::create_dir_all(&release).unwrap();
        let source = dir.write("main.rs", "fn main() {}\n");
        let mut rustc = Command::new("rustc");
        rustc.arg(source).args(["-C", "target-feature=+crt-static", "-o"]);
        assert!(rustc.arg(release.join("web-operator")).status().unwrap().success());
    }
    dir.0.clone()
}

#[test]
fn every_command_has_an_example_that_works() {
    let mut texts = BTreeMap::new();
    help_texts(&[], &mut texts);
    assert!(texts.len() > 10, "{:?}", texts.keys());
    for (name, text) in &texts {
        let examples = examples(text);
        assert!(!examples.is_empty(), "`evenkeel {name} --help` has no example:\n{text}");
        for example in examples {
            execute(name, example);
        }
    }
}

/// Runs an example until it prints a text, and stops it.
fn execute_server(mut shell: Command, text: &str) {
    let mut child = shell.process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut all = String::new();
    let mut stopped = false;
    for line in lines {
        let line = line.unwrap();
        all.push_str(&format!("{line}\n"));
        if line.contains(text) && !stopped {
            stopped = true;
            let group = format!("-{}", child.id());
            let mut kill = Command::new("kill");
            assert!(kill.args(["-TERM", "--", &group]).status().unwrap().success());
        }
    }
    child.wait().unwrap();
    assert!(stopped, "{all}");
}

/// Runs one example in a directory of its own.
fn execute(name: &str, example: &str) {
    let dir = TempDir::new("example");
    write_programs(&dir);
    let directory = prepare(&dir, name);
    let cluster = (!WITHOUT_CLUSTER.contains(&name)).then(|| Background::start(&dir, &[]));
    if name == "tree" {
        block_on(tree::create_deployment(&dir));
    }
    let _operator = WITH_OPERATOR.contains(&name).then(|| {
        let running = Running::start(&dir);
        create_greeting(&dir);
        running
    });
    let own = Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap();
    let bin = dir.0.join("bin");
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", example]).current_dir(directory);
    shell.env("PATH", format!("{}:{}:{path}", bin.display(), own.display()));
    shell.env("KUBECONFIG", dir.kubeconfig()).env("XDG_RUNTIME_DIR", &dir.0);
    if let Some((_, text)) = SERVERS.iter().find(|(server, _)| *server == name) {
        return execute_server(shell, text);
    }
    let output = shell.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {stderr}");
    if name == "cluster stop" {
        std::mem::forget(cluster);
    } else if name == "cluster start" {
        run(&dir.0, &["cluster", "stop"]).success();
    }
}
