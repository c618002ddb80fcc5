//! The conditions of a pod, from the statuses of its containers.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::pod_containers::{self, Role};

/// Status, reason and message of a condition.
type Value = (bool, Option<&'static str>, Option<String>);

/// What the conditions are computed from.
pub(super) struct ConditionInputs<'a> {
    pub(super) pod: &'a Pod,
    pub(super) statuses: &'a [&'a ContainerStatus],
    pub(super) phase: &'a str,
    pub(super) sandbox: bool,
    pub(super) wall: &'a Time,
}

impl ConditionInputs<'_> {
    /// Returns the conditions; those of other components are kept.
    pub(super) fn conditions(&self, old: &PodStatus) -> Vec<PodCondition> {
        let containers = self.containers_ready();
        let ready = match self.unsatisfied_gates(old) {
            gates if containers.0 && !gates.is_empty() => {
                (false, Some("ReadinessGatesNotReady"), Some(gates.join(", ")))
            }
            _ => containers.clone(),
        };
        let mut conditions = old.conditions.clone().unwrap_or_default();
        for (name, value) in [
            ("PodReadyToStartContainers", (self.sandbox, None, None)),
            ("Initialized", self.initialized()),
            ("Ready", ready),
            ("ContainersReady", containers),
            ("PodScheduled", (true, None, None)),
        ] {
            self.set_condition(&mut conditions, name, value);
        }
        conditions
    }

    fn status(&self, name: &str) -> Option<&ContainerStatus> {
        self.statuses.iter().find(|status| status.name == name).copied()
    }

    fn containers_ready(&self) -> Value {
        match self.phase {
            "Succeeded" => return (false, Some("PodCompleted"), None),
            "Failed" => return (false, Some("PodFailed"), None),
            _ => {}
        }
        let counts = |role: Role| matches!(role, Role::Sidecar | Role::App);
        let unready: Vec<&str> = pod_containers::of(self.pod)
            .filter(|container| counts(container.role))
            .map(|container| container.name)
            .filter(|name| self.status(name).is_none_or(|status| !status.ready))
            .collect();
        if unready.is_empty() {
            return (true, None, None);
        }
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        (false, Some("ContainersNotReady"), Some(message))
    }

    fn initialized(&self) -> Value {
        if self.phase == "Succeeded" {
            return (true, Some("PodCompleted"), None);
        }
        let has_run = |name: &str| {
            let state = self.status(name).and_then(|status| status.state.as_ref());
            state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        let mut apps = pod_containers::of(self.pod).filter(|container| container.role == Role::App);
        if apps.any(|app| has_run(app.name)) {
            return (true, None, None);
        }
        let is_complete = |role: Role, name: &str| {
            self.status(name).is_some_and(|status| match role {
                Role::Sidecar => status.started == Some(true),
                _ => status.ready,
            })
        };
        let incomplete: Vec<&str> = pod_containers::of(self.pod)
            .filter(|container| {
                container.role.is_init() && !is_complete(container.role, container.name)
            })
            .map(|container| container.name)
            .collect();
        if incomplete.is_empty() {
            return (true, None, None);
        }
        // A pod stays initialized.
        let before = crate::pods::condition(self.pod, "Initialized");
        if before.is_some_and(|before| before.status == "True") {
            return (true, None, None);
        }
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        (false, Some("ContainersNotInitialized"), Some(message))
    }

    /// Returns a message for each readiness gate that is not satisfied.
    fn unsatisfied_gates(&self, old: &PodStatus) -> Vec<String> {
        let gates = self.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
        let conditions = old.conditions.as_deref().unwrap_or_default();
        let closed = gates.into_iter().flatten().filter_map(|gate| {
            let name = &gate.condition_type;
            match conditions.iter().find(|condition| condition.type_ == *name) {
                Some(condition) if condition.status == "True" => None,
                Some(condition) => Some(format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                    condition.status
                )),
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{name}\" does not exist."
                )),
            }
        });
        closed.collect()
    }

    fn set_condition(&self, conditions: &mut Vec<PodCondition>, name: &str, value: Value) {
        let (holds, reason, message) = value;
        let status = if holds { "True" } else { "False" };
        let mut condition = PodCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message,
            last_transition_time: Some(self.wall.clone()),
            observed_generation: self.pod.metadata.generation,
            ..PodCondition::default()
        };
        match conditions.iter_mut().find(|present| present.type_ == name) {
            Some(present) => {
                if present.status == condition.status {
                    condition.last_transition_time = present.last_transition_time.clone();
                }
                condition.last_probe_time = present.last_probe_time.clone();
                *present = condition;
            }
            None => conditions.push(condition),
        }
    }
}
