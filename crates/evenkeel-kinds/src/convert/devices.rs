//! Converts `resource.k8s.io` kinds: v1beta1 nests fields differently from later versions.

use evenkeel_types::Gvk;
use serde_json::{Map, Value, json};

/// Paths of the requests of a ResourceClaim and a ResourceClaimTemplate.
const CLAIM_REQUESTS: &str = "/spec/devices/requests";
const TEMPLATE_REQUESTS: &str = "/spec/spec/devices/requests";

/// Fields of a request for exactly one device class.
const EXACTLY: [&str; 7] = [
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "deviceClassName",
    "selectors",
    "tolerations",
];

pub(super) fn convert(from_version: &str, to: Gvk<'_>, object: &mut Value) {
    let to_beta = match (from_version, to.version) {
        ("v1beta1", "v1beta1") => return,
        ("v1beta1", _) => false,
        (_, "v1beta1") => true,
        _ => return,
    };
    match to.kind {
        "ResourceClaim" => {
            each(object, CLAIM_REQUESTS, |request| convert_request(request, to_beta))
        }
        "ResourceClaimTemplate" => {
            each(object, TEMPLATE_REQUESTS, |request| convert_request(request, to_beta));
        }
        "ResourceSlice" => {
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                drop_zero(spec, "nodeName");
                drop_zero(spec, "allNodes");
            }
            each(object, "/spec/devices", |device| convert_device(device, to_beta));
        }
        _ => {}
    }
}

fn each(object: &mut Value, path: &str, mut convert: impl FnMut(&mut Map<String, Value>)) {
    let items = object.pointer_mut(path).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(&mut convert);
}

/// Moves the fields of `exactly` to or from the request itself, where v1beta1 has them.
fn convert_request(request: &mut Map<String, Value>, to_beta: bool) {
    if to_beta {
        if let Some(Value::Object(exactly)) = request.remove("exactly") {
            request.extend(exactly);
        }
        // Written even if the request uses `firstAvailable`.
        request.entry("deviceClassName").or_insert(json!(""));
        return;
    }
    for field in EXACTLY {
        drop_zero(request, field);
    }
    let exactly: Map<_, _> = EXACTLY
        .iter()
        .filter_map(|&field| Some((field.to_owned(), request.remove(field)?)))
        .collect();
    if !exactly.is_empty() {
        request.insert("exactly".to_owned(), exactly.into());
    }
}

/// Moves all fields but the name to or from `basic`, where v1beta1 has them.
fn convert_device(device: &mut Map<String, Value>, to_beta: bool) {
    if to_beta {
        let name = device.remove("name");
        let basic = std::mem::take(device);
        device.extend(name.map(|name| ("name".to_owned(), name)));
        device.insert("basic".to_owned(), basic.into());
    } else if let Some(Value::Object(basic)) = device.remove("basic") {
        device.extend(basic);
    }
}

fn drop_zero(object: &mut Map<String, Value>, field: &str) {
    let zeros = [json!(null), json!(""), json!(0), json!(false)];
    // An explicit `adminAccess: false` differs from an unset one.
    if field != "adminAccess" && object.get(field).is_some_and(|value| zeros.contains(value)) {
        object.remove(field);
    }
}
