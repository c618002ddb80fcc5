//! Where the executables are: named by the environment, in an envtest folder, or in our cache.
//!
//! Looking never builds and never downloads. What is not there is named, with what would bring it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::obtain::{ETCD_VERSION, KUBERNETES_VERSION};

/// An executable of a Kubernetes release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The built-in controllers.
    KubeControllerManager,
    /// The command line client.
    Kubectl,
}

impl Program {
    /// All of them, in the order they are built: the small ones first.
    pub const ALL: [Self; 4] =
        [Self::Etcd, Self::Kubectl, Self::KubeApiserver, Self::KubeControllerManager];

    /// The name of the executable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// `KUBE_APISERVER` for kube-apiserver.
    fn variable(self) -> String {
        self.name().to_ascii_uppercase().replace('-', "_")
    }
}

/// The executables that were found. The first two are always there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Binaries {
    /// The store.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// The built-in controllers, if they are there.
    pub kube_controller_manager: Option<PathBuf>,
    /// The command line client, if it is there.
    pub kubectl: Option<PathBuf>,
}

/// Why there is no real server to compare with: a sentence to print when something is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    program: Program,
    looked_in: PathBuf,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no {} (set EVENKEEL_TEST_{} or KUBEBUILDER_ASSETS, or fill {} with `cargo run -p \
             xtask -- upstream build`)",
            self.program.name(),
            self.program.variable(),
            self.looked_in.display(),
        )
    }
}

impl std::error::Error for Missing {}

/// Where built executables are kept: `$EVENKEEL_CACHE` or the platform's cache folder, and in it
/// a folder for the pinned versions.
pub fn cache_folder() -> PathBuf {
    folder_in(|name| std::env::var_os(name))
}

/// Finds the executables.
///
/// # Errors
///
/// If there is no etcd or no kube-apiserver.
pub fn locate() -> Result<Binaries, Missing> {
    locate_in(|name| std::env::var_os(name))
}

fn folder_in(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("EVENKEEL_CACHE").unwrap_or_else(|| {
        let platform = set("XDG_CACHE_HOME").or_else(|| {
            let home = set("HOME")?;
            let caches = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
            Some(home.join(caches))
        });
        platform.unwrap_or_else(std::env::temp_dir).join("evenkeel")
    });
    base.join(format!("kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"))
}

fn locate_in(variable: impl Fn(&str) -> Option<OsString>) -> Result<Binaries, Missing> {
    let folder = folder_in(&variable);
    let find = |program: Program| -> Option<PathBuf> {
        let named = |name: String| variable(&name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let key = program.variable();
        // A path somebody wrote down is taken at its word; starting it will say what is wrong.
        named(format!("EVENKEEL_TEST_{key}"))
            .or_else(|| named(format!("TEST_ASSET_{key}")))
            .or_else(|| {
                let assets = named("KUBEBUILDER_ASSETS".to_owned())?.join(program.name());
                is_there(&assets).then_some(assets)
            })
            .or_else(|| {
                let cached = folder.join("bin").join(program.name());
                is_there(&cached).then_some(cached)
            })
    };
    let need =
        |program| find(program).ok_or_else(|| Missing { program, looked_in: folder.clone() });
    Ok(Binaries {
        etcd: need(Program::Etcd)?,
        kube_apiserver: need(Program::KubeApiserver)?,
        kube_controller_manager: find(Program::KubeControllerManager),
        kubectl: find(Program::Kubectl),
    })
}

fn is_there(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests;
