//! Simulated probes: none is sent, but their results take effect when they would on a kubelet.
//!
//! A probe succeeds unless the simulation fails it, so the time at which each result takes effect
//! depends only on the start of the container. All times are relative to that start.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod_containers::PodContainer;
use super::simulation::PodSimulation;

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Startup,
    Readiness,
    Liveness,
}

/// The results of the probes of one container over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    /// When it counts as started; `None` if never.
    pub(super) started: Option<Duration>,
    /// The time range in which it is ready.
    ready: Option<(Duration, Option<Duration>)>,
    failing: Vec<Failing>,
}

/// Consecutive failures of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failing {
    kind: Kind,
    first: Duration,
    period: Duration,
    /// When the container is killed because of it, after which it is not probed any more.
    kills: Option<Duration>,
}

impl Timeline {
    /// `delay` is the minimum time until a container is ready.
    pub(super) fn of(
        container: &PodContainer<'_>,
        simulation: &PodSimulation,
        delay: Duration,
    ) -> Self {
        let mut failing = Vec::new();
        let startup = container.startup();
        let started = match startup {
            Some(probe) if simulation.fail_startup => {
                failing.push(Failing::new(Kind::Startup, probe, initial_delay(probe)));
                None
            }
            Some(probe) => Some(passes(probe)),
            None => Some(Duration::ZERO),
        };
        let ready = started.and_then(|started| {
            let readiness = container.readiness();
            let first = readiness.map_or(started, |probe| started.max(initial_delay(probe)));
            if simulation.never_ready {
                failing.extend(readiness.map(|probe| Failing::new(Kind::Readiness, probe, first)));
                return None;
            }
            let passed = first + readiness.map_or(Duration::ZERO, repeats);
            let from = simulation.ready_after.unwrap_or_else(|| passed.max(delay));
            let until = simulation.unready_after.map(|time| match readiness {
                Some(probe) => {
                    let fails = Failing::new(Kind::Readiness, probe, attempt(first, probe, time));
                    let until = fails.exhausted(probe);
                    failing.push(fails);
                    until
                }
                None => time,
            });
            Some((from, until))
        });
        if let (Some(started), Some(probe), Some(time)) =
            (started, container.liveness(), simulation.fail_liveness)
        {
            let first = attempt(started.max(initial_delay(probe)), probe, time);
            failing.push(Failing::new(Kind::Liveness, probe, first));
        }
        Self { started, ready, failing }
    }

    pub(super) fn has_started(&self, age: Duration) -> bool {
        self.started.is_some_and(|started| started <= age)
    }

    pub(super) fn is_ready(&self, age: Duration) -> bool {
        self.ready.is_some_and(|(from, until)| from <= age && until.is_none_or(|until| age < until))
    }

    /// Returns the probe that caused the container to be killed, if any.
    pub(super) fn killed_by(&self, age: Duration) -> Option<Kind> {
        let mut kills = self.failing.iter().filter(|fails| fails.kills.is_some_and(|at| at <= age));
        kills.next().map(|fails| fails.kind)
    }

    /// Returns the probes that failed after `seen` and up to `age`.
    pub(super) fn failures(&self, seen: Option<Duration>, age: Duration) -> Vec<Kind> {
        let failed = self.failing.iter().filter(|fails| {
            fails.next(seen).is_some_and(|at| at <= age && fails.kills.is_none_or(|end| at <= end))
        });
        failed.map(|fails| fails.kind).collect()
    }

    /// Returns when the next result takes effect.
    pub(super) fn next(&self, age: Duration) -> Option<Duration> {
        let (from, until) = self.ready.map_or((None, None), |(from, until)| (Some(from), until));
        let fixed = [self.started, from, until].into_iter().flatten().filter(|at| *at > age);
        let failures = self.failing.iter().filter(|fails| fails.kills.is_none_or(|end| age < end));
        fixed.chain(failures.filter_map(|fails| fails.next(Some(age)))).min()
    }
}

