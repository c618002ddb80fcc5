//! The simulated process of a container: when it exits by itself, and how it handles SIGTERM.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::command::{self, Outcome};
use super::pod_containers::{PodContainer, Role};
use super::probes;
use super::simulation::PodSimulation;
use crate::options::Delays;

/// The exit code after SIGTERM.
const TERMINATED: i32 = 143;

/// The exit code after SIGKILL.
pub(super) const KILLED: i32 = 137;

/// The behavior of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// When it exits by itself, and its exit code.
    pub(super) exit: Option<(Duration, i32)>,
    /// How long after SIGTERM it exits, and its exit code; `None` if it ignores SIGTERM.
    pub(super) term: Option<(Duration, i32)>,
}

impl Process {
    /// Returns the process of a container: that of its simulation, or else of its command, or else
    /// of its role.
    pub(super) fn of(
        container: &PodContainer<'_>,
        pod: &Pod,
        simulation: &PodSimulation,
        delays: &Delays,
    ) -> Self {
        let words = container.command_line();
        let outcome = command::outcome(&words);
        let exit = match (simulation.exit, outcome) {
            (Some(exit), _) => Some(exit),
            (None, Some(Outcome::Exits(time, code))) => Some((time, code)),
            (None, Some(Outcome::RunsForever)) => None,
            (None, None) => by_role(container, pod, !words.is_empty(), delays),
        };
        // The kernel does not deliver SIGTERM to PID 1 without a handler, which `sleep` and a
        // simple shell script are. In a shared process namespace they are not PID 1.
        let shared = pod.spec.as_ref().and_then(|spec| spec.share_process_namespace) == Some(true);
        let ignores_term = outcome.is_some() && !shared;
        // A server shuts down gracefully; an interrupted task has not succeeded.
        let code = if exit.is_some() || outcome.is_some() { TERMINATED } else { 0 };
        let term = match simulation.stop_after {
            _ if simulation.ignore_term => None,
            Some(time) => Some((time, code)),
            None if ignores_term => None,
            None => Some((delays.stop, code)),
        };
        Self { exit, term }
    }
}

/// Returns when a process exits whose command is not recognized.
fn by_role(
    container: &PodContainer<'_>,
    pod: &Pod,
    has_command: bool,
    delays: &Delays,
) -> Option<(Duration, i32)> {
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let probed = container.startup().is_some()
        || container.readiness().is_some()
        || container.liveness().is_some();
    match container.role {
        Role::Init => Some((Duration::ZERO, 0)),
        Role::Sidecar | Role::Ephemeral => None,
        Role::App if restarts.unwrap_or("Always") == "Always" => None,
        // A Job runs to completion, however long its probes take.
        Role::App if is_of_job(pod) => Some((delays.run.max(probes::passed(container)), 0)),
        // A container without a command, or with probes, is a server.
        Role::App => (has_command && !probed).then_some((delays.run, 0)),
    }
}

fn is_of_job(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch/"))
}

/// Returns how long the preStop hook of a container takes.
pub(super) fn pre_stop(container: &PodContainer<'_>) -> Duration {
    let hook = container.lifecycle().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let Some(hook) = hook else { return Duration::ZERO };
    if let Some(sleep) = &hook.sleep {
        return Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0));
    }
    let command = hook.exec.as_ref().and_then(|exec| exec.command.as_ref());
    let words: Vec<&str> = command.into_iter().flatten().map(String::as_str).collect();
    match command::outcome(&words) {
        Some(Outcome::Exits(time, _)) => time,
        Some(Outcome::RunsForever) => Duration::MAX,
        None => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::pod_containers;
    use super::*;

    fn process(pod: &Value, simulation: &str) -> Process {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let delays = Delays {
            run: Duration::from_secs(3),
            stop: Duration::from_secs(1),
            ..Delays::default()
        };
        let container = pod_containers::of(&pod).next().unwrap();
        Process::of(&container, &pod, &simulation.parse().unwrap(), &delays)
    }

    fn pod(policy: &str, container: &Value) -> Value {
        let mut container = container.clone();
        container["name"] = json!("app");
        json!({"spec": {"restartPolicy": policy, "containers": [container]}})
    }

    fn seconds(time: u64, code: i32) -> Option<(Duration, i32)> {
        Some((Duration::from_secs(time), code))
    }

    #[test]
    fn a_process_follows_its_command_and_role() {
        let server = Process { exit: None, term: seconds(1, 0) };
        let task = Process { exit: seconds(3, 0), term: seconds(1, 143) };
        let probe = json!({"startupProbe": {"initialDelaySeconds": 9}});
        let mut probed_command = probe.clone();
        probed_command["command"] = json!(["serve"]);
        for (policy, container, wanted) in [
            ("Always", json!({}), server),
            ("Always", json!({"command": ["serve"]}), server),
            ("Never", json!({}), server),
            ("OnFailure", json!({"image": "registry.k8s.io/pause:3.10"}), server),
            ("Never", json!({"command": ["migrate"]}), task),
            ("OnFailure", json!({"args": ["--once"]}), task),
            ("Never", probed_command, server),
            (
                "Never",
                json!({"command": ["sleep", "30"]}),
                Process { exit: seconds(30, 0), term: None },
            ),
            (
                "Always",
                json!({"command": ["sleep", "infinity"]}),
                Process { exit: None, term: None },
            ),
        ] {
            assert_eq!(process(&pod(policy, &container), ""), wanted, "{policy} {container}");
        }
        let mut job = pod("Never", &json!({}));
        job["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "1", "controller": true},
        ]);
        assert_eq!(process(&job, ""), task);
        job["spec"]["containers"] = json!([probe]);
        job["spec"]["containers"][0]["name"] = json!("app");
        assert_eq!(process(&job, "").exit, seconds(9, 0), "not before it has started");
    }

    #[test]
    fn a_simulation_and_a_shared_process_namespace_override_the_command() {
        let mut sleeps = pod("Always", &json!({"command": ["sleep", "30"]}));
        assert_eq!(process(&sleeps, "stop-after=2s").term, seconds(2, 143));
        assert_eq!(process(&sleeps, "complete-after=5s").exit, seconds(5, 0));
        sleeps["spec"]["shareProcessNamespace"] = json!(true);
        assert_eq!(process(&sleeps, "").term, seconds(1, 143));
        assert_eq!(process(&pod("Always", &json!({})), "ignore-term").term, None);
    }

    #[test]
    fn the_duration_of_a_pre_stop_hook_is_predicted() {
        for (hook, time) in [
            (json!({"sleep": {"seconds": 5}}), 5),
            (json!({"exec": {"command": ["sh", "-c", "sleep 3"]}}), 3),
            (json!({"exec": {"command": ["nginx", "-s", "quit"]}}), 0),
            (json!({"httpGet": {"port": 80}}), 0),
        ] {
            let pod = pod("Always", &json!({"lifecycle": {"preStop": hook}}));
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let container = pod_containers::of(&pod).next().unwrap();
            assert_eq!(pre_stop(&container).as_secs(), time, "{hook}");
        }
    }
}
