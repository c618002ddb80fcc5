//! Where the executables are: named by the environment, in an envtest dir, or in our cache.
//!
//! Looking never builds and never downloads. What is not there is named, with what would bring it;
//! what is there and is not the real thing ([`identify`]) is refused.
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// Nothing names or holds the program.
    #[error(
        "no {} (set EVENKEEL_TEST_{} or KUBEBUILDER_ASSETS, or fill {} with `cargo run -p xtask -- \
         upstream build`)",
        .program.name(), .program.variable(), .cache_dir.display()
    )]
    NotFound {
        /// Which.
        program: Program,
        /// The dir it would be in.
        cache_dir: PathBuf,
    },
    /// There is one, and comparing with it would say nothing.
    #[error("{origin} names {}, which {reason}", .path.display())]
    Rejected {
        /// What named it: a variable, or the cache.
        origin: String,
        /// The executable.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl LocateError {
    /// Whether there is one, and it is Evenkeel's own.
    pub fn is_evenkeel(&self) -> bool {
        matches!(self, Self::Rejected { reason, .. } if reason == DROP_IN)
    }
}

/// Where built executables are kept: `$EVENKEEL_CACHE` or the platform's cache dir, and in it
/// a dir for the pinned versions.
pub fn cache_dir() -> PathBuf {
    cache_dir_from(|name| std::env::var_os(name))
}

/// Finds the executables, and asks each what it is.
///
/// # Errors
///
/// If there is no etcd or no kube-apiserver, or one that is not of the pinned release.
pub fn locate() -> Result<Binaries, LocateError> {
    locate_of(Release::Pinned)
}

/// As [`locate`], for who is content with another release.
///
/// # Errors
///
/// If there is no etcd or no kube-apiserver, or one that is not the real thing.
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
        // A path somebody wrote down counts even if nothing is there: silence would hide a typo.
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
