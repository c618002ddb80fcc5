//! Subresources with a meaning of their own: binding, eviction, finalize, approval and others.

use evenkeel_schema::field;
use evenkeel_types::Gvk;
use http::StatusCode;
use serde_json::{Value, json};

use super::delete::{Deletion, delete_named};
use super::update::{check_name, current};
use super::{get, patch, update};
use crate::call::Call;
use crate::object::Metadata as _;
use crate::pipeline::decode;
use crate::pipeline::encode::{self, Answer};
use crate::pipeline::persist::{self, Change};
use crate::pipeline::validate::Admitted;
use crate::query::{FieldValidation, WriteOptions};
use crate::route::Verb;
use crate::status::{Named, Status};
use crate::storage::Range;

pub(super) async fn answer(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let subresource = call.subresource.as_deref().unwrap_or("");
    match (&*call.resource.plural, subresource) {
        ("pods", "binding") => bind(call, body).await,
        ("pods", "eviction") => evict(call, body).await,
        ("namespaces", "finalize")
        | ("pods", "ephemeralcontainers" | "resize")
        | ("certificatesigningrequests", "approval") => match call.verb {
            Verb::Get => get::answer(call),
            Verb::Update => update::answer(call, body).await,
            Verb::Patch => patch::answer(call, body).await,
            _ => Err(Status::method_not_allowed()),
        },
        ("pods", "log") => {
            let (_, pod) = current(call)?;
            let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
            Err(if node.is_empty() {
                Status::bad_request(format!("pod {} does not have a host assigned", call.name()))
            } else {
                Status::not_implemented("no node runs behind this API server: there are no logs")
            })
        }
        ("serviceaccounts", "token") => {
            current(call)?;
            Err(Status::not_implemented("tokens of service accounts are not issued yet"))
        }
        (plural, subresource) => {
            current(call)?;
            Err(Status::not_implemented(format!(
                "{plural}/{subresource} needs a node or network behind the API server; there is \
                 none here"
            )))
        }
    }
}

/// The older way to bind: the pod is named in the body.
pub(super) async fn bind_by_body(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let gvk = Gvk::new("", "v1", "Binding");
    let binding = decode::of_kind(call, body, gvk, FieldValidation::Ignore)?;
    let pods = call.core.builtin("", "pods").ok_or_else(Status::resource_not_found)?;
    let mut call = call.at(&call.namespace);
    call.resource = pods;
    call.name = Some(binding.meta_str("name").to_owned());
    call.subresource = Some("binding".into());
    bind(&call, body).await
}

/// Puts a pod on a node, once.
pub(super) async fn bind(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions", false)?;
    let gvk = Gvk::new("", "v1", "Binding");
    let binding = decode::of_kind(call, body, gvk, options.field_validation)?;
    check_name(call, &binding)?;
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or("").to_owned();
    let kind = binding.pointer("/target/kind").and_then(Value::as_str).unwrap_or("");
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(field::Error::not_supported("target.kind", kind, ["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(field::Error::required("target.name", ""));
    }
    if !errors.is_empty() {
        return Err(Status::invalid(Named { group: "", kind: "Binding" }, call.name(), &errors));
    }
    let pods = Named { group: "", kind: "pods/binding" };
    persist::update(call, call.name(), options.dry_run, |old, _| {
        for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (given, stored) = (binding.meta_str(field), old.meta_str(field));
            if !given.is_empty() && given != stored {
                let why = format!(
                    "Precondition failed: {shown} in precondition: {given}, {shown} in object \
                     meta: {stored}"
                );
                return Err(Status::conflict(pods, call.name(), &why));
            }
        }
        let assigned = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
        if old.is_deleting() {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", call.name());
            return Err(Status::conflict(pods, call.name(), &why));
        }
        if !assigned.is_empty() {
            let why = format!("pod {} is already assigned to node {assigned:?}", call.name());
            return Err(Status::conflict(pods, call.name(), &why));
        }
        let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
        if gates.is_some_and(|gates| !gates.is_empty()) {
            let why = format!("pod {} has non-empty .spec.schedulingGates", call.name());
            return Err(Status::conflict(pods, call.name(), &why));
        }
        let mut pod = old.clone();
        pod["spec"]["nodeName"] = node.clone().into();
        if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("nominatedNodeName");
        }
        for field in ["labels", "annotations"] {
            let extra = binding.meta(field).and_then(Value::as_object);
            for (key, value) in extra.into_iter().flatten() {
                pod["metadata"][field][key] = value.clone();
            }
        }
        set_condition(&mut pod, "PodScheduled", &call.core.sources.timestamp());
        // What is written is the binding: the pod has no new owner and needs no second check.
        Ok(Change::Write(Admitted::marked(pod)))
    })
    .await?;
    Ok(Answer::Other(
        StatusCode::CREATED,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        }),
    ))
}

