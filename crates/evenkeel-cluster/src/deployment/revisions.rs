//! The new ReplicaSet, revision numbers and history.
//!
//! `kubectl rollout undo` copies the template of an old ReplicaSet back into the Deployment. That
//! ReplicaSet becomes the new one again and gets the next revision number.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::client::Patch;
use evenkeel::{Key, Result, owner};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::{Rollout, limits};
use crate::hash;
use crate::replicaset::{is_terminating, replicas};
use crate::versions::{Workload, field};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";

/// Annotations that are not copied between Deployment and ReplicaSet.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// The maximum length of the revision history annotation, as upstream.
const HISTORY_MAX: usize = 2000;

pub(super) fn annotation<'a>(set: &'a ReplicaSet, name: &str) -> Option<&'a str> {
    set.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(super) fn revision(set: &ReplicaSet) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The creation order of ReplicaSets.
pub(super) fn age(set: &ReplicaSet) -> (Option<jiff::Timestamp>, Option<String>) {
    (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.metadata.name.clone())
}

/// Whether two templates are equal except for the `pod-template-hash` label. Mirrors
/// `EqualIgnoreHash`.
fn same_template(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    let plain = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        let meta = template.metadata.get_or_insert_default();
        if let Some(labels) = &mut meta.labels {
            labels.remove(HASH);
        }
        serde_json::to_value(template).ok()
    };
    plain(one) == plain(other)
}

