//! Simulated behavior of pods: the annotation syntax, and simulations set by the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// The annotation of a pod that sets its [`PodSimulation`].
pub const POD_SIMULATION_ANNOTATION: &str = "evenkeel.dev/simulate";

/// The simulated behavior of a pod on a simulated node. In the annotation `evenkeel.dev/simulate`
/// of the pod, or of its pod template, parts are separated by commas:
///
/// | part | what happens |
/// |---|---|
/// | `crash-loop` | every container exits with code 1 as soon as it runs |
/// | `never-ready` | containers run and never become ready; their readiness probes fail |
/// | `image-pull-error` | the image cannot be pulled: `ErrImagePull` and `ImagePullBackOff`, or `ErrImageNeverPull` if the pull policy is `Never` |
/// | `ready-after=5s` | containers become ready this long after they start, regardless of their probes |
/// | `unready-after=5s` | containers are no longer ready, and their readiness probes fail, this long after they start |
/// | `complete-after=5s` | containers exit with code 0 after this long |
/// | `fail-after=5s` | containers exit with code 1 after this long |
/// | `exit-code=3` | the code of `fail-after` and `crash-loop` |
/// | `oom-kill-after=5s` | containers are killed after this long: code 137, reason `OOMKilled` |
/// | `fail-startup` | startup probes fail, so that the containers are killed and restarted |
/// | `fail-liveness`, `fail-liveness=5s` | liveness probes fail, from this long after the containers start |
/// | `stop-after=5s` | containers exit this long after SIGTERM |
/// | `ignore-term` | containers ignore SIGTERM and are killed at the end of the grace period |
///
/// A part applies to the containers in `spec.containers` (`image-pull-error` to init containers
/// too). With a name prefix, as in `migrate:fail-after=1s`, it applies to that container only,
/// which may be an init container; the parts without a name do not apply to that container.
///
/// Without a simulation, a container does what its command does if that is recognized (`sleep 30`,
/// `sh -c "exit 1"`). Any other container exits immediately with code 0 if it is an init container,
/// belongs to a Job, or has a command, no probes and a pod whose restart policy is not `Always`.
/// Otherwise it runs until it is stopped.
///
/// Durations are in Go's notation (`500ms`, `1m30s`). A container that exits is restarted according
/// to the restart policy, with the backoff of a kubelet: immediately, then after 10 s, 20 s, 40 s, up
/// to 5 min.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodSimulation {
    /// The image cannot be pulled.
    pub image_pull_error: bool,
    /// Containers never become ready.
    pub never_ready: bool,
    /// Containers become ready after this time, instead of the cluster's delay and their probes.
    pub ready_after: Option<Duration>,
    /// Containers are no longer ready after this time.
    pub unready_after: Option<Duration>,
    /// Containers exit after this time with this code.
    pub exit: Option<(Duration, i32)>,
    /// The exit is reported as `OOMKilled`.
    pub oom_killed: bool,
    /// Startup probes fail.
    pub fail_startup: bool,
    /// Liveness probes fail after this time.
    pub fail_liveness: Option<Duration>,
    /// Containers exit this long after SIGTERM, instead of the cluster's delay.
    pub stop_after: Option<Duration>,
    /// Containers do not stop before their grace period ends.
    pub ignore_term: bool,
    /// Simulations of single containers, by name. Those nested deeper have no effect.
    pub containers: BTreeMap<String, PodSimulation>,
}

/// An invalid simulation annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid part of a pod simulation")]
pub struct PodSimulationError(String);

impl PodSimulation {
    /// Every container exits with code 1 as soon as it runs.
    #[must_use]
    pub fn crash_loop() -> Self {
        Self { never_ready: true, exit: Some((Duration::ZERO, 1)), ..Self::default() }
    }

    /// Containers run and never become ready.
    #[must_use]
    pub fn never_ready() -> Self {
        Self { never_ready: true, ..Self::default() }
    }

    /// The image cannot be pulled.
    #[must_use]
    pub fn image_pull_error() -> Self {
        Self { image_pull_error: true, ..Self::default() }
    }

