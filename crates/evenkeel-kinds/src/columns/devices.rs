//! Columns of the `resource.k8s.io` kinds (dynamic resource allocation).

use serde_json::Value;

use super::age::since;
use super::text::{NONE, age, count, deleted, int, list, name, str};
use super::{AGE, Column, NAME, Printer};

pub(super) const RESOURCE_CLAIM: Printer = Printer {
    columns: &[NAME, Column::text("State", "Whether the claim is allocated and reserved."), AGE],
    cells: |object, now| cells![name(object), claim_state(object), age(object, now)],
};

pub(super) const RESOURCE_SLICE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Node", "Node the devices are on."),
        Column::text("Driver", "Driver that offers the devices."),
        Column::text("Pool", "Pool the slice is a part of."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            str(&spec["nodeName"]),
            str(&spec["driver"]),
            str(&spec["pool"]["name"]),
            age(object, now),
        ]
    },
};

pub(super) const DEVICE_TAINT_RULE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Key", "Key of the taint."),
        Column::text("Value", "Value of the taint."),
        Column::text("Effect", "What the taint does to claims."),
        Column::text("TimeAdded", "Time since the taint was added."),
        AGE,
    ],
    cells: |object, now| {
        let taint = &object["spec"]["taint"];
        let added = match &taint["timeAdded"] {
            Value::Null => String::new(),
            added => since(added, now),
        };
        cells![
            name(object),
            str(&taint["key"]),
            str(&taint["value"]),
            str(&taint["effect"]),
            added,
            age(object, now),
        ]
    },
};

pub(super) const RESOURCE_POOL_STATUS_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Driver", "Driver whose pools are counted."),
        Column::text("Total", "Devices in all pools."),
        Column::text("Available", "Devices that are free."),
        Column::text("Allocated", "Devices that are in use."),
        Column::text("Unavailable", "Devices that cannot be used."),
        Column::text("Errors", "Pools that are invalid."),
        Column::integer("Pools", "Pools that match."),
        Column::text("Status", "How far the request has come."),
        Column::text("Completed", "Time since the count."),
    ],
    cells: pool_status,
};

fn claim_state(claim: &Value) -> String {
    let status = &claim["status"];
    let mut states = Vec::new();
    if deleted(claim) {
        states.push("deleted");
    }
    if !status["allocation"].is_null() {
        states.push("allocated");
        if count(&status["reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleted(claim) {
        states.push("pending");
    }
    states.join(",")
}

fn pool_status(request: &Value, now: i64) -> Vec<Value> {
    let status = &request["status"];
    let pools = list(&status["pools"]);
    let outcome = list(&status["conditions"]).iter().find(|condition| {
        condition["status"] == "True"
            && (condition["type"] == "Complete" || condition["type"] == "Failed")
    });
    let outcome_type = outcome.map_or("Pending", |outcome| str(&outcome["type"]));
    let pool_count = int(&status["poolCount"]);
    let state = match outcome_type {
        "Complete" if pool_count > pools.len() as i64 => {
            format!("Complete ({}/{pool_count} pools)", pools.len())
        }
        state => state.to_owned(),
    };
    let known = !status.is_null() && outcome_type != "Failed";
    let number = |value: i64| if known { value.to_string() } else { "-".to_owned() };
    let total = |field: &str| {
        number(pools.iter().fold(0, |sum: i64, pool| sum.saturating_add(int(&pool[field]))))
    };
    let errors = pools.iter().filter(|pool| !pool["validationError"].is_null()).count();
    let completed = match outcome {
        Some(outcome) if outcome_type == "Complete" => since(&outcome["lastTransitionTime"], now),
        _ => NONE.to_owned(),
    };
    cells![
        name(request),
        str(&request["spec"]["driver"]),
        total("totalDevices"),
        total("availableDevices"),
        total("allocatedDevices"),
        total("unavailableDevices"),
        number(errors as i64),
        pool_count,
        state,
        completed,
    ]
}