impl Rollout<'_> {
    /// Returns the ReplicaSet of the current template, if it exists, and all others, oldest first.
    pub(super) fn new_and_old(&self) -> (Option<Arc<ReplicaSet>>, Vec<Arc<ReplicaSet>>) {
        let mut sets = self.sets.clone();
        sets.sort_by_key(|set| age(set));
        let wanted = &self.spec.template;
        let is_new = |set: &Arc<ReplicaSet>| {
            let template = set.spec().and_then(|spec| spec.template.as_ref());
            template.is_some_and(|template| same_template(template, wanted))
        };
        // If there are several, the oldest has most of the pods.
        let new = sets.iter().find(|set| is_new(set)).cloned();
        let uid = new.as_ref().map(|set| set.metadata.uid.clone());
        sets.retain(|set| Some(&set.metadata.uid) != uid.as_ref());
        (new, sets)
    }

    /// Like [`new_and_old`](Self::new_and_old), with revisions and annotations updated, and the new
    /// ReplicaSet created if it is missing and `create` is set.
    pub(super) async fn sync_replica_sets(
        &mut self,
        create: bool,
    ) -> Result<(Option<Arc<ReplicaSet>>, Vec<Arc<ReplicaSet>>)> {
        let (new, old) = self.new_and_old();
        let next = old.iter().map(|set| revision(set)).max().unwrap_or(0) + 1;
        let new = match new {
            Some(new) => Some(self.refresh(new, next).await?),
            None if create => self.create(next).await?,
            None => None,
        };
        if let Some(new) = &new {
            self.store(new);
            self.sync_revision(new).await?;
        }
        Ok((new, old))
    }

    /// Sets the revision and annotations of the new ReplicaSet on an existing one.
    async fn refresh(&self, set: Arc<ReplicaSet>, next: i64) -> Result<Arc<ReplicaSet>> {
        let (mut annotations, mut changed) = self.inherited_annotations(&set);
        changed |= set_revision(&mut annotations, next);
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let present = set.spec().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        if !changed && min_ready == present {
            return Ok(set);
        }
        let patch = Patch::Merge(json!({
            "metadata": {"uid": set.metadata.uid, "annotations": annotations},
            "spec": {"minReadySeconds": min_ready},
        }));
        Ok(self.cx.client().patch::<ReplicaSet>(&Key::of(&*set), &patch).await?)
    }

    /// Returns a ReplicaSet's annotations with those of the Deployment added, and whether any
    /// changed.
    fn inherited_annotations(&self, set: &ReplicaSet) -> (BTreeMap<String, String>, bool) {
        let mut annotations = set.metadata.annotations.clone().unwrap_or_default();
        let mut changed = false;
        for (name, value) in self.deployment.metadata.annotations.iter().flatten() {
            if !NOT_COPIED.contains(&name.as_str()) && annotations.get(name) != Some(value) {
                annotations.insert(name.clone(), value.clone());
                changed = true;
            }
        }
        (annotations, changed)
    }

    async fn create(&mut self, next: i64) -> Result<Option<Arc<ReplicaSet>>> {
        let mut template = self.spec.template.clone();
        let hash = hash::of_template(&template, self.status.collision_count);
        let meta = template.metadata.get_or_insert_default();
        meta.labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", self.cx.key().name())),
                namespace: self.cx.key().namespace().map(str::to_owned),
                labels: meta.labels.clone(),
                ..ObjectMeta::default()
            },
            spec: field(ReplicaSetSpec {
                replicas: Some(self.new_replicas(0)),
                min_ready_seconds: self.spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        let (mut annotations, _) = self.inherited_annotations(&set);
        set_revision(&mut annotations, next);
        annotations.extend(self.replica_annotations());
        set.metadata.annotations = Some(annotations);
        owner::set_controller_reference(&*self.deployment, &mut set)?;
        match self.cx.client().create(&set).await {
            Ok(set) => {
                let name = set.metadata.name.clone().unwrap_or_default();
                let message = format!("Created new replica set \"{name}\"");
                self.set_progress("True", "NewReplicaSetCreated", message);
                self.record_scaling(&set, 0, replicas(&set));
                Ok(Some(set))
            }
            Err(error) if error.is_already_exists() => self.resolve_collision(&set, &error).await,
            Err(error) if error.is_forbidden() && is_terminating(&error) => Ok(None),
            Err(error) => {
                let name = set.metadata.name.as_deref().unwrap_or_default();
                let message = format!("Failed to create new replica set \"{name}\": {error}");
                self.set_progress("False", "ReplicaSetCreateError", message);
                let _ = self.update_status(None).await?;
                Err(error.into())
            }
        }
    }

    /// Handles a name collision: with our own ReplicaSet, if the cache was behind, or with one
    /// whose template has the same hash.
    async fn resolve_collision(
        &mut self,
        set: &ReplicaSet,
        error: &evenkeel::client::Error,
    ) -> Result<Option<Arc<ReplicaSet>>> {
        let present = self.cx.client().live().get::<ReplicaSet>(&Key::of(set)).await?;
        let ours = present.filter(|present| {
            let template = present.spec().and_then(|spec| spec.template.as_ref());
            owner::is_controller(&*self.deployment, present)
                && template.is_some_and(|template| same_template(template, &self.spec.template))
        });
        if let Some(ours) = ours {
            return Ok(Some(Arc::new(ours)));
        }
        self.status.collision_count = Some(self.status.collision_count.unwrap_or(0) + 1);
        let _ = self.update_status(None).await?;
        Err(error.to_string().into())
    }

    /// Returns the annotations that record the Deployment's size, so that later scaling can be
    /// detected.
    pub(super) fn replica_annotations(&self) -> [(String, String); 2] {
        let most = self.replicas().saturating_add(self.max_surge());
        [(DESIRED.to_owned(), self.replicas().to_string()), (MAX.to_owned(), most.to_string())]
    }

    /// Sets the revision annotation of the Deployment.
    async fn sync_revision(&mut self, new: &ReplicaSet) -> Result<()> {
        let number = annotation(new, REVISION);
        let annotations = self.deployment.metadata.annotations.as_ref();
        if number == annotations.and_then(|all| all.get(REVISION)).map(String::as_str) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {
            "uid": self.deployment.metadata.uid,
            "annotations": {REVISION: number},
        }}));
        // Through the status subresource, as upstream: this is not a change of the desired state.
        let status = self.cx.client().subresource::<Deployment>(self.cx.key(), "status");
        self.deployment = status.patch(&patch).await?;
        Ok(())
    }

    /// Deletes old ReplicaSets beyond the history limit, the oldest first.
    pub(super) async fn clean_up(&self, old: &[Arc<ReplicaSet>]) -> Result<()> {
        let Some(limit) = self.spec.revision_history_limit.filter(|&limit| limit != i32::MAX)
        else {
            return Ok(());
        };
        let mut old: Vec<_> =
            old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        let beyond = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by_key(|set| (revision(set), age(set)));
        for set in old.into_iter().take(beyond) {
            let status = set.status.clone().unwrap_or_default();
            let observed = status.observed_generation >= set.metadata.generation;
            if status.replicas == 0 && replicas(set) == 0 && observed {
                self.cx.client().delete(&**set).await?;
            }
        }
        Ok(())
    }

    /// Scales a ReplicaSet and records the Deployment's size in it. Returns whether it was scaled.
    pub(super) async fn scale_to(&mut self, set: &Arc<ReplicaSet>, size: i32) -> Result<bool> {
        let wanted = self.replica_annotations();
        let current =
            wanted.iter().all(|(name, value)| annotation(set, name) == Some(value.as_str()));
        let scaled = replicas(set) != size;
        if !scaled && current {
            return Ok(false);
        }
        let patch = Patch::Merge(json!({
            "metadata": {
                "uid": set.metadata.uid,
                "annotations": BTreeMap::from(wanted),
            },
            "spec": {"replicas": size},
        }));
        let written = self.cx.client().patch::<ReplicaSet>(&Key::of(&**set), &patch).await?;
        self.store(&written);
        if scaled {
            self.record_scaling(set, replicas(set), size);
        }
        Ok(scaled)
    }

    fn record_scaling(&self, set: &ReplicaSet, from: i32, to: i32) {
        let way = if to > from { "up" } else { "down" };
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Scaled {way} replica set {name} from {from} to {to}");
        self.cx.event("ScalingReplicaSet", &message);
    }

    /// Whether the Deployment's size differs from the size recorded in its active ReplicaSets.
    /// Mirrors `isScalingEvent`.
    pub(super) fn is_scaling(&self) -> bool {
        let size = self.replicas().to_string();
        self.sets
            .iter()
            .filter(|set| replicas(set) > 0)
            .any(|set| annotation(set, DESIRED).is_some_and(|desired| desired != size))
    }

    /// Returns the sum of the desired replicas.
    pub(super) fn desired_replicas(&self) -> i32 {
        limits::desired_replicas(self.sets.iter().map(|set| &**set))
    }
}

/// Sets the revision `next` unless the present one is higher. The former revision is added to the
/// history. Returns whether anything changed.
fn set_revision(annotations: &mut BTreeMap<String, String>, next: i64) -> bool {
    let former = annotations.get(REVISION).cloned();
    let present = former.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    if present >= next {
        return false;
    }
    annotations.insert(REVISION.to_owned(), next.to_string());
    if let Some(former) = former.filter(|_| present > 0) {
        let history = annotations.entry(HISTORY.to_owned()).or_default();
        if !history.is_empty() {
            history.push(',');
        }
        history.push_str(&former);
        while history.len() > HISTORY_MAX
            && let Some(comma) = history.find(',')
        {
            history.drain(..=comma);
        }
    }
    true
}
