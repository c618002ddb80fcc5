//! Whether an executable is what its name says: upstream's own, of the release we compare with.
//!
//! Evenkeel ships stand-ins called kube-apiserver and etcd, and `KUBEBUILDER_ASSETS` often points
//! at them. Comparing one of our servers with another would find nothing, for ever.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::build::KUBERNETES_VERSION;
use crate::locate::Program;

/// The first etcd that streaming lists work with.
const OLDEST_ETCD: [u64; 3] = [3, 5, 13];

/// Which release will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The one that Evenkeel is compared with.
    Pinned,
    /// Any.
    Any,
}

/// What is wrong with an executable of ours.
pub(crate) const STAND_IN: &str = "is Evenkeel's own stand-in, not the real one";

/// Asks the executable at `path` for its version and its help. The error completes the sentence
/// "the executable …".
pub(crate) fn identify(program: Program, path: &Path, release: Release) -> Result<(), String> {
    let version = match program {
        Program::Kubectl => ask(path, &["version", "--client"])?,
        Program::Etcd | Program::KubeApiserver | Program::KubeControllerManager => {
            ask(path, &["--version"])?
        }
    };
    judge(program, &version, &ask(path, &["--help"])?, release)
}

fn ask(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot be run: {error}"))?;
    // etcd puts its help on one stream and its errors on the other, the others the reverse.
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

fn judge(program: Program, version: &str, help: &str, release: Release) -> Result<(), String> {
    if [version, help].iter().any(|said| said.to_ascii_lowercase().contains("evenkeel")) {
        return Err(STAND_IN.to_owned());
    }
    let said = || version.lines().next().unwrap_or("nothing").trim().to_owned();
    let after = match program {
        Program::Etcd => "etcd Version: ",
        Program::Kubectl => "Client Version: v",
        Program::KubeApiserver | Program::KubeControllerManager => "Kubernetes v",
    };
    let number = version.lines().find_map(|line| line.trim().strip_prefix(after));
    let Some(number) = number.and_then(numbers) else {
        return Err(format!(
            "is no {}: asked for its version it said {:?}",
            program.name(),
            said()
        ));
    };
    match program {
        Program::Etcd if number >= OLDEST_ETCD => Ok(()),
        Program::Etcd => {
            let [major, minor, patch] = OLDEST_ETCD;
            Err(format!("is too old: {} where {major}.{minor}.{patch} is needed", said()))
        }
        _ if release == Release::Any => Ok(()),
        _ if Some(number[..2].to_vec()) == numbers(KUBERNETES_VERSION).map(|n| n[..2].to_vec()) => {
            Ok(())
        }
        _ => Err(format!("is of another release: {} instead of v{KUBERNETES_VERSION}", said())),
    }
}

/// `1.36.3-rc.1+x` as numbers.
fn numbers(text: &str) -> Option<[u64; 3]> {
    let plain = text.split(['-', '+', ' ']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_release_is_taken() {
        let judge = |program, version| judge(program, version, "Usage: …", Release::Pinned);
        assert_eq!(judge(Program::KubeApiserver, "Kubernetes v1.36.0\n"), Ok(()));
        assert_eq!(judge(Program::Etcd, "etcd Version: 3.6.8\nGit SHA: x\n"), Ok(()));
        assert_eq!(judge(Program::Kubectl, "Client Version: v1.36.3\nKustomize"), Ok(()));
    }

    #[test]
    fn our_own_stand_ins_are_not() {
        let judge = |program, version, help| judge(program, version, help, Release::Any);
        let why = judge(Program::KubeApiserver, "Kubernetes v1.36.3", "An Evenkeel API server");
        assert_eq!(why.unwrap_err(), STAND_IN);
        let why = judge(Program::Etcd, "etcd Version: 3.6.8\nGit SHA: evenkeel", "");
        assert_eq!(why.unwrap_err(), STAND_IN);
    }

    #[test]
    fn nor_are_other_releases_and_other_programs() {
        let judge = |program, version, release| judge(program, version, "", release);
        let why = |program, version| judge(program, version, Release::Pinned).unwrap_err();
        assert!(why(Program::KubeApiserver, "Kubernetes v1.35.1").contains("another release"));
        assert_eq!(judge(Program::KubeApiserver, "Kubernetes v1.35.1", Release::Any), Ok(()));
        assert!(why(Program::Etcd, "etcd Version: 3.5.12").contains("too old"));
        assert!(why(Program::Kubectl, "flag needs an argument").contains("is no kubectl"));
        assert!(why(Program::Etcd, "").contains("is no etcd"));
    }

    #[test]
    fn what_cannot_be_run_says_so() {
        let why = identify(Program::Etcd, Path::new("/nowhere/etcd"), Release::Any).unwrap_err();
        assert!(why.starts_with("cannot be run"), "{why}");
    }
}
