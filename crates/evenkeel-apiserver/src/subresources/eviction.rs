//! Eviction: deletes a pod if its PodDisruptionBudget allows it.

use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::managed_fields::SentKind;
use super::{done, set_condition};
use crate::codec;
use crate::context::{Operation, RequestContext};
use crate::object::Metadata as _;
use crate::pipeline::checks::check_namespace;
use crate::pipeline::delete::check_preconditions;
use crate::pipeline::encode::Reply;
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::{self, decode, mutate, validate};
use crate::registry::resource::Part;
use crate::request::delete_options::DeleteOptions;
use crate::request::query::WriteOptions;
use crate::request::route::Verb;
use crate::selector::LabelSelector;
use crate::status::{GroupResource, Status};
use crate::storage::Range;

const EVICTION: Gvk<'static> = Gvk::new("policy", "v1", "Eviction");
static SENT: SentKind = SentKind::new(EVICTION);

/// Evictions that the disruption controller may not have observed yet.
const MAX_DISRUPTED: usize = 2000;

pub(super) async fn evict(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let mut eviction = decode::of_kind(cx, body, EVICTION, options.field_validation)?;
    check_namespace(cx, &mut eviction)?;
    SENT.set_managed_fields(cx, &mut eviction, json!({"metadata": {}}), &options);
    mutate::unstored(cx, Operation::Create, &mut eviction, None).await?;
    if eviction.meta_str("name") != cx.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    validate::unstored(cx, Operation::Create, &mut eviction, None).await?;
    let delete_options = &eviction["deleteOptions"];
    let dry_run =
        options.dry_run || delete_options["dryRun"].as_array().is_some_and(|list| !list.is_empty());
    let current = persist::current(cx, cx.name()).await?;
    let pod = current.object();
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("");
    let unguarded = matches!(phase, "Succeeded" | "Failed" | "Pending") || pod.is_deleting();
    if !unguarded {
        decrement_budget(cx, pod, dry_run).await?;
    }
    let deletion = DeleteOptions::read(delete_options);
    let marked =
        if dry_run { None } else { set_disruption_target(cx, deletion.as_ref().ok()).await? };
    let mut deletion = deletion?;
    deletion.dry_run = dry_run;
    if let Some(revision) = marked {
        deletion.expect_revision(revision);
    }
    pipeline::delete_internal(cx, cx.name(), &deletion).await?;
    Ok(done())
}

/// Sets the DisruptionTarget condition of the pod. Returns the new revision.
async fn set_disruption_target(
    cx: &RequestContext,
    deletion: Option<&DeleteOptions>,
) -> Result<Option<u64>, Status> {
    let now = cx.core.clock_rng.timestamp();
    let persisted = pipeline::update_stored(cx, false, |old| {
        if let Some(deletion) = deletion {
            check_preconditions(cx, cx.name(), deletion, old)?;
        }
        let mut pod = old.clone();
        let reason = "EvictionByEvictionAPI";
        set_condition(&mut pod, "DisruptionTarget", reason, "Eviction API: evicting", &now);
        Ok(pod)
    })
    .await?;
    Ok(match persisted {
        Persisted::Stored(record) => Some(record.revision),
        Persisted::Value(_) => None,
    })
}

async fn decrement_budget(cx: &RequestContext, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let Some(resource) = cx.core.builtin("policy", "poddisruptionbudgets") else { return Ok(()) };
    let range = Range { namespace: Some(&cx.namespace), after: None, limit: None };
    let page = resource.table.list(range, None).map_err(Status::internal)?;
    let mut budgets = Vec::new();
    for record in &page.items {
        let budget = codec::value(&resource, record)?;
        if selects(budget.pointer("/spec/selector"), pod) {
            budgets.push((record.key.clone(), budget));
        }
    }
    let (key, budget) = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction \
                       subresource does not support.";
            return Err(Status::without_reason(500, why));
        }
    };
    if !is_ready(pod) && allows_unready(budget) {
        return Ok(());
    }
    check(key.name(), budget)?;
    if dry_run {
        return Ok(());
    }
    let pod_name = pod.meta_str("name").to_owned();
    let now = cx.core.clock_rng.timestamp();
    let internal = RequestContext::internal(&cx.core, &resource, Verb::Update, key, Some("status"));
    pipeline::update_internal(&internal, Part::Status, move |budget| {
        let status = &mut budget["status"];
        let left = (status["disruptionsAllowed"].as_i64().unwrap_or(0) - 1).max(0);
        status["disruptionsAllowed"] = left.into();
        if left == 0 {
            set_insufficient_pods(status, &now);
        }
        status["disruptedPods"][&pod_name] = now.clone().into();
    })
    .await?;
    Ok(())
}

/// Checks whether the budget allows an eviction. Mirrors upstream's `checkAndDecrement`.
fn check(name: &str, budget: &Value) -> Result<(), Status> {
    let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let violates = |retry, cause: String| {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Err(Status::too_many_requests(message, retry).with_cause("DisruptionBudget", &cause, ""))
    };
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return violates(10, cause);
    }
    let allowed = number("/status/disruptionsAllowed");
    let forbid = |why: &str| {
        Err(Status::forbidden(
            GroupResource { group: "policy", resource: "poddisruptionbudget" },
            name,
            why,
        ))
    };
    if allowed < 0 {
        return forbid("pdb disruptions allowed is negative");
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return forbid(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed > 0 {
        return Ok(());
    }
    let conditions = budget.pointer("/status/conditions").and_then(Value::as_array);
    let refusal = conditions
        .into_iter()
        .flatten()
        .find(|condition| {
            condition["type"] == "DisruptionAllowed" && condition["status"] == "False"
        })
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or("");
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let (has, needs) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
    let cause = match refusal {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it \
             failed sync: {message}"
        ),
        _ if has <= needs => format!(
            "The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        ),
        Some((reason, message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): \
             {message}"
        ),
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    violates(0, cause)
}

/// Sets the DisruptionAllowed condition of an exhausted budget to false.
fn set_insufficient_pods(status: &mut Value, now: &str) {
    const KIND: &str = "DisruptionAllowed";
    let mut condition = json!({
        "type": KIND, "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": now,
    });
    if let Some(generation) = status["observedGeneration"].as_i64().filter(|seen| *seen != 0) {
        condition["observedGeneration"] = generation.into();
    }
    let Some(list) = status["conditions"].as_array_mut() else {
        status["conditions"] = json!([condition]);
        return;
    };
    match list.iter_mut().find(|existing| existing["type"] == KIND) {
        Some(existing) => {
            if existing["status"] == "False" {
                condition["lastTransitionTime"] = existing["lastTransitionTime"].take();
            }
            *existing = condition;
        }
        None => list.push(condition),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Returns whether unready pods can be evicted: the budget is met without them, or its policy
/// allows it.
fn allows_unready(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (has, needs) = (number("currentHealthy"), number("desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (has >= needs && needs > 0)
}

/// Returns whether a LabelSelector object selects the pod.
fn selects(selector: Option<&Value>, pod: &Value) -> bool {
    let selector = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
    selector.is_some_and(|selector| selector.matches(&codec::labels(pod)))
}
