//! `PodSecurity`: enforces the Pod Security Standards that a namespace selects with its labels.
//!
//! Pods are rejected or cause a warning; templates of pods only cause a warning, and a namespace
//! with a stricter level warns about the pods it has. There are no exemptions.

use std::collections::{BTreeMap, HashSet};

use evenkeel_kinds::pod_security::{self, Level, LevelVersion, Pod, Policy};
use serde_json::Value;

use crate::audit;
use crate::context::{Attributes, Operation, Plugin, RequestContext};
use crate::object::Metadata as _;
use crate::status::{GroupResource, Status};
use crate::storage::{Key, Range};

pub(super) struct PodSecurity;

/// Pods of a namespace that are checked when its level changes.
const CHECKED_PODS: usize = 3000;

/// Subresources that do not change what a pod may do.
const IGNORED: &[&str] =
    &["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

impl Plugin for PodSecurity {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(object) = attributes.object.as_deref() else { return Ok(()) };
        let (resource, subresource) = (&attributes.cx.resource, &attributes.cx.subresource);
        if resource.is("", "namespaces") {
            return match subresource {
                None => check_namespace(attributes, object),
                Some(_) => Ok(()),
            };
        }
        let Some(pod) = pod_security::pod_of(&resource.group, &resource.plural, object) else {
            return Ok(());
        };
        match subresource.as_deref() {
            _ if !resource.is("", "pods") => match subresource {
                None => warn_about_template(attributes, pod),
                Some(_) => Ok(()),
            },
            Some(ignored) if IGNORED.contains(&ignored) => Ok(()),
            _ => check_pod(attributes, object, pod),
        }
    }
}

/// Returns the policy of the request's namespace; `None` if it has no labels for it.
fn policy(cx: &RequestContext) -> Result<Option<Policy>, Status> {
    let table = cx.core.store.table("namespaces");
    let Some(namespace) = table.get(&Key::new("", &cx.namespace)) else {
        return Err(Status::internal(format!("failed to lookup namespace {:?}", cx.namespace)));
    };
    if !namespace.labels.iter().any(|(key, _)| key.starts_with("pod-security.kubernetes.io/")) {
        return Ok(None);
    }
    let labels = namespace.labels.iter().map(|(key, value)| (key.to_owned(), value.into()));
    Ok(Some(Policy::of(Some(&labels.collect())).0))
}

fn check_pod(attributes: &Attributes<'_>, object: &Value, pod: Pod<'_>) -> Result<(), Status> {
    let cx = attributes.cx;
    let Some(policy) = policy(cx)?.filter(|policy| !policy.is_privileged()) else {
        annotate(cx, "enforce-policy", "privileged:latest");
        return Ok(());
    };
    if attributes.old.is_some_and(|old| !is_significant(object, old)) {
        return Ok(());
    }
    annotate(cx, "enforce-policy", &policy.enforce.to_string());
    audit(cx, policy.audit, pod);
    let violations = pod_security::violations(policy.enforce, pod);
    if !violations.is_empty() {
        let (level, details) = (policy.enforce, pod_security::details(&violations));
        return Err(attributes.forbidden(&format!("violates PodSecurity \"{level}\": {details}")));
    }
    warn(cx, policy.warn, pod);
    Ok(())
}

fn warn_about_template(attributes: &Attributes<'_>, template: Pod<'_>) -> Result<(), Status> {
    let cx = attributes.cx;
    // A template in a namespace that does not exist is not rejected here.
    if let Ok(Some(policy)) = policy(cx) {
        audit(cx, policy.audit, template);
        warn(cx, policy.warn, template);
    }
    Ok(())
}

/// Adds an annotation to the audit log.
fn annotate(cx: &RequestContext, key: &str, value: &str) {
    if cx.audit.records(audit::Level::Metadata) {
        cx.audit.annotate(format!("pod-security.kubernetes.io/{key}"), value);
    }
}

/// Records what violates the level that is only audited.
fn audit(cx: &RequestContext, level: LevelVersion, pod: Pod<'_>) {
    if !cx.audit.records(audit::Level::Metadata) {
        return;
    }
    let violations = pod_security::violations(level, pod);
    if !violations.is_empty() {
        let details = pod_security::details(&violations);
        let why = format!("would violate PodSecurity \"{level}\": {details}");
        annotate(cx, "audit-violations", &why);
    }
}

