//! Builds the executables from pinned Go modules.
//!
//! Writes a `go.mod` into the cache directory; Go downloads and verifies the sources. Each
//! executable is moved into `bin/` after its build succeeded. Existing ones are not rebuilt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::locate::{Program, cache_dir};

/// The Kubernetes release that Evenkeel is compared with.
pub const KUBERNETES_VERSION: &str = "1.36.3";

/// The etcd release; streaming lists need 3.5.13 or later.
pub const ETCD_VERSION: &str = "3.6.8";

/// The staging modules of Kubernetes; its `go.mod` requires them at v0.0.0.
const STAGING: [&str; 33] = [
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "cri-streaming",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
    "sample-cli-plugin",
    "sample-controller",
    "streaming",
];

/// Why the executables cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The `go` command cannot be run.
    #[error("no Go toolchain")]
    NoGo(#[source] io::Error),
    /// A file of the cache cannot be written.
    #[error("cannot use {}", path.display())]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The `go` command failed; its output is on stderr.
    #[error("`go {arguments}` failed ({status})")]
    Go {
        /// The arguments of the command.
        arguments: String,
        /// The exit status.
        status: std::process::ExitStatus,
    },
}

/// Builds the programs that are not in the cache, calls `report` for each step, and returns the
/// directory of the executables.
///
/// # Errors
///
/// If there is no Go toolchain, no network for the first build, or no space.
pub fn build(programs: &[Program], mut report: impl FnMut(&str)) -> Result<PathBuf, BuildError> {
    let dir = cache_dir();
    let bin = dir.join("bin");
    let missing: Vec<_> =
        programs.iter().copied().filter(|program| !bin.join(program.name()).is_file()).collect();
    if missing.is_empty() {
        report(&format!("all executables are in {}", bin.display()));
        return Ok(bin);
    }
    let module = dir.join("module");
    for path in [&bin, &module] {
        fs::create_dir_all(path).map_err(cache_error(path))?;
    }
    write(&module.join("go.mod"), &module_file())?;
    write(&module.join("tools.go"), TOOLS)?;
    report("resolving modules");
    go(&module, &["mod", "tidy", "-e"], Stdio::null())?;
    for program in missing {
        report(&format!("building {} (the first build takes minutes)", program.name()));
        build_program(&module, &bin, program)?;
    }
    Ok(bin)
}

fn build_program(module: &Path, bin: &Path, program: Program) -> Result<(), BuildError> {
    // Renamed after the build, so that an interrupted build leaves no executable.
    let unfinished = bin.join(format!(".{}-{}", program.name(), std::process::id()));
    let output = unfinished.to_string_lossy();
    let ldflags = ldflags();
    let package = package(program);
    let arguments = ["build", "-ldflags", &ldflags, "-o", &*output, &*package];
    go(module, &arguments, Stdio::inherit())?;
    let finished = bin.join(program.name());
    fs::rename(&unfinished, &finished).map_err(cache_error(&finished))
}

fn package(program: Program) -> String {
    match program {
        Program::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
        other => format!("k8s.io/kubernetes/cmd/{}", other.name()),
    }
}

/// Returns the `-ldflags` of upstream's release build, which set the version.
fn ldflags() -> String {
    let mut parts = KUBERNETES_VERSION.split('.');
    let (major, minor) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let variables = [
        ("gitVersion", format!("v{KUBERNETES_VERSION}")),
        ("gitMajor", major.to_owned()),
        ("gitMinor", minor.to_owned()),
        ("gitTreeState", "clean".to_owned()),
    ];
    let mut flags = "-s -w".to_owned();
    for (name, value) in variables {
        flags.push_str(&format!(" -X k8s.io/component-base/version.{name}={value}"));
    }
    flags
}

fn module_file() -> String {
    let staging = KUBERNETES_VERSION.replacen("1.", "0.", 1);
    let mut text = format!(
        "module upstream\n\ngo 1.26.0\n\ngodebug default=go1.26\n\n\
         require k8s.io/kubernetes v{KUBERNETES_VERSION}\n\n\
         require go.etcd.io/etcd/server/v3 v{ETCD_VERSION}\n\nreplace (\n"
    );
    for name in STAGING {
        text.push_str(&format!("\tk8s.io/{name} => k8s.io/{name} v{staging}\n"));
    }
    text.push_str(")\n");
    text
}

/// Imports the packages, so that `go mod tidy` keeps their dependencies.
const TOOLS: &str = r#"//go:build tools

package upstream

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
"#;

fn go(dir: &Path, arguments: &[&str], errors: Stdio) -> Result<(), BuildError> {
    let status = Command::new("go")
        .args(arguments)
        .current_dir(dir)
        // The build must not depend on the user's workspace and flags.
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=mod")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .status()
        .map_err(BuildError::NoGo)?;
    if status.success() {
        return Ok(());
    }
    Err(BuildError::Go { arguments: arguments.join(" "), status })
}

fn write(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(path, text).map_err(cache_error(path))
}

fn cache_error(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Cache { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_mod_pins_every_staging_module() {
        let text = module_file();
        assert!(text.contains("require k8s.io/kubernetes v1.36.3\n"));
        assert!(text.contains("\tk8s.io/apiserver => k8s.io/apiserver v0.36.3\n"));
        let mut seen = std::collections::BTreeSet::new();
        assert!(STAGING.iter().all(|name| seen.insert(name)), "Go rejects a module replaced twice");
    }

    #[test]
    fn ldflags_set_the_version() {
        assert!(ldflags().contains("version.gitVersion=v1.36.3"));
        assert!(ldflags().contains("version.gitMinor=36"));
    }
}
