//! Columns of Pods.
//!
//! The status starts as the phase and is overridden, in this order, by the scheduling gate, the
//! first init container that has not finished, the containers, and a pending deletion.

use serde_json::Value;

use super::age::{human_duration, seconds};
use super::text::{NONE, age, condition_true, deleted, filled_or, flag, int, list, name, str};
use super::{AGE, Column, NAME, Printer, RowCondition};

pub(super) const POD: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Ready", "How many of the containers are ready."),
        Column::text("Status", "Phase of the pod, or what keeps its containers from running."),
        Column::text("Restarts", "How often containers were restarted, and when last."),
        AGE,
        Column::text("IP", "Address of the pod.").wide(),
        Column::text("Node", "Node the pod is bound to.").wide(),
        Column::text("Nominated Node", "Node that is being cleared for the pod.").wide(),
        Column::text("Readiness Gates", "How many of the readiness gates are open.").wide(),
    ],
    cells,
};

const SUCCEEDED: RowCondition = RowCondition {
    type_name: "Completed",
    status: "True",
    reason: "Succeeded",
    message: "The pod has completed successfully.",
};

const FAILED: RowCondition = RowCondition {
    type_name: "Completed",
    status: "True",
    reason: "Failed",
    message: "The pod failed.",
};

/// Number of restarts of a set of containers, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

/// Aggregated state of the containers.
struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

/// Aggregated state of the init containers.
struct Init {
    sidecar_restarts: Restarts,
    unfinished: bool,
}

pub(super) fn completion(pod: &Value) -> Option<&'static RowCondition> {
    match str(&pod["status"]["phase"]) {
        "Succeeded" => Some(&SUCCEEDED),
        "Failed" => Some(&FAILED),
        _ => None,
    }
}

fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = list(&spec["initContainers"]).iter().filter(|init| is_sidecar(init)).count();
    let containers = list(&spec["containers"]).len() + sidecars;
    let summary = summarize(pod);
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => {
            format!("{count} ({} ago)", human_duration(now.saturating_sub(last)))
        }
        Restarts { count, .. } => count.to_string(),
    };
    cells![
        name(pod),
        format!("{}/{containers}", summary.ready),
        summary.reason,
        restarts,
        age(pod, now),
        filled_or(&status["podIP"], filled_or(&status["podIPs"][0]["ip"], NONE)),
        filled_or(&spec["nodeName"], NONE),
        filled_or(&status["nominatedNodeName"], NONE),
        readiness_gates(pod),
    ]
}

fn summarize(pod: &Value) -> Summary {
    let status = &pod["status"];
    let gated = list(&status["conditions"]).iter().any(|condition| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    });
    let reason = match gated {
        true => "SchedulingGated",
        false => filled_or(&status["reason"], str(&status["phase"])),
    };
    let mut summary =
        Summary { reason: reason.to_owned(), ready: 0, restarts: Restarts::default() };

    let init = summary.add_init_containers(pod);
    if !init.unfinished || condition_true(&status["conditions"], "Initialized") {
        // Once all init containers have run, only restarts of sidecars are counted.
        summary.restarts = init.sidecar_restarts;
        summary.add_containers(status);
    }

    if deleted(pod) && status["reason"] == "NodeLost" {
        summary.reason = "Unknown".to_owned();
    } else if deleted(pod) && completion(pod).is_none() {
        summary.reason = "Terminating".to_owned();
    }
    summary
}

impl Summary {
    /// Aggregates init containers up to the first unfinished one, which becomes the reason.
    fn add_init_containers(&mut self, pod: &Value) -> Init {
        let init_containers = list(&pod["spec"]["initContainers"]);
        let mut init = Init { sidecar_restarts: Restarts::default(), unfinished: false };
        for (index, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            let sidecar = sidecar_named(init_containers, &status["name"]);
            self.restarts.add(status);
            if sidecar {
                init.sidecar_restarts.add(status);
            }
            let (terminated, waiting) =
                (&status["state"]["terminated"], &status["state"]["waiting"]);
            if !terminated.is_null() && int(&terminated["exitCode"]) == 0 {
                continue;
            }
            if sidecar && flag(&status["started"]) {
                self.ready += usize::from(flag(&status["ready"]));
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", termination(terminated))
            } else {
                match str(&waiting["reason"]) {
                    "" | "PodInitializing" => format!("Init:{index}/{}", init_containers.len()),
                    reason => format!("Init:{reason}"),
                }
            };
            init.unfinished = true;
            break;
        }
        init
    }

    fn add_containers(&mut self, status: &Value) {
        let mut running = false;
        let mut error = None;
        for container in list(&status["containerStatuses"]).iter().rev() {
            self.restarts.add(container);
            let state = &container["state"];
            let (terminated, waiting) = (&state["terminated"], str(&state["waiting"]["reason"]));
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !terminated.is_null() {
                self.reason = termination(terminated);
                if int(&terminated["exitCode"]) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if flag(&container["ready"]) && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        // A completed container does not set the status while others run or have failed.
        if self.reason == "Completed" {
            let ready = list(&status["conditions"])
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            match error {
                _ if running && ready => self.reason = "Running".to_owned(),
                Some(error) => self.reason = error,
                None if running => self.reason = "NotReady".to_owned(),
                None => {}
            }
        }
    }
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(int(&container["restartCount"]));
        self.last = self.last.max(seconds(&container["lastState"]["terminated"]["finishedAt"]));
    }
}

fn termination(terminated: &Value) -> String {
    match (str(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Returns whether an init container keeps running beside the regular containers.
fn is_sidecar(init_container: &Value) -> bool {
    init_container["restartPolicy"] == "Always"
}

fn sidecar_named(init_containers: &[Value], name: &Value) -> bool {
    init_containers.iter().any(|container| container["name"] == *name && is_sidecar(container))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let conditions = &pod["status"]["conditions"];
    let open = gates.iter().filter(|gate| condition_true(conditions, str(&gate["conditionType"])));
    format!("{}/{}", open.count(), gates.len())
}
