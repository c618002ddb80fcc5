//! Checks that an executable is the upstream program of the wanted release.
//!
//! Evenkeel ships drop-in executables called kube-apiserver and etcd, and `KUBEBUILDER_ASSETS`
//! often points at them. Comparing Evenkeel with itself would find no differences.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::build::KUBERNETES_VERSION;
use crate::locate::Program;

/// The first etcd release that supports streaming lists.
const ETCD_VERSION_MIN: [u64; 3] = [3, 5, 13];

/// The accepted releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The release that Evenkeel is compared with.
    Pinned,
    /// Any release.
    Any,
}

/// Why an executable of Evenkeel is rejected.
pub(crate) const DROP_IN: &str = "is Evenkeel's drop-in, not the upstream program";

/// Runs the executable at `path` with `--version` and `--help` and checks the output. The error
/// completes the sentence "the executable …".
pub(crate) fn identify(program: Program, path: &Path, release: Release) -> Result<(), String> {
    let version = match program {
        Program::Kubectl => output(path, &["version", "--client"])?,
        Program::Etcd | Program::KubeApiserver | Program::KubeControllerManager => {
            output(path, &["--version"])?
        }
    };
    check_version(program, &version, &output(path, &["--help"])?, release)
}

fn output(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot be run: {error}"))?;
    // The programs differ in which stream they print help and errors to.
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

fn check_version(
    program: Program,
    version: &str,
    help: &str,
    release: Release,
) -> Result<(), String> {
    if [version, help].iter().any(|text| text.to_ascii_lowercase().contains("evenkeel")) {
        return Err(DROP_IN.to_owned());
    }
    let first_line = || version.lines().next().unwrap_or("nothing").trim().to_owned();
    let after = match program {
        Program::Etcd => "etcd Version: ",
        Program::Kubectl => "Client Version: v",
        Program::KubeApiserver | Program::KubeControllerManager => "Kubernetes v",
    };
    let number = version.lines().find_map(|line| line.trim().strip_prefix(after));
    let Some(number) = number.and_then(parse_version) else {
        return Err(format!("is not {}: its version output is {:?}", program.name(), first_line()));
    };
    match program {
        Program::Etcd if number >= ETCD_VERSION_MIN => Ok(()),
        Program::Etcd => {
            let [major, minor, patch] = ETCD_VERSION_MIN;
            Err(format!("is too old: {}, need at least {major}.{minor}.{patch}", first_line()))
        }
        _ if release == Release::Any => Ok(()),
        _ if Some(number[..2].to_vec())
            == parse_version(KUBERNETES_VERSION).map(|n| n[..2].to_vec()) =>
        {
            Ok(())
        }
        _ => {
            Err(format!("is of another release: {} instead of v{KUBERNETES_VERSION}", first_line()))
        }
    }
}

/// Parses major, minor and patch of a version such as `1.36.3-rc.1+x`.
fn parse_version(text: &str) -> Option<[u64; 3]> {
    let plain = text.split(['-', '+', ' ']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_release_is_accepted() {
        let check_version =
            |program, version| check_version(program, version, "Usage: …", Release::Pinned);
        assert_eq!(check_version(Program::KubeApiserver, "Kubernetes v1.36.0\n"), Ok(()));
        assert_eq!(check_version(Program::Etcd, "etcd Version: 3.6.8\nGit SHA: x\n"), Ok(()));
        assert_eq!(check_version(Program::Kubectl, "Client Version: v1.36.3\nKustomize"), Ok(()));
    }

    #[test]
    fn evenkeel_drop_ins_are_rejected() {
        let check_version =
            |program, version, help| check_version(program, version, help, Release::Any);
        let why =
            check_version(Program::KubeApiserver, "Kubernetes v1.36.3", "The Evenkeel API server");
        assert_eq!(why.unwrap_err(), DROP_IN);
        let why = check_version(Program::Etcd, "etcd Version: 3.6.8\nGit SHA: evenkeel", "");
        assert_eq!(why.unwrap_err(), DROP_IN);
    }

    #[test]
    fn other_releases_and_programs_are_rejected() {
        let check_version =
            |program, version, release| check_version(program, version, "", release);
        let why = |program, version| check_version(program, version, Release::Pinned).unwrap_err();
        assert!(why(Program::KubeApiserver, "Kubernetes v1.35.1").contains("another release"));
        assert_eq!(
            check_version(Program::KubeApiserver, "Kubernetes v1.35.1", Release::Any),
            Ok(())
        );
        assert!(why(Program::Etcd, "etcd Version: 3.5.12").contains("too old"));
        assert!(why(Program::Kubectl, "flag needs an argument").contains("is not kubectl"));
        assert!(why(Program::Etcd, "").contains("is not etcd"));
    }

    #[test]
    fn executable_that_cannot_run_is_reported() {
        let why = identify(Program::Etcd, Path::new("/nowhere/etcd"), Release::Any).unwrap_err();
        assert!(why.starts_with("cannot be run"), "{why}");
    }
}
