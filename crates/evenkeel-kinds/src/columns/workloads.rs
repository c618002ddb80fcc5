//! Columns of workload controllers, Jobs, PodTemplates and ControllerRevisions.

use serde_json::Value;

use super::age::{human_duration, seconds, since};
use super::text::{
    NONE, UNSET, age, condition_true, containers, count, deleted, flag, int, labels, list, name,
    selector, selector_cell, set_or, str,
};
use super::{AGE, CONTAINERS, Column, IMAGES, NAME, Printer, SELECTOR};

const DESIRED: Column = Column::integer("Desired", "Pods asked for.");
const CURRENT: Column = Column::integer("Current", "Pods that exist.");
const READY: Column = Column::integer("Ready", "Pods that are ready.");

pub(super) const DEPLOYMENT: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Ready", "Ready pods, of those asked for."),
        Column::text("Up-to-date", "Pods of the current template."),
        Column::text("Available", "Pods ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let (names, images) = containers(&spec["template"]);
        cells![
            name(object),
            format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"])),
            int(&status["updatedReplicas"]),
            int(&status["availableReplicas"]),
            age(object, now),
            names,
            images,
            selector(&spec["selector"]).unwrap_or_else(|_| "<invalid>".to_owned()),
        ]
    },
};

pub(super) const REPLICA_SET: Printer = Printer {
    columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |object, now| replicas(object, selector_cell(&object["spec"]["selector"]), now),
};

pub(super) const REPLICATION_CONTROLLER: Printer = Printer {
    columns: &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR],
    cells: |object, now| replicas(object, labels(&object["spec"]["selector"]), now),
};

pub(super) const STATEFUL_SET: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Ready", "Ready pods, of those asked for."),
        AGE,
        CONTAINERS,
        IMAGES,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let (names, images) = containers(&spec["template"]);
        let ready = format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"]));
        cells![name(object), ready, age(object, now), names, images]
    },
};

pub(super) const DAEMON_SET: Printer = Printer {
    columns: &[
        NAME,
        Column::integer("Desired", "Nodes that should run the pod."),
        Column::integer("Current", "Nodes that run the pod and should."),
        Column::integer("Ready", "Nodes on which the pod is ready."),
        Column::integer("Up-to-date", "Nodes that run the pod of the current template."),
        Column::integer("Available", "Nodes on which the pod has been ready for long enough."),
        Column::text("Node Selector", "Labels of the nodes that should run the pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let (names, images) = containers(&spec["template"]);
        cells![
            name(object),
            int(&status["desiredNumberScheduled"]),
            int(&status["currentNumberScheduled"]),
            int(&status["numberReady"]),
            int(&status["updatedNumberScheduled"]),
            int(&status["numberAvailable"]),
            labels(&spec["template"]["spec"]["nodeSelector"]),
            age(object, now),
            names,
            images,
            selector_cell(&spec["selector"]),
        ]
    },
};

pub(super) const JOB: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Status", "How far the job has come."),
        Column::text("Completions", "Pods that succeeded, of those that have to."),
        Column::text("Duration", "How long the job took, or has been running."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (names, images) = containers(&object["spec"]["template"]);
        cells![
            name(object),
            job_status(object),
            completions(object),
            job_duration(&object["status"], now),
            age(object, now),
            names,
            images,
            selector_cell(&object["spec"]["selector"]),
        ]
    },
};

pub(super) const CRON_JOB: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Schedule", "When jobs start, in cron notation."),
        Column::text("Timezone", "Time zone of the schedule."),
        Column::boolean("Suspend", "Whether the schedule is paused."),
        Column::integer("Active", "Jobs that are running."),
        Column::text("Last Schedule", "Time since a job was last started."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let job = &spec["jobTemplate"]["spec"];
        let (names, images) = containers(&job["template"]);
        // The column is boolean but the cells are strings, as in upstream.
        let suspend = match spec["suspend"].as_bool() {
            None => UNSET,
            Some(true) => "True",
            Some(false) => "False",
        };
        let last_schedule = match &status["lastScheduleTime"] {
            Value::Null => NONE.to_owned(),
            time => since(time, now),
        };
        cells![
            name(object),
            str(&spec["schedule"]),
            set_or(&spec["timeZone"], NONE),
            suspend,
            count(&status["active"]),
            last_schedule,
            age(object, now),
            names,
            images,
            selector_cell(&job["selector"]),
        ]
    },
};

pub(super) const POD_TEMPLATE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Containers", "Container names of the pod template."),
        Column::text("Images", "Container images of the pod template."),
        Column::text("Pod Labels", "Labels of the pod template."),
    ],
    cells: |object, _| {
        let (names, images) = containers(&object["template"]);
        cells![name(object), names, images, labels(&object["template"]["metadata"]["labels"])]
    },
};

pub(super) const CONTROLLER_REVISION: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Controller", "Kind and name of the controller."),
        Column::text("Revision", "Number of the revision."),
        AGE,
    ],
    cells: |object, now| {
        cells![name(object), controller(object), int(&object["revision"]), age(object, now)]
    },
};

fn replicas(object: &Value, selector: String, now: i64) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = containers(&spec["template"]);
    cells![
        name(object),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has = |condition| condition_true(&job["status"]["conditions"], condition);
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if deleted(job) {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let spec = &job["spec"];
    let succeeded = int(&job["status"]["succeeded"]);
    match (spec["completions"].as_i64(), int(&spec["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(status: &Value, now: i64) -> String {
    match (seconds(&status["startTime"]), seconds(&status["completionTime"])) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).saturating_sub(start)),
    }
}

fn controller(object: &Value) -> String {
    let owners = list(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| flag(&owner["controller"])) else {
        return NONE.to_owned();
    };
    let group = str(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let (kind, name) = (str(&owner["kind"]).to_lowercase(), str(&owner["name"]));
    match (kind.as_str(), group) {
        ("", "") => name.to_owned(),
        (_, "") => format!("{kind}/{name}"),
        _ => format!("{kind}.{}/{name}", group.to_lowercase()),
    }
}