    /// Containers exit with code 0 after this time.
    #[must_use]
    pub fn complete_after(time: Duration) -> Self {
        Self { exit: Some((time, 0)), ..Self::default() }
    }

    /// Containers exit with code 1 after this time.
    #[must_use]
    pub fn fail_after(time: Duration) -> Self {
        Self { exit: Some((time, 1)), ..Self::default() }
    }

    /// Sets the simulation of one container.
    #[must_use]
    pub fn container(mut self, name: &str, simulation: Self) -> Self {
        self.containers.insert(name.to_owned(), simulation);
        self
    }

    /// Parses one part of the annotation.
    fn add(&mut self, part: &str) -> Option<()> {
        match part.split_once('=').unwrap_or((part, "")) {
            ("crash-loop", "") => {
                self.never_ready = true;
                self.exit = Some((Duration::ZERO, 1));
            }
            ("never-ready", "") => self.never_ready = true,
            ("image-pull-error", "") => self.image_pull_error = true,
            ("fail-startup", "") => self.fail_startup = true,
            ("ignore-term", "") => self.ignore_term = true,
            ("ready-after", time) => self.ready_after = Some(duration(time)?),
            ("unready-after", time) => self.unready_after = Some(duration(time)?),
            ("complete-after", time) => self.exit = Some((duration(time)?, 0)),
            ("fail-after", time) => self.exit = Some((duration(time)?, 1)),
            ("oom-kill-after", time) => {
                self.exit = Some((duration(time)?, 137));
                self.oom_killed = true;
            }
            ("fail-liveness", "") => self.fail_liveness = Some(Duration::ZERO),
            ("fail-liveness", time) => self.fail_liveness = Some(duration(time)?),
            ("stop-after", time) => self.stop_after = Some(duration(time)?),
            _ => return None,
        }
        Some(())
    }

    /// Returns the parts of the annotation, prefixed with the container if given.
    fn parts(&self, container: Option<&str>) -> Vec<String> {
        let mut parts = Vec::new();
        let mut add = |part: String| match container {
            Some(name) => parts.push(format!("{name}:{part}")),
            None => parts.push(part),
        };
        let time = |name: &str, time: Duration| format!("{name}={}ms", time.as_millis());
        for (set, name) in [
            (self.image_pull_error, "image-pull-error"),
            (self.never_ready, "never-ready"),
            (self.fail_startup, "fail-startup"),
            (self.ignore_term, "ignore-term"),
        ] {
            if set {
                add(name.to_owned());
            }
        }
        for (value, name) in [
            (self.ready_after, "ready-after"),
            (self.unready_after, "unready-after"),
            (self.fail_liveness, "fail-liveness"),
            (self.stop_after, "stop-after"),
        ] {
            if let Some(value) = value {
                add(time(name, value));
            }
        }
        match self.exit {
            Some((after, _)) if self.oom_killed => add(time("oom-kill-after", after)),
            Some((after, 0)) => add(time("complete-after", after)),
            Some((after, code)) => {
                add(time("fail-after", after));
                add(format!("exit-code={code}"));
            }
            None => {}
        }
        parts
    }
}

impl FromStr for PodSimulation {
    type Err = PodSimulationError;

    fn from_str(text: &str) -> Result<Self, PodSimulationError> {
        let mut simulation = Self::default();
        let mut codes = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || PodSimulationError(part.to_owned());
            let (container, rest) = match part.split_once(':') {
                Some((name, rest)) => (Some(name.trim()), rest.trim()),
                None => (None, part),
            };
            let target = match container {
                Some("") => return Err(wrong()),
                Some(name) => simulation.containers.entry(name.to_owned()).or_default(),
                None => &mut simulation,
            };
            match rest.strip_prefix("exit-code=") {
                Some(number) => codes.push((container, number.parse().map_err(|_| wrong())?)),
                None => target.add(rest).ok_or_else(wrong)?,
            }
        }
        // The exit code may precede the part that it belongs to.
        for (container, code) in codes {
            let target = match container {
                Some(name) => simulation.containers.entry(name.to_owned()).or_default(),
                None => &mut simulation,
            };
            if let Some((_, exit @ 1..)) = &mut target.exit
                && !target.oom_killed
            {
                *exit = code;
            }
        }
        Ok(simulation)
    }
}

