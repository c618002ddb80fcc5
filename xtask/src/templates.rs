//! Builds and tests the projects that `evenkeel new` creates and what `evenkeel add` adds to them:
//! `cargo xtask templates`.
//!
//! All templates are generated into one workspace, `target/templates`, which also has the packages of
//! this repository, as links, and its `Cargo.lock`. Its target directory is its own and starts with the
//! artifacts of `cargo test --workspace` ([`seed`]), so only the projects are compiled.

mod journey;

pub(crate) mod seed;

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The additional members of the workspace: the projects, and the packages of the one that is a workspace.
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

/// A package that uses what macros and other packages of this repository both depend on. Cargo compiles
/// such a dependency once, with debug information, but only if a build needs it for both: without this
/// package, macros and all that uses them would be compiled again.
const SHARED: &str = "\
[package]
name = \"shared\"
edition = \"2024\"

[dependencies]
clap = { workspace = true }
proc-macro2 = { version = \"1.0\", default-features = false }
syn = { version = \"3.0\", default-features = false }
";

/// What the workspace has in common with this repository.
const LINKS: &[&str] = &["bench", "crates", "examples", "xtask"];

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
    let packages = MEMBERS.iter().flat_map(|member| ["--package", package(member)]);
    let packages: Vec<&str> = packages.collect();
    execute(cargo().arg("fmt").args(&packages).arg("--check").current_dir(&directory))?;
    add_types(root, &directory.join("greeter-operator/src"))?;

    let target = root.join("target/templates-target");
    let program = std::env::current_exe()?;
    seed::seed(program.parent().ok_or("this program has no directory")?, &target)?;
    println!("templates: the projects are generated after {:.1?}", started.elapsed());
    let within = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(arguments).current_dir(&directory).env("CARGO_TARGET_DIR", &target);
        command
    };
    let mut test = vec!["test", "--workspace", "--offline", "--quiet"];
    let names = tests(&directory)?;
    names.iter().for_each(|name| test.extend(["--test", name]));
    deny_warnings(within(&test).arg("--no-run"))?;
    println!("templates: the projects are built after {:.1?}", started.elapsed());
    execute(&mut within(&test))?;
    println!("templates: the projects are tested after {:.1?}", started.elapsed());
    if lint {
        let clippy = [&["clippy", "--all-targets", "--offline"], &*packages].concat();
        execute(within(&clippy).args(["--", "-D", "warnings"]))?;
    }
    let bin = directory.join("bin");
    let path = std::env::var("PATH")?;
    let dev = |test: &str, command: &mut Command| {
        command.env("CARGO_TARGET_DIR", &target).env("EVENKEEL_TEMPLATE_TEST", test);
        command.env("PATH", format!("{}:{path}", bin.display()));
    };
    write_cargo(&bin)?;
    let times = journey::minimal(&evenkeel()?, &directory.join("greeter-operator"), |it| {
        dev("greeter", it)
    })?;
    println!(
        "journey: the sample is ready after {:.1?}, and a change has an effect after {:.1?}",
        times.ready, times.changed
    );
    journey::webhook(&evenkeel()?, &directory.join("hook-operator"), |it| dev("hook", it))?;
    println!(
        "passed: {} projects of `evenkeel new` with {} additions built and tested in {:.1?}",
        PROJECTS.len(),
        ADDITIONS.len(),
        started.elapsed()
    );
    Ok(())
}

/// Writes a `cargo` for `evenkeel dev`: it builds the executable of a project as a dependency of a
/// test, with the features of the workspace, because a build of the project alone would compile its
/// dependencies again.
fn write_cargo(bin: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(bin)?;
    let script = format!(
        "#!/bin/sh\n{:?} test --workspace --offline --no-run --test shared --test $EVENKEEL_TEMPLATE_TEST \\\n\
         --message-format=json-render-diagnostics | grep '\"kind\":\\[\"bin\"\\]'\n",
        env!("CARGO")
    );
    let path = bin.join("cargo");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Writes the workspace with all projects.
fn generate(root: &Path, directory: &Path) -> Result<(), Box<dyn Error>> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let members = MEMBERS.iter().chain(&["shared"]);
    let own = members.fold("members = [".to_owned(), |own, it| own + &format!("{it:?}, "));
    fs::write(directory.join("Cargo.toml"), manifest.replacen("members = [", &own, 1))?;
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock"))?;
    for name in LINKS {
        symlink(root.join(name), directory.join(name))?;
    }
    fs::create_dir_all(directory.join("shared/tests"))?;
    fs::write(directory.join("shared/Cargo.toml"), SHARED)?;
    fs::write(directory.join("shared/tests/shared.rs"), "")?;
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

/// Returns the name of the package in a directory of the workspace.
fn package(member: &str) -> &str {
    match member {
        "note-operator/api" => "note-operator-api",
        "note-operator/operator" => "note-operator",
        _ => member,
    }
}

/// Returns the names of the integration tests of the projects.
fn tests(directory: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = vec!["shared".to_owned()];
    for member in MEMBERS {
        let tests = directory.join(member).join("tests");
        for entry in fs::read_dir(&tests).into_iter().flatten() {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            names.push(name.into_owned());
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
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

/// Runs a build that must not print a warning. The flag `-D warnings` would be part of all fingerprints.
#[expect(clippy::print_stderr, reason = "a command line tool prints errors")]
fn deny_warnings(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    eprint!("{errors}");
    if errors.lines().any(|line| line.starts_with("warning")) {
        return Err(format!("{command:?}: there are warnings").into());
    }
    match output.status {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}

fn execute(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
