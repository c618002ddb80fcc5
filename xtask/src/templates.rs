//! Builds and tests the projects that `evenkeel new` creates: `cargo xtask templates`.
//!
//! All templates are generated into one workspace, `target/templates`, so that their dependencies are
//! compiled once. It has this repository's `Cargo.lock`, so nothing is downloaded, and a target
//! directory of its own, which the next run uses again.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::time::Instant;

/// The projects: the directory and the arguments of `evenkeel new` after the name.
const PROJECTS: &[(&str, &[&str])] = &[
    ("greeter-operator", &[]),
    ("web-operator", &["--template", "deployment", "--kind", "Website", "--version", "v1beta1"]),
    ("record-operator", &["--template", "external-api", "--scope", "cluster"]),
    ("hook-operator", &["--template", "webhook"]),
    ("note-operator", &["--workspace", "--group", "notes.example.org"]),
];

/// The members of the workspace: the projects, and the packages of the one that is a workspace.
const MEMBERS: &[&str] = &[
    "greeter-operator",
    "web-operator",
    "record-operator",
    "hook-operator",
    "note-operator/api",
    "note-operator/operator",
];

/// Generates, builds and tests.
///
/// # Errors
/// When a command fails; its output names the cause.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let lint = match arguments {
        [] => false,
        [flag] if flag == "--clippy" => true,
        _ => return Err("usage: templates [--clippy]".into()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    // As a dependency of a test, with the features of the whole workspace: up to date after
    // `cargo test --workspace`.
    let test = ["test", "--workspace", "--test", "commands", "--no-run", "--quiet", "--locked"];
    execute(cargo(root).args(test))?;
    let directory = root.join("target/templates");
    generate(root, &directory)?;
    execute(cargo(&directory).args(["fmt", "--all", "--check"]))?;
    add_types(root, &directory.join("greeter-operator/src"))?;
    let target = root.join("target/templates-target");
    let with_target = |command: &mut Command| {
        command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-D warnings");
    };
    let mut test = cargo(&directory);
    with_target(test.args(["test", "--workspace", "--offline", "--quiet"]));
    execute(&mut test)?;
    if lint {
        let mut clippy = cargo(&directory);
        with_target(clippy.args(["clippy", "--workspace", "--all-targets", "--offline"]));
        execute(clippy.args(["--", "-D", "warnings"]))?;
    }
    journey(root, &directory.join("greeter-operator"), &target)?;
    println!("passed: {} projects of `evenkeel new` built and tested", PROJECTS.len());
    Ok(())
}

/// Runs `evenkeel dev` in a project until its sample is ready and until a change of a source has an
/// effect, and prints how long that takes.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
fn journey(root: &Path, project: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let evenkeel = root.join("target/debug/evenkeel");
    let mut command = Command::new(&evenkeel);
    command.arg("dev").current_dir(project).env("CARGO_TARGET_DIR", target);
    command.env("RUSTFLAGS", "-D warnings").stdout(Stdio::piped());
    let started = Instant::now();
    let mut dev = command.spawn()?;
    let result = (|| {
        let stdout = dev.stdout.take().ok_or("no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut until = |text: &str| -> Result<(), Box<dyn Error>> {
            for line in lines.by_ref() {
                if line?.contains(text) {
                    return Ok(());
                }
            }
            Err(format!("`evenkeel dev` ended before it printed {text:?}").into())
        };
        until("patch Greeter.example.com/status default/sample")?;
        println!("journey: the sample is ready after {:.1?}", started.elapsed());
        let mut tree = Command::new(&evenkeel);
        tree.args(["tree", "greeter/sample", "--kubeconfig", "evenkeel.kubeconfig"]);
        let output = tree.args(["-n", "default"]).current_dir(project).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains("Ready=True") {
            return Err(format!("the sample is not ready: {text}").into());
        }
        let file = project.join("src/greeter.rs");
        let source = fs::read_to_string(&file)?;
        let changed = Instant::now();
        fs::write(&file, source.replace("Hello", "Good morning"))?;
        until("apply ConfigMap default/sample (data.text)")?;
        println!("journey: a change has an effect after {:.1?}", changed.elapsed());
        Ok(())
    })();
    let mut kill = Command::new("kill");
    execute(kill.args(["-INT", &dev.id().to_string()]))?;
    let status = dev.wait()?;
    result.and_then(|()| match status.success() {
        true => Ok(()),
        false => Err(format!("`evenkeel dev` failed: {status}").into()),
    })
}

/// Writes the workspace with all projects.
fn generate(root: &Path, directory: &Path) -> Result<(), Box<dyn Error>> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    // Debug information would take a third of the build.
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {MEMBERS:?}\n\n\
         [profile.dev]\ndebug = false\nincremental = false\n"
    );
    fs::write(directory.join("Cargo.toml"), manifest)?;
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    for (name, arguments) in PROJECTS {
        let mut command = Command::new(root.join("target/debug/evenkeel"));
        command.args(["new", name]).args(*arguments).current_dir(directory);
        execute(&mut command)?;
        // Its packages are members of this workspace.
        if arguments.contains(&"--workspace") {
            fs::remove_file(directory.join(name).join("Cargo.toml"))?;
        }
    }
    Ok(())
}

/// Adds a module that `evenkeel types` generates to a project.
fn add_types(root: &Path, source: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(root.join("target/debug/evenkeel"));
    command.arg("types").arg(root.join("crates/evenkeel-cli/src/types/example.yaml"));
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    fs::write(source.join("gateway.rs"), output.stdout)?;
    let library = fs::read_to_string(source.join("lib.rs"))?;
    fs::write(source.join("lib.rs"), library + "\npub mod gateway;\n")?;
    Ok(())
}

fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(directory);
    // Variables that Cargo set for this program would make build scripts run again.
    let set = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it));
    for (name, _) in std::env::vars().filter(|(name, _)| set(name)) {
        command.env_remove(name);
    }
    command
}

fn execute(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
