//! The disruption controller: computes how many pods a PodDisruptionBudget allows to be disrupted.
//!
//! On eviction the API server reads this status, decrements it and records the evicted pod in
//! `disruptedPods`. This controller keeps the status in sync with the pods.

mod scale;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::Cache;
use evenkeel::{Action, BoxError, Context, Key, Kind, Manager, Reconciler, Result};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Selector, SelectorExt as _};

use crate::options::ClusterOptions;
use crate::pods::is_ready;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "disruption-controller";

/// How long after an eviction a pod has to be deleted before it counts again.
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let cache = manager.cache().clone();
    manager
        .controller(Budgets)
        .named(NAME)
        .watches::<Pod>(move |pod, _| budgets_of(&cache, pod))
        .reads::<ReplicaSet>()
        .reads::<Deployment>()
        .reads::<StatefulSet>()
        .reads::<ReplicationController>()
        .register()?;
    Ok(())
}

/// Returns the budgets that select a pod.
fn budgets_of(cache: &Cache, pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let budgets = cache.list(&Kind::of::<PodDisruptionBudget>()).in_namespace(namespace);
    let Ok(found) = budgets.entries() else { return Vec::new() };
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let selects = |budget: Arc<PodDisruptionBudget>| {
        selector(&budget).is_ok_and(|selector| selector.is_some_and(|s| s.matches(&labels)))
    };
    let budgets = found.iter().filter(|entry| cache.typed(entry).is_ok_and(selects));
    budgets.map(|entry| entry.meta().key().clone()).collect()
}

/// Returns the selector of a budget; without one it selects no pods.
fn selector(budget: &PodDisruptionBudget) -> Result<Option<Selector>> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    Ok(selector.map(Selector::try_from).transpose()?)
}

struct Budgets;

impl Reconciler for Budgets {
    type Object = PodDisruptionBudget;

    async fn reconcile(&self, cx: &Context<PodDisruptionBudget>) -> Result<Action> {
        let Some(budget) = cx.object() else { return Ok(Action::done()) };
        let (status, again) = match status(cx, &budget).await {
            Ok(found) => found,
            Err(error) => (failed(cx, &budget, &*error), None),
        };
        if budget.status.as_ref() != Some(&status) {
            let next = PodDisruptionBudget { status: Some(status), ..(*budget).clone() };
            // Evictions update the same status, so it is written with a resourceVersion.
            cx.client()
                .subresource::<PodDisruptionBudget>(cx.key(), "status")
                .update(&next)
                .await?;
        }
        Ok(again.map_or(Action::done(), Action::requeue_after))
    }
}

/// Returns the desired status, and when it changes without an event.
async fn status(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
) -> Result<(PodDisruptionBudgetStatus, Option<Duration>)> {
    let namespace = cx.key().namespace().unwrap_or_default();
    let pods = match selector(budget)? {
        Some(selector) => {
            cx.client().list::<Pod>().in_namespace(namespace).matching(selector).await?
        }
        None => Vec::new(),
    };
    let (expected, desired) = expected(cx, budget, &pods).await?;
    let (disrupted, again) = disrupted(cx, budget, &pods);
    let healthy = pods.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pod.metadata.deletion_timestamp.is_none() && !disrupted.contains_key(name) && is_ready(pod)
    });
    let healthy = count(healthy.count());
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let generation = budget.metadata.generation;
    let mut status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        expected_pods: Some(expected),
        disruptions_allowed: Some(allowed),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        observed_generation: generation,
        conditions: budget.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let enough = allowed > 0;
    let reason = if enough { "SufficientPods" } else { "InsufficientPods" };
    let conditions = status.conditions.get_or_insert_default();
    set_allowed(cx, conditions, enough, reason, "", generation);
    Ok((status, again))
}

/// Returns the status after an error: no disruptions are allowed.
fn failed(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
    error: &(dyn std::error::Error + 'static),
) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    let generation = status.observed_generation;
    let conditions = status.conditions.get_or_insert_default();
    set_allowed(cx, conditions, false, "SyncFailed", &error.to_string(), generation);
    status
}

fn set_allowed(
    cx: &Context<PodDisruptionBudget>,
    conditions: &mut Vec<Condition>,
    enough: bool,
    reason: &str,
    message: &str,
    generation: Option<i64>,
) {
    let condition = evenkeel::Condition::new("DisruptionAllowed", enough, reason, message);
    condition.set(conditions, generation, cx.clock().now());
}

/// Returns how many pods are expected, and how many of them have to be healthy.
async fn expected(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> Result<(i32, i32)> {
    let Some(spec) = &budget.spec else { return Ok((0, 0)) };
    if let Some(unavailable) = &spec.max_unavailable {
        let expected = scale::expected(cx, pods).await?;
        let desired = expected - scaled_value(unavailable, expected)?;
        return Ok((expected, desired.max(0)));
    }
    match &spec.min_available {
        Some(IntOrString::Int(desired)) => Ok((count(pods.len()), *desired)),
        Some(percent @ IntOrString::String(_)) => {
            let expected = scale::expected(cx, pods).await?;
            Ok((expected, scaled_value(percent, expected)?))
        }
        None => Ok((0, 0)),
    }
}

/// Resolves a number, or a percentage of `total` rounded up.
fn scaled_value(value: &IntOrString, total: i32) -> Result<i32> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
            let percent = percent.ok_or_else(|| {
                format!("invalid value for IntOrString: invalid type: string is not a percentage: {text}")
            })?;
            let part = percent.saturating_mul(i64::from(total));
            let part = part / 100 + i64::from(part % 100 > 0);
            Ok(i32::try_from(part).unwrap_or(i32::MAX))
        }
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Returns the evicted pods that still exist, and when the first of them expires.
fn disrupted(
    cx: &Context<PodDisruptionBudget>,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let recorded = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let Some(recorded) = recorded else { return Default::default() };
    let mut left = BTreeMap::new();
    let mut again = None::<Duration>;
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let Some(time) = recorded.get(&name) else { continue };
        let age = cx.clock().since(time.0);
        if age > DELETION_TIMEOUT {
            continue;
        }
        let wait = DELETION_TIMEOUT - age + Duration::from_millis(1);
        again = Some(again.map_or(wait, |again| again.min(wait)));
        left.insert(name, time.clone());
    }
    (left, again)
}