fn warn(cx: &RequestContext, level: LevelVersion, pod: Pod<'_>) {
    let violations = pod_security::violations(level, pod);
    if !violations.is_empty() {
        let details = pod_security::details(&violations);
        cx.warnings.add(format!("would violate PodSecurity \"{level}\": {details}"));
    }
}

/// Returns whether an update of a pod adds a container or changes an image. Nothing else that is
/// checked can change.
fn is_significant(new: &Value, old: &Value) -> bool {
    fn containers<'a>(pod: &'a Value, field: &str) -> &'a [Value] {
        let found = pod.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array);
        found.map_or(&[], Vec::as_slice)
    }
    let image = |container: &Value| container.get("image").cloned();
    let changed = ["containers", "initContainers"].into_iter().any(|field| {
        let (new, old) = (containers(new, field), containers(old, field));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old))
    });
    let before: BTreeMap<&str, Option<Value>> = containers(old, "ephemeralContainers")
        .iter()
        .filter_map(|container| Some((container.get("name")?.as_str()?, image(container))))
        .collect();
    changed
        || containers(new, "ephemeralContainers").iter().any(|container| {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            before.get(name) != Some(&image(container))
        })
}

// === namespaces ===

fn check_namespace(attributes: &Attributes<'_>, namespace: &Value) -> Result<(), Status> {
    let of = |namespace: &Value| Policy::of(namespace.meta("labels").and_then(Value::as_object));
    let (policy, errors) = of(namespace);
    let (before, errors_before) = match (attributes.operation, attributes.old) {
        (Operation::Update, Some(old)) => {
            let (policy, errors) = of(old);
            (Some(policy), errors)
        }
        _ => (None, Vec::new()),
    };
    if !errors.is_empty() && errors != errors_before {
        let kind = GroupResource { group: "", resource: "Namespace" };
        return Err(Status::invalid(kind, attributes.name(), &errors));
    }
    let (enforce, Some(before)) = (policy.enforce, before.map(|policy| policy.enforce)) else {
        return Ok(());
    };
    let is_relaxed = enforce.version == before.version && enforce.level <= before.level;
    if enforce.level != Level::Privileged && !is_relaxed {
        for warning in violating_pods(attributes.cx, attributes.name(), enforce)? {
            attributes.cx.warnings.add(warning);
        }
    }
    Ok(())
}

/// Returns warnings about the pods of a namespace that violate a level, grouped by violation.
fn violating_pods(
    cx: &RequestContext,
    namespace: &str,
    level: LevelVersion,
) -> Result<Vec<String>, Status> {
    let range = Range { namespace: Some(namespace), ..Range::default() };
    let page = cx.core.store.table("pods").list(range, None).map_err(Status::internal)?;
    let total = page.items.len();
    // One pod of each controller comes first.
    let (mut first, mut others) = (Vec::new(), Vec::new());
    let mut controllers = HashSet::new();
    for record in &page.items {
        let pod: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
        let owners = pod.meta("ownerReferences").and_then(Value::as_array);
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let controller = controller.and_then(|owner| owner["uid"].as_str()).map(str::to_owned);
        let is_first = controller.is_none_or(|uid| controllers.insert(uid));
        if is_first { first.push(pod) } else { others.push(pod) }
    }
    // The name of the first pod with a violation, and the number of pods.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in first.iter().chain(&others).take(CHECKED_PODS) {
        let Some(checked) = pod_security::pod_of("", "pods", pod) else { continue };
        let violations = pod_security::violations(level, checked);
        if violations.is_empty() {
            continue;
        }
        let name = pod.meta_str("name");
        let (least, count) = found.entry(pod_security::reasons(&violations)).or_default();
        if *count == 0 || name < least.as_str() {
            name.clone_into(least);
        }
        *count += 1;
    }
    let mut warnings = Vec::new();
    if total > CHECKED_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {CHECKED_PODS} of \
             {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \
             \"{level}\""
        ));
    }
    let mut pods: Vec<String> = found
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    pods.sort_unstable();
    warnings.extend(pods);
    Ok(warnings)
}