impl Failing {
    fn new(kind: Kind, probe: &Probe, first: Duration) -> Self {
        let period = period(probe);
        let mut fails = Self { kind, first, period, kills: None };
        if kind != Kind::Readiness {
            fails.kills = Some(fails.exhausted(probe));
        }
        fails
    }

    /// Returns when the failure threshold is reached.
    fn exhausted(&self, probe: &Probe) -> Duration {
        let times = u32::try_from(probe.failure_threshold.unwrap_or(3)).unwrap_or(1).max(1);
        self.first + self.period * (times - 1)
    }

    /// Returns the first attempt after `seen`.
    fn next(&self, seen: Option<Duration>) -> Option<Duration> {
        let Some(seen) = seen.filter(|seen| *seen >= self.first) else { return Some(self.first) };
        let passed = (seen - self.first).as_nanos() / self.period.as_nanos();
        Some(self.first + self.period * u32::try_from(passed + 1).ok()?)
    }
}

/// Returns when the startup and readiness probes have succeeded, without failures.
pub(super) fn passed(container: &PodContainer<'_>) -> Duration {
    let timeline = Timeline::of(container, &PodSimulation::default(), Duration::ZERO);
    timeline.ready.map_or(Duration::ZERO, |(from, _)| from)
}

/// Returns the grace period that a probe sets for the container it kills.
pub(super) fn grace_period(container: &PodContainer<'_>, kind: Kind) -> Option<i64> {
    let probe = match kind {
        Kind::Startup => container.startup(),
        Kind::Liveness => container.liveness(),
        Kind::Readiness => None,
    };
    probe?.termination_grace_period_seconds
}

/// Returns the kubelet's message for a failed probe.
pub(super) fn failure(container: &PodContainer<'_>, kind: Kind, address: Option<&str>) -> String {
    let (name, probe) = match kind {
        Kind::Startup => ("Startup", container.startup()),
        Kind::Readiness => ("Readiness", container.readiness()),
        Kind::Liveness => ("Liveness", container.liveness()),
    };
    let output = match probe {
        Some(Probe { http_get: Some(_), .. }) => {
            "HTTP probe failed with statuscode: 503".to_owned()
        }
        Some(Probe { tcp_socket: Some(socket), .. }) => {
            let address = socket.host.as_deref().or(address).unwrap_or_default();
            let port = match &socket.port {
                IntOrString::Int(port) => port.to_string(),
                IntOrString::String(name) => name.clone(),
            };
            format!("dial tcp {address}:{port}: connect: connection refused")
        }
        Some(Probe { grpc: Some(_), .. }) => {
            "service unhealthy (responded with \"NOT_SERVING\")".to_owned()
        }
        _ => String::new(),
    };
    format!("{name} probe failed: {output}")
}

/// Returns when a probe that always succeeds reaches its success threshold.
fn passes(probe: &Probe) -> Duration {
    initial_delay(probe) + repeats(probe)
}

fn initial_delay(probe: &Probe) -> Duration {
    seconds(probe.initial_delay_seconds, 0)
}

fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10).max(Duration::from_secs(1))
}

/// Returns how long the probes take to reach the success threshold.
fn repeats(probe: &Probe) -> Duration {
    let times = u32::try_from(probe.success_threshold.unwrap_or(1)).unwrap_or(1);
    period(probe) * times.saturating_sub(1)
}

/// Returns the first attempt that is not before `time`; attempts start at `first`.
fn attempt(first: Duration, probe: &Probe, time: Duration) -> Duration {
    let Some(late) = time.checked_sub(first) else { return first };
    let times = late.as_nanos().div_ceil(period(probe).as_nanos());
    u32::try_from(times).map_or(time, |times| first + period(probe) * times)
}