fn set_condition(pod: &mut Value, kind: &str, now: &str) {
    let condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    let conditions = pod["status"]["conditions"].as_array_mut();
    match conditions {
        None => pod["status"]["conditions"] = json!([condition]),
        Some(list) => match list.iter_mut().find(|c| c["type"] == kind) {
            Some(existing) if existing["status"] == "True" => {}
            Some(existing) => *existing = condition,
            None => list.push(condition),
        },
    }
}

/// Deletes a pod if its disruption budget allows.
async fn evict(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&call.query, "CreateOptions", false)?;
    let gvk = Gvk::new("policy", "v1", "Eviction");
    let eviction = decode::of_kind(call, body, gvk, FieldValidation::Ignore)?;
    if eviction.meta_str("name") != call.name() && !eviction.meta_str("name").is_empty() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut deletion = Deletion::read(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
    deletion.dry_run |= options.dry_run;
    let (_, pod) = current(call)?;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    let unguarded = matches!(phase, "Succeeded" | "Failed" | "Pending") || pod.is_deleting();
    if !unguarded {
        take_from_budget(call, &pod, deletion.dry_run).await?;
    }
    delete_named(call, call.name(), &deletion).await?;
    Ok(Answer::Other(
        StatusCode::CREATED,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        }),
    ))
}

async fn take_from_budget(call: &Call, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let Some(resource) = call.core.builtin("policy", "poddisruptionbudgets") else { return Ok(()) };
    let range = Range { namespace: Some(&call.namespace), after: None, limit: None };
    let page = resource.table.list(range, None).map_err(Status::internal)?;
    let mut budgets = Vec::new();
    for record in &page.items {
        let budget = encode::value(&resource, record)?;
        if selects(budget.pointer("/spec/selector"), pod)? {
            budgets.push((record.key.clone(), budget));
        }
    }
    let (key, budget) = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                 does not support.",
            ));
        }
    };
    let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let name = key.name().to_owned();
    let refuse = |retry, cause: String| {
        Err(Status::too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            retry,
        )
        .with_cause("DisruptionBudget", &cause, ""))
    };
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return refuse(
            10,
            format!("The disruption budget {name} is still being processed by the server."),
        );
    }
    if number("/status/disruptionsAllowed") <= 0 {
        return refuse(
            0,
            format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("/status/desiredHealthy"),
                number("/status/currentHealthy")
            ),
        );
    }
    if dry_run {
        return Ok(());
    }
    let pod_name = pod.meta_str("name").to_owned();
    let now = call.core.sources.timestamp();
    let internal = Call::internal(&call.core, &resource, Verb::Update, key, Some("status"));
    super::write_status(&internal, move |budget| {
        let left = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        budget["status"]["disruptionsAllowed"] = (left - 1).max(0).into();
        budget["status"]["disruptedPods"][&pod_name] = now.clone().into();
    })
    .await?;
    Ok(())
}

/// Whether a LabelSelector object selects the pod.
fn selects(selector: Option<&Value>, pod: &Value) -> Result<bool, Status> {
    let Some(selector) = selector else { return Ok(false) };
    let labels = pod.meta("labels").and_then(Value::as_object);
    let has = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let mut holds = exact.fold(true, |all, (key, value)| all && has(key) == value.as_str());
    for term in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = term["key"].as_str().unwrap_or("");
        let listed = |value: &str| {
            term["values"].as_array().is_some_and(|values| values.iter().any(|v| v == value))
        };
        holds &= match term["operator"].as_str().unwrap_or("") {
            "In" => has(key).is_some_and(listed),
            "NotIn" => !has(key).is_some_and(listed),
            "Exists" => has(key).is_some(),
            _ => has(key).is_none(),
        };
    }
    Ok(holds)
}
