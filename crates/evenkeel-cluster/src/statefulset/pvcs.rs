//! PersistentVolumeClaims (PVCs) of a StatefulSet: creation from templates, and retention.

use evenkeel::{Key, Result, owner};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::Work;
use super::pod::{ordinal, pvc_name};

impl Work<'_> {
    fn pvc_keys(&self, pod: &Pod) -> Vec<(Key, &PersistentVolumeClaim)> {
        let Some(at) = ordinal(self.cx.key().name(), pod) else { return Vec::new() };
        let templates = self.spec.volume_claim_templates.iter().flatten();
        let keyed = templates.map(|template| {
            let name = template.metadata.name.as_deref().unwrap_or_default();
            (self.cx.key().sibling(&pvc_name(self.set, name, at)), template)
        });
        keyed.collect()
    }

    /// Creates the missing PVCs of a pod. Returns false while one is being deleted, since the pod
    /// would wait for storage that is about to be removed.
    pub(super) async fn create_missing_pvcs(&self, pod: &Pod) -> Result<bool> {
        for (key, template) in self.pvc_keys(pod) {
            if let Some(present) = self.cx.client().get::<PersistentVolumeClaim>(&key).await? {
                if present.metadata.deletion_timestamp.is_some() {
                    return Ok(false);
                }
                continue;
            }
            let mut claim = template.clone();
            claim.status = None;
            claim.metadata.name = Some(key.name().to_owned());
            claim.metadata.namespace = key.namespace().map(str::to_owned);
            let labels = claim.metadata.labels.get_or_insert_default();
            labels.extend(self.spec.selector.match_labels.clone().unwrap_or_default());
            if self.retention_policy().1 {
                owner::set_controller_reference(self.set, &mut claim)?;
            }
            match self.cx.client().create(&claim).await {
                Err(error) if !error.is_already_exists() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Returns whether PVCs are deleted on scale-down, and on deletion of the StatefulSet.
    fn retention_policy(&self) -> (bool, bool) {
        let retention_policy = self.spec.persistent_volume_claim_retention_policy.as_ref();
        let is_delete = |value: Option<&String>| value.is_some_and(|value| value == "Delete");
        (
            is_delete(
                retention_policy.and_then(|retention_policy| retention_policy.when_scaled.as_ref()),
            ),
            is_delete(
                retention_policy
                    .and_then(|retention_policy| retention_policy.when_deleted.as_ref()),
            ),
        )
    }

    /// Sets the owner of a pod's PVCs by the retention policy: the StatefulSet, the pod if it is
    /// condemned, or none.
    pub(super) async fn update_pvc_owners(&self, pod: &Pod, condemned: bool) -> Result<()> {
        let (scaled, deleted) = self.retention_policy();
        for (key, _) in self.pvc_keys(pod) {
            let Some(claim) = self.cx.client().get::<PersistentVolumeClaim>(&key).await? else {
                continue;
            };
            let mut wanted: PersistentVolumeClaim = (*claim).clone();
            owner::remove_owner_reference(self.set, &mut wanted);
            owner::remove_owner_reference(pod, &mut wanted);
            let result = match (scaled && condemned, deleted) {
                (true, _) => owner::set_controller_reference(pod, &mut wanted),
                (false, true) => owner::set_controller_reference(self.set, &mut wanted),
                (false, false) => Ok(()),
            };
            // A PVC with another controller is not changed.
            if result.is_err() {
                continue;
            }
            let owners = |claim: &PersistentVolumeClaim| {
                claim.metadata.owner_references.clone().unwrap_or_default()
            };
            if owners(&claim) != owners(&wanted) {
                self.cx.client().update(&wanted).await?;
            }
        }
        Ok(())
    }
}
