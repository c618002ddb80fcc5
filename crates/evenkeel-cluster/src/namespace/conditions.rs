//! The conditions of a terminating namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The results of deleting the content of a namespace.
#[derive(Debug, Default)]
pub(super) struct DeletionReport {
    /// Why discovery failed.
    pub(super) undiscovered: Option<String>,
    /// Why objects could not be deleted.
    pub(super) failures: Vec<String>,
    /// How many objects are left, by `resource.group`.
    pub(super) remaining: BTreeMap<String, usize>,
    /// How many objects have each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
}

/// Type, reason and message of each condition with status False.
const FALSE_CONDITIONS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

impl DeletionReport {
    /// Returns the errors, if any.
    pub(super) fn error(&self) -> Option<String> {
        let all: Vec<&str> =
            self.undiscovered.iter().chain(&self.failures).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns reason and message of a condition with status True.
    fn true_condition(&self, condition: &str) -> Option<(&'static str, String)> {
        match condition {
            "NamespaceDeletionDiscoveryFailure" => {
                Some(("DiscoveryFailed", self.undiscovered.clone()?))
            }
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort_unstable();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let all: Vec<String> = self
                    .remaining
                    .iter()
                    .map(|(resource, count)| format!("{resource} has {count} resource instances"))
                    .collect();
                let message = format!("Some resources are remaining: {}", all.join(", "));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let all: Vec<String> = self
                    .finalizers
                    .iter()
                    .map(|(name, count)| format!("{name} in {count} resource instances"))
                    .collect();
                let message = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    all.join(", ")
                );
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Updates the conditions. Returns whether any changed.
    pub(super) fn set(&self, conditions: &mut Vec<NamespaceCondition>, now: &Time) -> bool {
        let mut changed = false;
        for (name, reason, message) in FALSE_CONDITIONS {
            let (status, reason, message) = match self.true_condition(name) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let next = NamespaceCondition {
                type_: name.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(now.clone()),
            };
            let present = conditions.iter_mut().find(|present| present.type_ == name);
            let Some(present) = present else {
                conditions.push(next);
                changed = true;
                continue;
            };
            let since = if present.status == next.status {
                present.last_transition_time.clone()
            } else {
                next.last_transition_time.clone()
            };
            let next = NamespaceCondition { last_transition_time: since, ..next };
            changed |= *present != next;
            *present = next;
        }
        changed
    }
}
