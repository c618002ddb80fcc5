//! Columns of Nodes, Namespaces, Events, ConfigMaps, Secrets and other core and cluster kinds.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::age::{seconds, since_seconds};
use super::text::{
    NONE, UNKNOWN, age, condition, count, filled_or, flag, int, join, list, name, quantity, str,
};
use super::{AGE, Column, NAME, Printer};

pub(super) const NAMESPACE: Printer = Printer {
    columns: &[NAME, Column::text("Status", "Phase of the namespace."), AGE],
    cells: |object, now| cells![name(object), str(&object["status"]["phase"]), age(object, now)],
};

pub(super) const NODE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Status", "Whether the node is ready and takes pods."),
        Column::text("Roles", "Roles of the node."),
        AGE,
        Column::text("Version", "Version of the kubelet."),
        Column::text("Internal-IP", "Address inside the cluster.").wide(),
        Column::text("External-IP", "Address outside the cluster.").wide(),
        Column::text("OS-Image", "Operating system.").wide(),
        Column::text("Kernel-Version", "Kernel and architecture.").wide(),
        Column::text("Container-Runtime", "Runtime and its version.").wide(),
    ],
    cells: |object, now| {
        let info = &object["status"]["nodeInfo"];
        let mut kernel = filled_or(&info["kernelVersion"], UNKNOWN).to_owned();
        let architecture = str(&info["architecture"]);
        if !architecture.is_empty() {
            kernel = format!("{kernel} ({architecture})");
        }
        cells![
            name(object),
            node_status(object),
            node_roles(&object["metadata"]["labels"]),
            age(object, now),
            str(&info["kubeletVersion"]),
            node_address(object, "InternalIP"),
            node_address(object, "ExternalIP"),
            filled_or(&info["osImage"], UNKNOWN),
            kernel,
            filled_or(&info["containerRuntimeVersion"], UNKNOWN),
        ]
    },
};

const EVENT_COLUMNS: &[Column] = &[
    Column::text("Last Seen", "Time since the event was last seen."),
    Column::text("Type", "Normal or Warning."),
    Column::text("Reason", "Why it happened, in one word."),
    Column::text("Object", "What it happened to."),
    Column::text("Subobject", "Which part of the object.").wide(),
    Column::text("Source", "Who reports it.").wide(),
    Column::text("Message", "What happened."),
    Column::text("First Seen", "Time since the event was first seen.").wide(),
    Column::text("Count", "How often it was seen.").wide(),
    Column::text("Name", "Name of the object.").identifying().wide(),
];

pub(super) const EVENT: Printer = Printer {
    columns: EVENT_COLUMNS,
    cells: |object, now| {
        let fields = EventFields {
            object: "involvedObject",
            message: "message",
            source: "source",
            first: "firstTimestamp",
            last: "lastTimestamp",
            count: "count",
            controller: "reportingComponent",
        };
        event(object, &fields, now)
    },
};

/// Events of `events.k8s.io` have the same columns and other field names.
pub(super) const EVENTS_EVENT: Printer = Printer {
    columns: EVENT_COLUMNS,
    cells: |object, now| {
        let fields = EventFields {
            object: "regarding",
            message: "note",
            source: "deprecatedSource",
            first: "deprecatedFirstTimestamp",
            last: "deprecatedLastTimestamp",
            count: "deprecatedCount",
            controller: "reportingController",
        };
        event(object, &fields, now)
    },
};

pub(super) const CONFIG_MAP: Printer = Printer {
    columns: &[NAME, Column::text("Data", "Number of entries."), AGE],
    cells: |object, now| {
        let entries = count(&object["data"]) + count(&object["binaryData"]);
        cells![name(object), entries, age(object, now)]
    },
};

pub(super) const SECRET: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Type", "What the secret is for."),
        Column::text("Data", "Number of entries."),
        AGE,
    ],
    cells: |object, now| {
        cells![name(object), str(&object["type"]), count(&object["data"]), age(object, now)]
    },
};

pub(super) const RESOURCE_QUOTA: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Request", "Used and allowed, without limits."),
        Column::text("Limit", "Used and allowed limits."),
        AGE,
    ],
    cells: |object, now| {
        let (requests, limits) = quota(&object["status"]);
        cells![name(object), requests, limits, age(object, now)]
    },
};

pub(super) const COMPONENT_STATUS: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Status", "Whether the component is healthy."),
        Column::text("Message", "What the component says."),
        Column::text("Error", "What is wrong with it."),
    ],
    cells: |object, _| match condition(&object["conditions"], "Healthy") {
        None => cells![name(object), "Unknown", "", ""],
        Some(health) => cells![
            name(object),
            if health["status"] == "True" { "Healthy" } else { "Unhealthy" },
            str(&health["message"]),
            str(&health["error"]),
        ],
    },
};

pub(super) const LEASE: Printer = Printer {
    columns: &[NAME, Column::text("Holder", "Who holds the lease."), AGE],
    cells: |object, now| {
        cells![name(object), str(&object["spec"]["holderIdentity"]), age(object, now)]
    },
};