/// Formats the annotation value of this simulation.
impl fmt::Display for PodSimulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            self.containers.iter().flat_map(|(name, simulation)| simulation.parts(Some(name)));
        let parts: Vec<String> = self.parts(None).into_iter().chain(named).collect();
        f.write_str(&parts.join(","))
    }
}

fn duration(text: &str) -> Option<Duration> {
    let nanos = evenkeel_types::duration::parse(text).ok()?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// Simulations of pods without the annotation.
#[derive(Clone, Default)]
pub struct PodSimulations(Option<Arc<Choose>>);

type Choose = dyn Fn(&Pod) -> Option<PodSimulation> + Send + Sync;

impl PodSimulations {
    /// Calls `choose` for each pod without the annotation.
    pub fn new(choose: impl Fn(&Pod) -> Option<PodSimulation> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(choose)))
    }

    /// Returns the simulation of `pod`. An invalid annotation is logged and ignored.
    pub(super) fn of(&self, pod: &Pod) -> PodSimulation {
        let annotations = pod.metadata.annotations.as_ref();
        let chosen = || self.0.as_ref().and_then(|choose| choose(pod)).unwrap_or_default();
        let Some(text) = annotations.and_then(|all| all.get(POD_SIMULATION_ANNOTATION)) else {
            return chosen();
        };
        text.parse().unwrap_or_else(|error: PodSimulationError| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let annotation = POD_SIMULATION_ANNOTATION;
            tracing::warn!(pod = name, annotation, %error, "invalid annotation ignored");
            chosen()
        })
    }
}

impl fmt::Debug for PodSimulations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "custom" } else { "none" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_is_parsed_from_its_text() {
        let simulation: PodSimulation = "exit-code=3, fail-after=5s,ignore-term".parse().unwrap();
        assert_eq!(simulation.exit, Some((Duration::from_secs(5), 3)));
        assert!(simulation.ignore_term);
        assert_eq!("crash-loop".parse(), Ok(PodSimulation::crash_loop()));
        assert_eq!("".parse(), Ok(PodSimulation::default()));
        let simulation: PodSimulation = "ready-after=1m30s".parse().unwrap();
        assert_eq!(simulation.ready_after, Some(Duration::from_secs(90)));
        let migration =
            PodSimulation { exit: Some((Duration::from_secs(1), 7)), ..PodSimulation::default() };
        let simulation = PodSimulation::never_ready().container("migrate", migration);
        assert_eq!(
            "never-ready, migrate:fail-after=1s, migrate:exit-code=7".parse(),
            Ok(simulation)
        );
        for wrong in [
            "crash",
            "fail-after",
            "fail-after=5",
            "fail-after=s",
            "fail-after=-5s",
            "exit-code=x",
            ":crash-loop",
        ] {
            assert_eq!(wrong.parse::<PodSimulation>(), Err(PodSimulationError(wrong.to_owned())));
        }
    }

    #[test]
    fn a_simulation_round_trips_through_its_text() {
        let second = Some(Duration::from_secs(1));
        let everything = PodSimulation {
            image_pull_error: true,
            never_ready: true,
            ready_after: second,
            unready_after: second,
            exit: Some((Duration::ZERO, 137)),
            oom_killed: true,
            fail_startup: true,
            fail_liveness: second,
            stop_after: second,
            ignore_term: true,
            containers: BTreeMap::new(),
        };
        for simulation in [
            PodSimulation::crash_loop(),
            PodSimulation::image_pull_error(),
            PodSimulation::default(),
            PodSimulation::complete_after(Duration::from_millis(1500)),
            everything
                .clone()
                .container("a", everything)
                .container("b", PodSimulation::crash_loop()),
        ] {
            assert_eq!(simulation.to_string().parse(), Ok(simulation));
        }
    }
}
