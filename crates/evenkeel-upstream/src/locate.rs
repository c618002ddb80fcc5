//! Finds the executables: in environment variables, an envtest directory, or the cache.
//!
//! Never builds or downloads. The error for a missing executable names the ways to provide it;
//! executables that are not upstream's ([`identify`]) are rejected.
//!
//! [`identify`]: crate::identify

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::build::{ETCD_VERSION, KUBERNETES_VERSION};
use crate::identify::{DROP_IN, Release, identify};

/// An executable of a Kubernetes release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Program {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    KubeApiserver,
    /// kube-controller-manager.
    KubeControllerManager,
    /// kubectl.
    Kubectl,
}

impl Program {
    /// All programs, in build order: the smallest first.
    pub const ALL: [Self; 4] =
        [Self::Etcd, Self::Kubectl, Self::KubeApiserver, Self::KubeControllerManager];

    /// Returns the file name of the executable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }

    /// Returns the name in environment variables: `KUBE_APISERVER` for kube-apiserver.
    fn variable(self) -> String {
        self.name().to_ascii_uppercase().replace('-', "_")
    }
}

/// The paths of the executables. etcd and kube-apiserver are required.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager, if found.
    pub kube_controller_manager: Option<PathBuf>,
    /// kubectl, if found.
    pub kubectl: Option<PathBuf>,
}

/// Why the executables cannot be used. Tests print it when they are skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The program was not found.
    #[error(
        "no {} (set EVENKEEL_TEST_{} or KUBEBUILDER_ASSETS, or build it into {} with `cargo run -p \
         xtask -- upstream build`)",
        .program.name(), .program.variable(), .cache_dir.display()
    )]
    NotFound {
        /// The program.
        program: Program,
        /// The cache directory that was searched.
        cache_dir: PathBuf,
    },
    /// The executable is not the upstream program of the wanted release.
    #[error("{origin} names {}, which {reason}", .path.display())]
    Rejected {
        /// Where the path comes from: a variable, or the cache.
        origin: String,
        /// The executable.
        path: PathBuf,
        /// Why it is rejected, as the end of a sentence.
        reason: String,
    },
}

impl LocateError {
    /// Whether the executable is Evenkeel's drop-in.
    pub fn is_evenkeel(&self) -> bool {
        matches!(self, Self::Rejected { reason, .. } if reason == DROP_IN)
    }
}

/// Returns the directory of built executables: a directory for the pinned versions in
/// `$EVENKEEL_CACHE` or in the platform's cache directory.
pub fn cache_dir() -> PathBuf {
    cache_dir_from(|name| std::env::var_os(name))
}

/// Finds the executables and checks their version.
///
/// # Errors
///
/// If etcd or kube-apiserver is not found or not of the pinned release.
pub fn locate() -> Result<Binaries, LocateError> {
    locate_of(Release::Pinned)
}

/// Finds the executables like [`locate`], and accepts any release.
///
/// # Errors
///
/// If etcd or kube-apiserver is not found or not upstream's.
pub fn locate_any_release() -> Result<Binaries, LocateError> {
    locate_of(Release::Any)
}

fn locate_of(release: Release) -> Result<Binaries, LocateError> {
    locate_in(|name| std::env::var_os(name), |program, path| identify(program, path, release))
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
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

fn locate_in(
    variable: impl Fn(&str) -> Option<OsString>,
    identify: impl Fn(Program, &Path) -> Result<(), String>,
) -> Result<Binaries, LocateError> {
    let dir = cache_dir_from(&variable);
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let find = |program: Program| -> Result<Option<PathBuf>, LocateError> {
        let key = program.variable();
        // An explicit path is used even if no file exists there, so that a typo is reported.
        let written = ["EVENKEEL_TEST", "TEST_ASSET"].into_iter().find_map(|prefix| {
            let name = format!("{prefix}_{key}");
            set(&name).map(|path| (name, path))
        });
        let kept = || {
            let assets = set("KUBEBUILDER_ASSETS").map(|f| ("KUBEBUILDER_ASSETS".to_owned(), f));
            let cache = ("the cache".to_owned(), dir.join("bin"));
            let folders = assets.into_iter().chain([cache]);
            folders.map(|(by, f)| (by, f.join(program.name()))).find(|(_, path)| path.is_file())
        };
        let Some((origin, path)) = written.or_else(kept) else { return Ok(None) };
        match identify(program, &path) {
            Ok(()) => Ok(Some(path)),
            Err(reason) => Err(LocateError::Rejected { origin, path, reason }),
        }
    };
    let need = |program| {
        find(program)?.ok_or_else(|| LocateError::NotFound { program, cache_dir: dir.clone() })
    };
    Ok(Binaries {
        etcd: need(Program::Etcd)?,
        kube_apiserver: need(Program::KubeApiserver)?,
        kube_controller_manager: find(Program::KubeControllerManager)?,
        kubectl: find(Program::Kubectl)?,
    })
}

#[cfg(test)]
mod tests;
