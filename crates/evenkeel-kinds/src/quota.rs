//! ResourceQuotas: which objects a quota counts, what they use, and whether a request fits.
//!
//! [`Evaluator`] measures one resource. [`check`] compares a request with the quotas of its namespace;
//! the status of a quota, not its spec, is what is enforced, as in upstream's `CheckRequest`.

mod evaluator;
mod pod;

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use crate::compute::{self, ResourceList};

pub use self::evaluator::Evaluator;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Updates the object.
    Update,
}

/// A request that quotas may reject.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The subresource; empty if there is none.
    pub subresource: &'a str,
    /// The object as it would be stored.
    pub object: &'a Value,
    /// The stored object of an update.
    pub old: Option<&'a Value>,
    /// Seconds since the epoch.
    pub now: i64,
}

/// The parts of a ResourceQuota that are enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The name.
    pub name: String,
    /// The enforced limits: `status.hard`.
    pub hard: ResourceList,
    /// The current usage: `status.used`.
    pub used: ResourceList,
    /// The scopes, and the requirements of the scope selector.
    pub scopes: Vec<Scope>,
}

/// One requirement of an object that a quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Reads a ResourceQuota.
    pub fn of(quota: &Value) -> Self {
        let name = quota.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Self {
            name: name.to_owned(),
            hard: compute::list(quota.pointer("/status/hard")),
            used: compute::list(quota.pointer("/status/used")),
            scopes: scopes(quota.get("spec").unwrap_or(&Value::Null)),
        }
    }
}

impl Scope {
    /// Returns whether a set with at most one label, whose key is the scope, matches.
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|known| known == value));
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "DoesNotExist" => value.is_none(),
            _ => value.is_some(),
        }
    }
}

/// Returns the scopes and the requirements of the scope selector in the spec of a quota.
pub fn scopes(spec: &Value) -> Vec<Scope> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let named = list(spec.get("scopes")).into_iter().map(|scope| Scope {
        name: text(&scope),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    });
    let selected = list(spec.pointer("/scopeSelector/matchExpressions"));
    let selected = selected.into_iter().map(|requirement| Scope {
        name: text(&requirement["scopeName"]),
        operator: text(&requirement["operator"]),
        values: list(requirement.get("values")).iter().map(text).collect(),
    });
    named.chain(selected).collect()
}

/// Returns the new usage of each quota that the request raises, by its index.
///
/// # Errors
///
/// The reason why a quota rejects the request.
pub fn check(
    evaluator: &Evaluator<'_>,
    quotas: &[Quota],
    request: &Request<'_>,
) -> Result<Vec<(usize, ResourceList)>, String> {
    let mut covering = Vec::new();
    for (at, quota) in quotas.iter().enumerate() {
        if !evaluator.matches(quota, request.object) {
            continue;
        }
        let counted = || quota.hard.keys().filter(|name| evaluator.counts(name));
        evaluator
            .constraints(counted().map(String::as_str), request.object)
            .map_err(|why| format!("failed quota: {}: {why}", quota.name))?;
        if counted().any(|name| !quota.used.contains_key(name)) {
            let names: Vec<&str> = counted().map(String::as_str).collect();
            let names = names.join(",");
            return Err(format!("status unknown for quota: {}, resources: {names}", quota.name));
        }
        covering.push(at);
    }
    if covering.is_empty() {
        return Ok(Vec::new());
    }
    let usage = evaluator.usage(request.object, request.now);
    let negative: Vec<&str> = usage
        .iter()
        .filter(|(_, quantity)| quantity.sign().is_lt())
        .map(|(name, _)| name.as_str())
        .collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let previous = match (request.operation, request.old) {
        (Operation::Update, Some(old)) => Some((old, evaluator.usage(old, request.now))),
        _ => None,
    };
    let mut raised = Vec::new();
    for at in covering {
        let quota = &quotas[at];
        // An object that the quota did not count before is new to it.
        let delta = match &previous {
            Some((old, used)) if evaluator.matches(quota, old) => increase(&usage, used),
            _ => usage.clone(),
        };
        let requested: ResourceList = delta
            .into_iter()
            .filter(|(name, quantity)| !quantity.is_zero() && quota.hard.contains_key(name))
            .collect();
        if requested.is_empty() {
            continue;
        }
        let mut total = quota.used.clone();
        compute::add(&mut total, &requested);
        if request.subresource != "status" {
            refuse_excess(quota, &requested, &total)?;
        }
        raised.push((at, total));
    }
    Ok(raised)
}

/// Returns by how much each quantity increases.
fn increase(usage: &ResourceList, previous: &ResourceList) -> ResourceList {
    let mut delta = ResourceList::new();
    for (name, quantity) in usage {
        let mut more = quantity.clone();
        if let Some(before) = previous.get(name) {
            more.sub(before);
        }
        if more.sign().is_gt() {
            delta.insert(name.clone(), more);
        }
    }
    delta
}

fn refuse_excess(
    quota: &Quota,
    requested: &ResourceList,
    total: &ResourceList,
) -> Result<(), String> {
    let exceeded: Vec<&str> = requested
        .keys()
        .filter(|name| total.get(*name) > quota.hard.get(*name))
        .map(String::as_str)
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let print = |list: &ResourceList| {
        let of = |name: &&str| list.get(*name).map(|quantity| format!("{name}={quantity}"));
        exceeded.iter().filter_map(of).collect::<Vec<_>>().join(",")
    };
    let (requested, used, limited) = (print(requested), print(&quota.used), print(&quota.hard));
    Err(format!(
        "exceeded quota: {}, requested: {requested}, used: {used}, limited: {limited}",
        quota.name
    ))
}

/// Returns the usage of a quota with these limits and scopes: the sum over all objects that it
/// counts. `resources` are the objects in its namespace, by resource.
pub fn total_usage<'a>(
    hard: &ResourceList,
    scopes: &[Scope],
    resources: impl IntoIterator<Item = (Evaluator<'a>, Vec<Value>)>,
    now: i64,
) -> ResourceList {
    let mut used = ResourceList::new();
    for (evaluator, objects) in resources {
        let names: Vec<&String> = hard.keys().filter(|name| evaluator.counts(name)).collect();
        if names.is_empty() {
            continue;
        }
        for name in names {
            used.entry(name.clone()).or_insert(Quantity::ZERO);
        }
        for object in objects {
            if evaluator.matches_scopes(scopes, &object) {
                compute::add(&mut used, &evaluator.usage(&object, now));
            }
        }
    }
    used.retain(|name, _| hard.contains_key(name));
    used
}

#[cfg(test)]
mod tests;