fn seconds(number: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(number.map_or(default, |number| u64::try_from(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::super::pod_containers;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeline(probes: &Value, simulation: &str) -> Timeline {
        let mut container = probes.clone();
        container["name"] = json!("app");
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap();
        let container = pod_containers::of(&pod).next().unwrap();
        Timeline::of(&container, &simulation.parse().unwrap(), Duration::ZERO)
    }

    fn ready_from(probes: &Value) -> u64 {
        timeline(probes, "").ready.unwrap().0.as_secs()
    }

    #[test]
    fn a_container_is_ready_once_its_probes_have_passed() {
        assert_eq!(ready_from(&json!({})), 0);
        assert_eq!(ready_from(&json!({"readinessProbe": {"initialDelaySeconds": 5}})), 5);
        let both = |startup: i32, times: i32| {
            json!({
                "startupProbe": {"initialDelaySeconds": startup},
                "readinessProbe": {
                    "initialDelaySeconds": 5, "periodSeconds": 2, "successThreshold": times,
                },
            })
        };
        assert_eq!(ready_from(&both(3, 1)), 5);
        assert_eq!(ready_from(&both(9, 1)), 9);
        assert_eq!(ready_from(&both(9, 4)), 15);
    }

    #[test]
    fn a_startup_probe_that_fails_kills_at_its_threshold() {
        let probe = json!({"startupProbe": {
            "initialDelaySeconds": 4, "periodSeconds": 3, "failureThreshold": 2,
        }});
        let timeline = timeline(&probe, "fail-startup");
        assert!(!timeline.has_started(1000 * SECOND) && !timeline.is_ready(1000 * SECOND));
        assert_eq!(timeline.next(Duration::ZERO), Some(4 * SECOND));
        assert_eq!(timeline.failures(Some(Duration::ZERO), 3 * SECOND), []);
        assert_eq!(timeline.failures(Some(3 * SECOND), 4 * SECOND), [Kind::Startup]);
        assert_eq!(timeline.killed_by(6 * SECOND), None);
        assert_eq!(timeline.killed_by(7 * SECOND), Some(Kind::Startup));
        assert_eq!(timeline.next(7 * SECOND), None);
    }

    #[test]
    fn a_liveness_probe_fails_from_the_first_attempt_after_its_time() {
        let probe = json!({
            "startupProbe": {"initialDelaySeconds": 5},
            "livenessProbe": {"periodSeconds": 10, "failureThreshold": 3},
        });
        let timeline = timeline(&probe, "fail-liveness=6s");
        // It is sent after 5, 15, 25 … seconds.
        assert_eq!(timeline.killed_by(34 * SECOND), None);
        assert_eq!(timeline.killed_by(35 * SECOND), Some(Kind::Liveness));
        assert!(timeline.is_ready(30 * SECOND), "it has no readiness probe");
    }

    #[test]
    fn readiness_is_lost_at_the_failure_threshold() {
        let probe = json!({"readinessProbe": {"periodSeconds": 10, "failureThreshold": 2}});
        let timeline = timeline(&probe, "unready-after=1s");
        assert!(timeline.is_ready(19 * SECOND) && !timeline.is_ready(20 * SECOND));
        assert_eq!(timeline.failures(Some(9 * SECOND), 10 * SECOND), [Kind::Readiness]);
        assert_eq!(timeline.next(20 * SECOND), Some(30 * SECOND), "failures continue");
        let plain = self::timeline(&json!({}), "unready-after=1s");
        assert!(plain.is_ready(Duration::ZERO) && !plain.is_ready(SECOND));
    }

    #[test]
    fn the_largest_probe_settings_do_not_overflow() {
        let most = json!({
            "initialDelaySeconds": i32::MAX, "periodSeconds": i32::MAX,
            "failureThreshold": i32::MAX, "successThreshold": i32::MAX,
        });
        let probes = json!({"startupProbe": most, "readinessProbe": most, "livenessProbe": most});
        for simulation in ["", "never-ready,fail-liveness=2562047h", "fail-startup"] {
            timeline(&probes, simulation).next(Duration::ZERO);
        }
    }
}
