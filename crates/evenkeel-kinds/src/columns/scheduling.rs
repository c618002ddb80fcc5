//! Columns of PriorityClasses, RuntimeClasses, PodDisruptionBudgets and PodGroups.

use serde_json::Value;

use super::text::{NONE, age, flag, int, int_or_string, list, name, str};
use super::{AGE, Column, NAME, Printer};

pub(super) const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Column::integer("Value", "Priority of the pods."),
        Column::boolean("Global-Default", "Whether it is the class of pods without one."),
        AGE,
        Column::text("PreemptionPolicy", "Whether the pods may drive out others."),
    ],
    cells: |object, now| {
        cells![
            name(object),
            int(&object["value"]),
            flag(&object["globalDefault"]),
            age(object, now),
            str(&object["preemptionPolicy"]),
        ]
    },
};

pub(super) const RUNTIME_CLASS: Printer = Printer {
    columns: &[NAME, Column::text("Handler", "Runtime configuration on the node."), AGE],
    cells: |object, now| cells![name(object), str(&object["handler"]), age(object, now)],
};

pub(super) const POD_DISRUPTION_BUDGET: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Min Available", "Pods that have to stay available."),
        Column::text("Max Unavailable", "Pods that may be unavailable."),
        Column::integer("Allowed Disruptions", "Pods that may be evicted now."),
        AGE,
    ],
    cells: |object, now| {
        let bound = |field: &Value| match field {
            Value::Null => "N/A".to_owned(),
            bound => int_or_string(bound),
        };
        let spec = &object["spec"];
        cells![
            name(object),
            bound(&spec["minAvailable"]),
            bound(&spec["maxUnavailable"]),
            int(&object["status"]["disruptionsAllowed"]),
            age(object, now),
        ]
    },
};

pub(super) const POD_GROUP: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Policy", "Whether the pods are scheduled together."),
        Column::text("Workload", "Workload the group was made from."),
        Column::text("Status", "Whether the group is scheduled."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let gang = !spec["schedulingPolicy"]["gang"].is_null();
        let workload = match &spec["podGroupTemplateRef"] {
            Value::Null => NONE,
            template => str(&template["workload"]["workloadName"]),
        };
        cells![
            name(object),
            if gang { "Gang" } else { "Basic" },
            workload,
            group_status(&object["status"]["conditions"]),
            age(object, now),
        ]
    },
};

fn group_status(conditions: &Value) -> &str {
    let last =
        |type_name: &str| list(conditions).iter().rfind(|condition| condition["type"] == type_name);
    match (last("DisruptionTarget"), last("PodGroupScheduled")) {
        (Some(disruption), _) => str(&disruption["reason"]),
        (None, Some(scheduled)) if scheduled["status"] == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}
