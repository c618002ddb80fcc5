//! A pod of a StatefulSet: its name, ordinal and revision.

use std::sync::Arc;

use evenkeel::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, Volume};

use super::Work;
use crate::{history, pods};

/// The slot of one ordinal.
pub(super) enum Slot {
    Filled(Arc<Pod>),
    /// With the pod to create.
    Empty(Box<Pod>),
}

impl Slot {
    pub(super) fn pod(&self) -> Option<&Arc<Pod>> {
        match self {
            Self::Filled(pod) => Some(pod),
            Self::Empty(_) => None,
        }
    }
}

/// Returns the ordinal of a pod; `None` if its name is not of the form `set-N`.
pub(super) fn ordinal(set: &str, pod: &Pod) -> Option<i32> {
    let rest = pod.metadata.name.as_deref()?.strip_prefix(set)?.strip_prefix('-')?;
    // Only the canonical form: neither `+1` nor `01`.
    rest.parse::<i32>().ok().filter(|at| *at >= 0 && at.to_string() == rest)
}

/// Returns the revision of a pod.
pub(super) fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(history::HASH).map(String::as_str)
}

/// Returns the name of the PVC created from `template` for the pod at `ordinal`.
pub(super) fn pvc_name(set: &StatefulSet, template: &str, ordinal: i32) -> String {
    format!("{template}-{}-{ordinal}", set.metadata.name.as_deref().unwrap_or_default())
}

impl Work<'_> {
    /// Builds the pod of an ordinal: of the current revision where the update does not apply.
    pub(super) fn build_pod(&self, ordinal: i32) -> Result<Pod> {
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let held = match rolling {
            Some(_) => self.partition(),
            None => {
                let status = self.set.status.as_ref();
                status.and_then(|status| status.current_replicas).unwrap_or(0)
            }
        };
        let outdated = !self.on_delete() && ordinal < self.start().saturating_add(held);
        let revision = if outdated { &self.current } else { &self.history.latest };
        let template = history::template(revision).unwrap_or_else(|| self.spec.template.clone());
        let mut pod = pods::from_template(&template, self.set)?;
        let name = format!("{}-{ordinal}", self.cx.key().name());
        let labels = pod.metadata.labels.get_or_insert_default();
        for (label, value) in [
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", ordinal.to_string()),
            (history::HASH, history::name(revision).to_owned()),
        ] {
            labels.insert(label.to_owned(), value);
        }
        pod.metadata.name = Some(name.clone());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(name);
        spec.subdomain = self.spec.service_name.clone().filter(|name| !name.is_empty());
        let volumes = spec.volumes.take().unwrap_or_default();
        let mut mounted = Vec::new();
        for template in self.spec.volume_claim_templates.iter().flatten() {
            let name = template.metadata.name.clone().unwrap_or_default();
            let claim_name = pvc_name(self.set, &name, ordinal);
            let source = PersistentVolumeClaimVolumeSource { claim_name, read_only: None };
            let persistent_volume_claim = Some(source);
            mounted.push(Volume { name, persistent_volume_claim, ..Volume::default() });
        }
        let own = |volume: &Volume| !mounted.iter().any(|mount| mount.name == volume.name);
        let rest: Vec<Volume> = volumes.into_iter().filter(own).collect();
        mounted.extend(rest);
        spec.volumes = Some(mounted).filter(|volumes| !volumes.is_empty());
        Ok(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_names_have_an_ordinal() {
        let of = |name: &str| {
            let mut pod = Pod::default();
            pod.metadata.name = Some(name.to_owned());
            ordinal("db", &pod)
        };
        assert_eq!(of("db-0"), Some(0));
        assert_eq!(of("db-12"), Some(12));
        for other in ["db", "db-", "db-x", "db-01", "db-+1", "db--1", "other-0"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
