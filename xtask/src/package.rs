//! Packages the published crates and uses them as a foreign project would: `cargo xtask package`.
//!
//! The tarballs are unpacked into a workspace of their own, without this one's `Cargo.lock` and
//! features. There the executables are built, and the operator of the README is built and tested
//! once for each Kubernetes version: the libraries leave that choice to the binary, so none of them
//! can be verified alone.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The Kubernetes versions that a binary can choose.
const VERSIONS: &[&str] = &["v1_36", "v1_37"];

/// The version of all crates of the workspace, this one included.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The published crates with executables, which choose a version themselves.
const EXECUTABLES: &[&str] = &["evenkeel-cli", "evenkeel-envtest"];

/// The manifest of the foreign project: the dependencies that the README shows, with versions in place
/// of paths.
const MANIFEST: &str = r#"[package]
name = "greeter"
version = "0.1.0"
edition = "2024"

[features]
v1_36 = ["evenkeel/v1_36"]
v1_37 = ["evenkeel/v1_37"]

[dependencies]
evenkeel = "=VERSION"
k8s-openapi = "0.29"
kube = { version = "5.0", default-features = false }
schemars = "1"
serde = { version = "1.0", features = ["derive"] }
serde_json = "1.0"
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

[dev-dependencies]
evenkeel-sim = "=VERSION"
evenkeel-test = "=VERSION"

# Full debug information would take several gigabytes.
[profile.dev]
debug = "line-tables-only"

[patch.crates-io]
"#;

/// Packages, unpacks, builds and tests.
///
/// # Errors
/// When a command fails; its output names the cause.
#[expect(clippy::print_stdout, reason = "a command line tool prints its results")]
pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let build = match arguments {
        [] => true,
        [flag] if flag == "--no-build" => false,
        _ => return Err("usage: package [--no-build]".into()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent")?;
    let names = published(root)?;
    println!("packaging {} crates: {}", names.len(), names.join(", "));
    let mut package = vec!["package", "--no-verify", "--quiet", "--target-dir", "target"];
    names.iter().for_each(|name| package.extend(["--package", name.as_str()]));
    if !build {
        // What is only checked may be a change that is not committed yet.
        package.push("--allow-dirty");
    }
    cargo(root, &package)?;
    if !build {
        println!("passed: {} crates packaged", names.len());
        return Ok(());
    }
    let foreign = root.join("target/foreign");
    println!("unpacking them in {}", foreign.display());
    unpack(root, &foreign, &names)?;
    // Outside of the project, so that its dependencies are not compiled again by the next run.
    let target = root.join("target/foreign-target");
    let target = target.to_str().ok_or("the path of the workspace is not UTF-8")?;
    for version in VERSIONS {
        println!("building and testing the operator of the README with {version}");
        let package = ["--package", "greeter", "--features", version];
        cargo(&foreign, &[&["test", "--target-dir", target][..], &package].concat())?;
    }
    println!("building {}", EXECUTABLES.join(" and "));
    let mut build = vec!["build", "--target-dir", target];
    EXECUTABLES.iter().for_each(|name| build.extend(["--package", name]));
    cargo(&foreign, &build)?;
    println!(
        "passed: {} crates packaged; the operator of the README passed its tests with {}; {} built",
        names.len(),
        VERSIONS.join(" and "),
        EXECUTABLES.join(" and ")
    );
    Ok(())
}

/// Creates the foreign project in an empty folder, with the unpacked crates inside.
fn unpack(root: &Path, foreign: &Path, names: &[String]) -> Result<(), Box<dyn Error>> {
    if foreign.exists() {
        fs::remove_dir_all(foreign)?;
    }
    fs::create_dir_all(foreign.join("src"))?;
    let mut manifest = MANIFEST.replace("VERSION", VERSION);
    for name in names {
        let archive = root.join(format!("target/package/{name}-{VERSION}.crate"));
        execute(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(foreign))?;
        manifest += &format!("{name} = {{ path = \"{name}-{VERSION}\" }}\n");
    }
    manifest += "\n[workspace]\nmembers = [\n";
    for name in EXECUTABLES {
        manifest += &format!("    \"{name}-{VERSION}\",\n");
    }
    manifest += "]\n";
    fs::write(foreign.join("Cargo.toml"), manifest)?;
    let operator = root.join("examples/operators/src/bin/greeting.rs");
    fs::copy(operator, foreign.join("src/main.rs"))?;
    Ok(())
}

/// The crates of the workspace that are published.
fn published(root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let manifest = fs::read_to_string(path.join("Cargo.toml"))?;
        if !manifest.contains("publish = false") {
            names.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    execute(crate::cargo::cargo().args(arguments).current_dir(folder))
}

fn execute(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