pub(super) const LEASE_CANDIDATE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("LeaseName", "Lease the candidate stands for."),
        Column::text("BinaryVersion", "Version of the candidate."),
        Column::text("EmulationVersion", "Version the candidate behaves like."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            str(&spec["leaseName"]),
            str(&spec["binaryVersion"]),
            str(&spec["emulationVersion"]),
            age(object, now),
        ]
    },
};

pub(super) const API_SERVICE: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Service", "Service behind the group and version."),
        Column::text("Available", "Whether it answers, and if not, why."),
        AGE,
    ],
    cells: |object, now| {
        let service = match &object["spec"]["service"] {
            Value::Null => "Local".to_owned(),
            service => format!("{}/{}", str(&service["namespace"]), str(&service["name"])),
        };
        let available = match condition(&object["status"]["conditions"], "Available") {
            None => "Unknown".to_owned(),
            Some(condition) => match (str(&condition["status"]), str(&condition["reason"])) {
                (status @ "True", _) | (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
        };
        cells![name(object), service, available, age(object, now)]
    },
};

pub(super) const FLOW_SCHEMA: Printer = Printer {
    columns: &[
        NAME,
        Column::text("PriorityLevel", "Priority level of the requests."),
        Column::text("MatchingPrecedence", "Lower ones are tried first."),
        Column::text("DistinguisherMethod", "What makes a flow within the schema."),
        AGE,
        Column::text("MissingPL", "Whether the priority level does not exist."),
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let dangling = condition(&status["conditions"], "Dangling");
        let method = match &spec["distinguisherMethod"] {
            Value::Null => NONE,
            method => str(&method["type"]),
        };
        cells![
            name(object),
            str(&spec["priorityLevelConfiguration"]["name"]),
            int(&spec["matchingPrecedence"]),
            method,
            age(object, now),
            dangling.map_or("?", |condition| str(&condition["status"])),
        ]
    },
};

pub(super) const PRIORITY_LEVEL_CONFIGURATION: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Type", "Exempt or Limited."),
        Column::text("NominalConcurrencyShares", "Share of the server's concurrency."),
        Column::text("Queues", "Number of queues."),
        Column::text("HandSize", "Queues dealt to each flow."),
        Column::text("QueueLengthLimit", "Requests a queue holds."),
        AGE,
    ],
    cells: |object, now| {
        let limited = &object["spec"]["limited"];
        let queuing = &limited["limitResponse"]["queuing"];
        let number = |parent: &Value, field: &str| match parent {
            Value::Null => Value::from(NONE),
            parent => Value::from(int(&parent[field])),
        };
        cells![
            name(object),
            str(&object["spec"]["type"]),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            age(object, now),
        ]
    },
};

/// Orders FlowSchemas by matching precedence, then by name.
pub(super) fn by_matching_precedence(left: &Value, right: &Value) -> Ordering {
    let precedence = |schema: &Value| int(&schema["spec"]["matchingPrecedence"]);
    precedence(left).cmp(&precedence(right)).then_with(|| name(left).cmp(name(right)))
}

/// Field names of an Event in one of its two groups.
struct EventFields {
    object: &'static str,
    message: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    controller: &'static str,
}

fn event(event: &Value, fields: &EventFields, now: i64) -> Vec<Value> {
    let first = seconds(&event[fields.first]).or_else(|| seconds(&event["eventTime"]));
    let (last, count) = match (&event["series"], int(&event[fields.count])) {
        (Value::Null, count) => {
            // Events without a count happened once.
            let count = if count == 0 { 1 } else { count };
            (seconds(&event[fields.last]).or(first), count)
        }
        (series, _) => (seconds(&series["lastObservedTime"]), int(&series["count"])),
    };
    let object = &event[fields.object];
    let kind = str(&object["kind"]).to_lowercase();
    let target = match str(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = &event[fields.source];
    let component = filled_or(&source["component"], str(&event[fields.controller]));
    let source = match filled_or(&source["host"], str(&event["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    cells![
        since_seconds(last, now),
        str(&event["type"]),
        str(&event["reason"]),
        target,
        str(&object["fieldPath"]),
        source,
        str(&event[fields.message]).trim(),
        since_seconds(first, now),
        count,
        name(event),
    ]
}

fn node_status(node: &Value) -> String {
    let conditions = list(&node["status"]["conditions"]);
    let ready = conditions.iter().rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        None => "Unknown",
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if flag(&node["spec"]["unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => Some(str(value)),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { join(roles.into_iter(), ",") }
}

fn node_address<'a>(node: &'a Value, type_name: &str) -> &'a str {
    list(&node["status"]["addresses"])
        .iter()
        .find(|address| address["type"] == type_name)
        .map_or(NONE, |address| str(&address["address"]))
}

/// Prints `resource: used/hard` of all resources, limits separately.
fn quota(status: &Value) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let mut hard: Vec<_> = status["hard"].as_object().into_iter().flatten().collect();
    hard.sort_unstable_by_key(|&(resource, _)| resource);
    for (resource, hard) in hard {
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        let used = quantity(&status["used"][resource]);
        column.push(format!("{resource}: {used}/{}", quantity(hard)));
    }
    (requests.join(", "), limits.join(", "))
}
