//! The phase of a pod, from the statuses of its containers.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use super::pod_containers::{self, Role};
use super::restart;

/// The state of a container, as far as it affects the phase.
enum RunState {
    Unknown,
    /// Not started yet.
    Waiting,
    Running,
    /// Exited with this code; it may be restarted.
    Stopped(i32),
}

/// Returns the phase. `over` is whether no container will be started again. Mirrors `getPhase`.
pub(super) fn of(
    pod: &Pod,
    statuses: &[&ContainerStatus],
    over: bool,
    initialized: bool,
) -> &'static str {
    let (mut pending, mut failed) = (false, false);
    let (mut unknown, mut waiting, mut running) = (0, 0, 0);
    let (mut stopped, mut succeeded, mut stays) = (0, 0, 0);
    for container in pod_containers::of(pod) {
        let status = statuses.iter().find(|status| status.name == container.name);
        let run_state = status.map_or(RunState::Unknown, |status| run_state(status));
        match (container.role, run_state) {
            (Role::Ephemeral, _) => {}
            (Role::Init, RunState::Stopped(code)) => {
                failed |= code != 0 && !restart::should_restart(pod, container.spec, code);
                // It is retried until it exits with code 0.
            }
            (Role::Init, _) => pending = true,
            (Role::Sidecar, RunState::Running) => {
                let started = status.is_some_and(|status| status.started == Some(true));
                pending |= !started && !initialized;
                running += 1;
            }
            (Role::Sidecar, RunState::Stopped(_)) => {}
            (Role::Sidecar, run_state) => {
                pending |= !initialized;
                match run_state {
                    RunState::Waiting => waiting += 1,
                    _ => unknown += 1,
                }
            }
            (Role::App, RunState::Running) => running += 1,
            (Role::App, RunState::Waiting) => waiting += 1,
            (Role::App, RunState::Unknown) => unknown += 1,
            (Role::App, RunState::Stopped(code)) => {
                stopped += 1;
                succeeded += i32::from(code == 0);
                stays += i32::from(!restart::should_restart(pod, container.spec, code));
            }
        }
    }
    if failed {
        "Failed"
    } else if pending || waiting > 0 {
        "Pending"
    } else if running > 0 && unknown == 0 {
        "Running"
    } else if stopped == 0 || unknown > 0 {
        "Pending"
    } else if !over && stopped != stays {
        "Running"
    } else if stopped == succeeded {
        "Succeeded"
    } else {
        "Failed"
    }
}

fn run_state(status: &ContainerStatus) -> RunState {
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    match &status.state {
        Some(ContainerState { running: Some(_), .. }) => RunState::Running,
        Some(ContainerState { terminated: Some(ended), .. }) => RunState::Stopped(ended.exit_code),
        Some(ContainerState { waiting: Some(_), .. }) => {
            last.map_or(RunState::Waiting, |last| RunState::Stopped(last.exit_code))
        }
        _ => RunState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn state(text: &str) -> Value {
        match text {
            "waits" => json!({"state": {"waiting": {}}}),
            "runs" => json!({"state": {"running": {}}, "started": true}),
            "starts" => json!({"state": {"running": {}}, "started": false}),
            "loops" => {
                json!({"state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}})
            }
            code => {
                let code: i32 = code.parse().unwrap();
                json!({"state": {"terminated": {"exitCode": code}}})
            }
        }
    }

    /// Containers are `name=state`; the name is the role: `init`, `side`, `app`.
    fn phase(policy: &str, containers: &str, over: bool) -> &'static str {
        let (mut inits, mut apps, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
        for (at, container) in containers.split_whitespace().enumerate() {
            let (role, shown) = container.split_once('=').unwrap();
            let name = format!("{role}-{at}");
            let mut status = state(shown);
            status["name"] = json!(name);
            statuses.push(serde_json::from_value::<ContainerStatus>(status).unwrap());
            match role {
                "init" => inits.push(json!({"name": name})),
                "side" => inits.push(json!({"name": name, "restartPolicy": "Always"})),
                _ => apps.push(json!({"name": name})),
            }
        }
        let spec = json!({"restartPolicy": policy, "initContainers": inits, "containers": apps});
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let statuses: Vec<&ContainerStatus> = statuses.iter().collect();
        of(&pod, &statuses, over, false)
    }

    #[test]
    fn the_phase_is_computed_from_all_containers() {
        for (policy, containers, over, wanted) in [
            ("Always", "app=waits", false, "Pending"),
            ("Always", "app=runs", false, "Running"),
            ("Always", "app=runs app=waits", false, "Pending"),
            ("Always", "app=runs app=loops", false, "Running"),
            ("Always", "app=loops", false, "Running"),
            ("Always", "app=0", false, "Running"),
            ("Always", "app=0", true, "Succeeded"),
            ("Always", "app=0 app=143", true, "Failed"),
            ("OnFailure", "app=0", false, "Succeeded"),
            ("OnFailure", "app=1", false, "Running"),
            ("Never", "app=1", false, "Failed"),
            ("Never", "app=0 app=runs", false, "Running"),
            ("Always", "init=runs app=waits", false, "Pending"),
            ("Always", "init=loops app=waits", false, "Pending"),
            ("Always", "init=1 app=waits", false, "Pending"),
            ("Never", "init=1 app=waits", false, "Failed"),
            ("Always", "init=0 app=runs", false, "Running"),
            ("Always", "init=0 side=starts app=waits", false, "Pending"),
            ("Always", "side=runs app=runs", false, "Running"),
            ("Never", "side=runs app=0", false, "Running"),
            ("Never", "side=143 app=0", true, "Succeeded"),
        ] {
            assert_eq!(phase(policy, containers, over), wanted, "{policy} {containers} {over}");
        }
    }
}
