//! The template history of a StatefulSet or DaemonSet, stored as ControllerRevisions.
//!
//! The data of a revision is a strategic merge patch that restores the template;
//! `kubectl rollout undo` applies it. Restoring a template makes its revision the latest again.

use std::sync::Arc;

use evenkeel::client::Patch;
use evenkeel::{Context, Key, Object, Result, owner};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::Selector;
use serde_json::{Value, json};

use crate::versions::{field, revision_data, revision_number};
use crate::{controller_ref, hash};

/// The label of revisions and pods with the hash of their template.
pub(crate) const HASH: &str = "controller-revision-hash";

/// All revisions of one owner.
pub(crate) struct History {
    /// By revision number.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// The revision of the current template.
    pub(crate) latest: Arc<ControllerRevision>,
    /// How often a hash was taken by another template.
    pub(crate) collisions: i32,
}

impl History {
    /// Reads the history and makes the revision of `template` the latest.
    pub(crate) async fn sync<O: Object>(
        cx: &Context<O>,
        owner: &O,
        selector: &Selector,
        template: &PodTemplateSpec,
        mut collisions: i32,
    ) -> Result<Self> {
        let mut all = controller_ref::claimed::<_, ControllerRevision>(cx, owner, selector).await?;
        all.sort_by_key(|revision| (revision.revision, revision.metadata.name.clone()));
        let data = patch(template);
        let next = all.last().map_or(0, |last| revision_number(last)) + 1;
        let same = |revision: &&Arc<ControllerRevision>| {
            revision_data(revision).is_some_and(|present| present.0 == data)
        };
        let latest = match all.iter().rev().find(same) {
            Some(present) if revision_number(present) + 1 == next => present.clone(),
            Some(present) => {
                let patch = Patch::Merge(json!({
                    "metadata": {"uid": present.metadata.uid},
                    "revision": next,
                }));
                let raised =
                    cx.client().patch::<ControllerRevision>(&Key::of(&**present), &patch).await?;
                all.retain(|revision| revision.metadata.uid != raised.metadata.uid);
                all.push(raised.clone());
                raised
            }
            None => {
                let made = create(cx, owner, template, &data, next, &mut collisions).await?;
                all.push(made.clone());
                made
            }
        };
        Ok(Self { all, latest, collisions })
    }

    /// Returns the revision of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.all.iter().find(|revision| revision.metadata.name.as_deref() == Some(name))
    }

    /// Deletes the oldest revisions beyond `limit` that are not `live`.
    pub(crate) async fn truncate<O: Object>(
        &self,
        cx: &Context<O>,
        limit: i32,
        live: impl Fn(&ControllerRevision) -> bool,
    ) -> Result<()> {
        let dead: Vec<_> = self.all.iter().filter(|revision| !live(revision)).collect();
        let beyond = dead.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for revision in dead.into_iter().take(beyond) {
            cx.client().delete(&**revision).await?;
        }
        Ok(())
    }
}

/// Returns the name of a revision.
pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the hash label of a revision.
pub(crate) fn hash_of(revision: &ControllerRevision) -> &str {
    let labels = revision.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(HASH)).map_or("", String::as_str)
}

/// Returns the template of a revision.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision_data(revision)?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

fn patch(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Value::Object(fields) = &mut template {
        fields.insert("$patch".to_owned(), "replace".into());
    }
    json!({"spec": {"template": template}})
}

async fn create<O: Object>(
    cx: &Context<O>,
    owner: &O,
    template: &PodTemplateSpec,
    data: &Value,
    number: i64,
    collisions: &mut i32,
) -> Result<Arc<ControllerRevision>> {
    loop {
        let hash = hash::of_value(data, Some(*collisions));
        let meta = template.metadata.as_ref();
        let mut labels = meta.and_then(|meta| meta.labels.clone()).unwrap_or_default();
        labels.insert(HASH.to_owned(), hash.clone());
        let mut revision = ControllerRevision {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", cx.key().name())),
                namespace: cx.key().namespace().map(str::to_owned),
                labels: Some(labels),
                annotations: owner.meta().annotations.clone(),
                ..ObjectMeta::default()
            },
            data: field(RawExtension(data.clone())),
            revision: field(number),
        };
        owner::set_controller_reference(owner, &mut revision)?;
        match cx.client().create(&revision).await {
            Err(error) if error.is_already_exists() => {
                let present =
                    cx.client().live().get::<ControllerRevision>(&Key::of(&revision)).await?;
                let ours = present.filter(|present| {
                    owner::is_controller(owner, present) && present.data == revision.data
                });
                if let Some(ours) = ours {
                    return Ok(Arc::new(ours));
                }
                *collisions += 1;
            }
            outcome => return Ok(outcome?),
        }
    }
}
