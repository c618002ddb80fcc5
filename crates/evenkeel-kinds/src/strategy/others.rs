//! Prepares kinds of the smaller groups.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Context;
use crate::defaults::set::{self, Object};

/// Marks an APIService without a service reference as available: the server itself serves it.
pub(super) fn create_api_service(object: &mut Object, cx: &Context<'_>) {
    let local = set::get(object, "spec").is_none_or(|spec| set::is_unset(spec.get("service")));
    if local && let Some(status) = set::structure(object, "status") {
        let condition = json!({
            "type": "Available",
            "status": "True",
            "lastTransitionTime": cx.now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        });
        status.insert("conditions".to_owned(), json!([condition]));
    }
}

/// Sets `timeAdded` of taints that have none.
pub(super) fn set_taint_times(slice: &mut Object, cx: &Context<'_>) {
    let Some(spec) = set::child(slice, "spec") else { return };
    for device in set::items(spec, "devices") {
        for taint in set::items(device, "taints") {
            set::text_pointer(taint, "timeAdded", cx.now);
        }
    }
}

/// Removes the status of devices that are no longer allocated to the claim.
pub(super) fn remove_deallocated_devices(old: &Object, new: &mut Object) {
    let before = allocated(old);
    let after = allocated(new);
    let Some(status) = set::child(new, "status") else { return };
    let Some(Value::Array(devices)) = status.get_mut("devices") else { return };
    devices.retain(|device| {
        let device = device.as_object().map(identity);
        device.is_none_or(|device| !before.contains(&device) || after.contains(&device))
    });
    if devices.is_empty() {
        status.remove("devices");
    }
}

fn allocated(claim: &Object) -> BTreeSet<[String; 4]> {
    set::get(claim, "status")
        .and_then(|status| set::get(status, "allocation"))
        .and_then(|allocation| set::get(allocation, "devices"))
        .into_iter()
        .flat_map(|devices| set::list(devices, "results"))
        .map(identity)
        .collect()
}

fn identity(device: &Object) -> [String; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| set::string(device, field).to_owned())
}
