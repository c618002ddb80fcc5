//! Packages the published crates and uses them as a foreign project would: `cargo xtask package`.
//!
//! The tarballs are unpacked into a workspace of their own, without this one's `Cargo.lock` and
//! features. There the operator of the README is built and tested, once for each Kubernetes version:
//! the crates leave that choice to the binary, so none of them can be verified alone.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The Kubernetes versions that a binary can choose.
const VERSIONS: &[&str] = &["v1_36", "v1_37"];

/// The version of all crates of the workspace, this one included.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The manifest of the foreign project, as the README shows its dependencies.
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
evenkeel-test = "=VERSION"

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
    let target = root.join("target/package");
    cargo(root, &["package", "--workspace", "--no-verify", "--quiet", "--target-dir", "target"])?;
    if !build {
        return Ok(());
    }
    let foreign = root.join("target/foreign");
    if foreign.exists() {
        fs::remove_dir_all(&foreign)?;
    }
    fs::create_dir_all(foreign.join("src"))?;
    let mut manifest = MANIFEST.replace("VERSION", VERSION);
    for name in published(root)? {
        let archive = target.join(format!("{name}-{VERSION}.crate"));
        execute(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&foreign))?;
        manifest += &format!("{name} = {{ path = \"{name}-{VERSION}\" }}\n");
    }
    manifest += "\n[workspace]\nexclude = [\"evenkeel*\"]\n";
    fs::write(foreign.join("Cargo.toml"), manifest)?;
    let operator = root.join("examples/operators/src/bin/greeting.rs");
    fs::copy(operator, foreign.join("src/main.rs"))?;
    for version in VERSIONS {
        println!("operator of the README, k8s-openapi feature {version}");
        cargo(&foreign, &["test", "--features", version])?;
    }
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
    execute(Command::new(env!("CARGO")).args(arguments).current_dir(folder))
}

fn execute(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?}: {status}").into()),
    }
}
