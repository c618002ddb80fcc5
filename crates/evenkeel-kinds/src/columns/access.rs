//! Columns of RoleBindings, CertificateSigningRequests and related kinds.

use serde_json::Value;

use super::age::human_duration;
use super::text::{NONE, age, filled_or, join, labels, list, name, str};
use super::{AGE, Column, NAME, Printer};

pub(super) const ROLE_BINDING: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Role", "Role that is granted."),
        AGE,
        Column::text("Users", "Users it is granted to.").wide(),
        Column::text("Groups", "Groups it is granted to.").wide(),
        Column::text("ServiceAccounts", "Service accounts it is granted to.").wide(),
    ],
    cells: |object, now| {
        let role = &object["roleRef"];
        let accounts: Vec<_> = subjects(object, "ServiceAccount")
            .map(|account| format!("{}/{}", str(&account["namespace"]), str(&account["name"])))
            .collect();
        cells![
            name(object),
            format!("{}/{}", str(&role["kind"]), str(&role["name"])),
            age(object, now),
            join(subjects(object, "User").map(|user| str(&user["name"])), ", "),
            join(subjects(object, "Group").map(|group| str(&group["name"])), ", "),
            accounts.join(", "),
        ]
    },
};

pub(super) const CERTIFICATE_SIGNING_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        AGE,
        Column::text("SignerName", "Signer that is asked."),
        Column::text("Requestor", "User that asks."),
        Column::text("RequestedDuration", "How long the certificate should be valid."),
        Column::text("Condition", "How far the request has come."),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let duration = match spec["expirationSeconds"].as_i64() {
            None => NONE.to_owned(),
            Some(seconds) => human_duration(seconds),
        };
        cells![
            name(object),
            age(object, now),
            filled_or(&spec["signerName"], NONE),
            str(&spec["username"]),
            duration,
            request_state(&object["status"]),
        ]
    },
};

pub(super) const CLUSTER_TRUST_BUNDLE: Printer = Printer {
    columns: &[NAME, Column::text("SignerName", "Signer whose trust anchors these are.")],
    cells: |object, _| cells![name(object), filled_or(&object["spec"]["signerName"], NONE)],
};

pub(super) const POD_CERTIFICATE_REQUEST: Printer = Printer {
    columns: &[
        NAME,
        Column::text("PodName", "Pod the certificate is for."),
        Column::text("ServiceAccountName", "Service account of the pod."),
        Column::text("NodeName", "Node of the pod."),
        Column::text("SignerName", "Signer that is asked."),
        Column::text("State", "Pending, Issued, Denied or Failed."),
        Column::text("UnverifiedUserAnnotations", "What the pod's author tells the signer."),
    ],
    cells: |object, _| {
        let spec = &object["spec"];
        let state = list(&object["status"]["conditions"])
            .iter()
            .map(|condition| str(&condition["type"]))
            .rfind(|state| matches!(*state, "Issued" | "Denied" | "Failed"));
        cells![
            name(object),
            str(&spec["podName"]),
            str(&spec["serviceAccountName"]),
            str(&spec["nodeName"]),
            str(&spec["signerName"]),
            state.unwrap_or("Pending"),
            labels(&spec["unverifiedUserAnnotations"]),
        ]
    },
};

fn subjects<'a>(binding: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list(&binding["subjects"]).iter().filter(move |subject| subject["kind"] == kind)
}

/// Returns the state of a request. Denied takes precedence over Approved; failure and certificate
/// are appended.
fn request_state(status: &Value) -> String {
    let has = |wanted: &str| {
        list(&status["conditions"]).iter().any(|condition| condition["type"] == wanted)
    };
    let mut state = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !str(&status["certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}
