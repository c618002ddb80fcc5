//! Builds and tests the projects that `evenkeel new` creates and what `evenkeel add` adds to them:
//! `cargo xtask templates`.
//!
//! All templates are generated into one workspace, `target/templates`, so that their dependencies are
//! compiled once. It has this repository's `Cargo.lock`, so nothing is downloaded, and a target
//! directory of its own, which the next run uses again.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::time::Instant;

use crate::cargo::cargo;

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

/// The size of a new project, formatted with the default settings.
const MAX_LINES: usize = 250;

/// What is added to the projects: the directory and the arguments of `evenkeel add`.
const ADDITIONS: &[(&str, &[&str])] = &[
    ("web-operator", &["kind", "Certificate"]),
    ("web-operator", &["controller", "node-labels", "--kind", "Node"]),
    ("web-operator", &["webhook", "Website"]),
    ("web-operator", &["webhook", "Pod"]),
    ("web-operator", &["version", "Website", "v1"]),
    ("web-operator", &["version", "Website", "v2alpha1"]),
    ("record-operator", &["version", "Record", "v1beta1"]),
    ("note-operator", &["kind", "Memo", "--scope", "cluster", "--version", "v1beta1"]),
    ("note-operator", &["controller", "note-backup", "--kind", "Note"]),
    ("note-operator", &["webhook", "Memo"]),
    ("note-operator", &["version", "Note", "v2"]),
    ("note-operator", &["version", "Memo", "v1"]),
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
    let started = Instant::now();
    execute(cargo().args(test).current_dir(root))?;
    println!("templates: `evenkeel` is built after {:.1?}", started.elapsed());
    let directory = root.join("target/templates");
    generate(root, &directory)?;
    execute(cargo().args(["fmt", "--all", "--check"]).current_dir(&directory))?;
    add_types(root, &directory.join("greeter-operator/src"))?;
    let target = root.join("target/templates-target");
    let within = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(arguments).current_dir(&directory);
        command.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-D warnings");
        command
    };
    let test = ["test", "--workspace", "--offline", "--quiet"];
    execute(within(&test).arg("--no-run"))?;
    println!("templates: the projects are built after {:.1?}", started.elapsed());
    execute(&mut within(&test))?;
    println!("templates: the projects are tested after {:.1?}", started.elapsed());
    if lint {
        let clippy =
            ["clippy", "--workspace", "--all-targets", "--offline", "--", "-D", "warnings"];
        execute(&mut within(&clippy))?;
    }
    journey(&directory.join("greeter-operator"), &target)?;
    println!(
        "passed: {} projects of `evenkeel new` with {} additions built and tested in {:.1?}",
        PROJECTS.len(),
        ADDITIONS.len(),
        started.elapsed()
    );
    Ok(())
}

/// Runs `evenkeel dev` in a project until its sample is ready and until a change of a source has an
/// effect, and prints how long that takes.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
fn journey(project: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let evenkeel = evenkeel()?;
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
    // Elsewhere the projects have the default settings, not those of this repository.
    for name in ["clippy.toml", "rustfmt.toml"] {
        fs::write(directory.join(name), "")?;
    }
    for (name, arguments) in PROJECTS {
        let mut command = Command::new(evenkeel()?);
        command.args(["new", name]).args(*arguments).current_dir(directory);
        execute(&mut command)?;
        let lines = lines(&directory.join(name))?;
        if lines > MAX_LINES {
            return Err(format!("{name} has {lines} lines, more than {MAX_LINES}").into());
        }
        // Its packages are members of this workspace.
        if arguments.contains(&"--workspace") {
            fs::remove_file(directory.join(name).join("Cargo.toml"))?;
        }
    }
    for (name, arguments) in ADDITIONS {
        let mut command = Command::new(evenkeel()?);
        execute(command.arg("add").args(*arguments).current_dir(directory.join(name)))?;
    }
    Ok(())
}

/// Returns the number of lines of all files in a directory.
fn lines(directory: &Path) -> Result<usize, Box<dyn Error>> {
    let mut lines = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        lines += match path.is_dir() {
            true => self::lines(&path)?,
            false => fs::read_to_string(&path)?.lines().count(),
        };
    }
    Ok(lines)
}

/// Adds a module that `evenkeel types` generates to a project.
fn add_types(root: &Path, source: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(evenkeel()?);
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

/// Returns the command that was built, which is next to this program.
fn evenkeel() -> Result<PathBuf, Box<dyn Error>> {
    Ok(std::env::current_exe()?.with_file_name("evenkeel"))
}

fn execute(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
