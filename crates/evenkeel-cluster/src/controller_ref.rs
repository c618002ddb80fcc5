//! Controller references: adoption and release of dependents.
//!
//! A controller keeps dependents that its selector matches, releases those that no longer match,
//! and adopts orphans that match, as upstream's `ControllerRefManager` does. Ownership is by uid.
//! Upstream keeps expectations for writes whose events have not arrived yet; here the cache reads
//! this process's own writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::cache::{DeclareError, Entry, Meta};
use evenkeel::client::Patch;
use evenkeel::predicate::Predicate;
use evenkeel::{Context, Key, Kind, Manager, MapContext, Object, Result, Uid, Watch, owner};
use k8s_openapi::api::apps::v1::{ControllerRevision, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;
use serde_json::json;

/// Objects without a controller, by namespace.
const ORPHANS: &str = "orphans";

/// Pods by the node they are bound to.
pub(crate) const BY_NODE: &str = "node";

/// Adds the indexes that the workload controllers use.
pub(crate) fn add_indexes(manager: &Manager) -> Result<(), DeclareError> {
    let cache = manager.cache();
    let kinds = [Kind::of::<Pod>(), Kind::of::<ReplicaSet>(), Kind::of::<ControllerRevision>()];
    for kind in kinds {
        cache.index_meta(&kind, ORPHANS, |meta| match meta.controller() {
            Some(_) => Vec::new(),
            None => meta.key().namespace().map(str::to_owned).into_iter().collect(),
        })?;
    }
    cache.index_as::<BoundPod>(&Kind::of::<Pod>(), BY_NODE, |pod| {
        pod.spec.node_name.clone().into_iter().collect()
    })
}

/// The part of a pod with its node; decoded for every change of every pod.
#[derive(Default, Deserialize)]
struct BoundPod {
    #[serde(default)]
    spec: BoundSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BoundSpec {
    node_name: Option<String>,
}

/// Returns the node that a cached pod is bound to.
pub(crate) fn node_of(pod: &Entry) -> Option<String> {
    serde_json::from_slice::<BoundPod>(pod.json()).ok()?.spec.node_name
}

/// Reconciles every `O` of the namespace when an orphaned `C` appears or changes its labels or
/// owners, since an `O` may adopt it.
pub(crate) fn watch_orphans<C: Object, O: Object>() -> Watch {
    let changed = Predicate::new(|event| match (event.old(), event.new()) {
        (Some(old), Some(new)) => {
            let (old, new) = (old.meta(), new.meta());
            old.owners() != new.owners() || !old.labels().eq(new.labels())
        }
        (_, new) => new.is_some(),
    });
    let map = |meta: &Meta, cx: &MapContext| {
        if meta.controller().is_some() {
            return Vec::new();
        }
        cx.select::<O>().in_namespace(meta.key().namespace().unwrap_or_default()).keys()
    };
    Watch::mapped_metadata::<C>(map).filter(changed)
}

/// Parses a label selector. Returns `None` for a selector that is empty or invalid, so that no
/// workload adopts all pods of its namespace.
pub(crate) fn selector(selector: &LabelSelector) -> Option<Selector> {
    Selector::try_from(selector.clone()).ok().filter(|selector| !selector.selects_all())
}

/// Whether the labels match.
pub(crate) fn matches(selector: &Selector, meta: &Meta) -> bool {
    let labels: BTreeMap<String, String> =
        meta.labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    selector.matches(&labels)
}

/// Releases the dependents that `selector` no longer matches, adopts orphans that it matches, and
/// returns the dependents of `owner`. Only adopted objects are decoded.
pub(crate) async fn claim<O: Object, C: Object>(
    cx: &Context<O>,
    owner: &O,
    selector: &Selector,
) -> Result<Vec<Arc<Entry>>> {
    claim_with::<O, C>(cx, owner, selector, None).await
}

async fn claim_with<O: Object, C: Object>(
    cx: &Context<O>,
    owner: &O,
    selector: &Selector,
    finalizer: Option<&str>,
) -> Result<Vec<Arc<Entry>>> {
    let meta = owner.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let uid = Uid::new(meta.uid.as_deref().unwrap_or_default());
    let deleting = meta.deletion_timestamp.is_some();
    let mut claimed = Vec::new();
    for entry in cx.client().list::<C>().in_namespace(namespace).owned_by(&uid).entries().await? {
        if entry.meta().controller().is_none_or(|controller| controller.uid != uid) {
            continue;
        }
        if matches(selector, entry.meta()) {
            claimed.push(entry);
        } else if !deleting {
            release::<O, C>(cx, &entry, &uid, finalizer).await?;
        }
    }
    if deleting {
        return Ok(claimed);
    }
    let orphans = cx.client().list::<C>().in_namespace(namespace).index(ORPHANS, namespace);
    let orphans = orphans.matching(selector.clone()).entries().await?;
    let mut checked = false;
    for entry in orphans.into_iter().filter(|entry| !entry.meta().is_deleting()) {
        // The cache may not have the deletion of the owner yet, and an adopted object would be
        // garbage-collected with it.
        if !std::mem::replace(&mut checked, true) && !owner_exists(cx, owner).await? {
            break;
        }
        let child = entry.decode::<C>()?;
        if adopt(cx, owner, &*child, finalizer).await? {
            claimed.extend(cx.client().peek::<C>(&Key::of(&*child)).await?);
        }
    }
    Ok(claimed)
}

/// Makes `owner` the controller of `child` and adds the finalizer in the same write, so that no
/// adopted object lacks it. Returns false if `child` no longer exists.
async fn adopt<O: Object, C: Object>(
    cx: &Context<O>,
    owner: &O,
    child: &C,
    finalizer: Option<&str>,
) -> Result<bool> {
    let mut owned = child.clone();
    owner::set_controller_reference(owner, &mut owned)?;
    let references = owned.meta().owner_references.iter().flatten();
    let added = references.filter(|reference| Some(&reference.uid) == owner.meta().uid.as_ref());
    let mut patch = json!({"metadata": {
        "uid": child.meta().uid,
        "ownerReferences": added.collect::<Vec<_>>(),
    }});
    if let Some(finalizer) = finalizer {
        patch["metadata"]["finalizers"] = json!([finalizer]);
    }
    match cx.client().patch::<C>(&Key::of(child), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the owner reference to `owner`, and in the same write the finalizer that only `owner`
/// would have removed.
async fn release<O: Object, C: Object>(
    cx: &Context<O>,
    entry: &Entry,
    owner: &Uid,
    finalizer: Option<&str>,
) -> Result<()> {
    let mut patch = json!({"metadata": {
        "uid": entry.meta().uid().to_string(),
        "ownerReferences": [{"$patch": "delete", "uid": owner.to_string()}],
    }});
    if let Some(finalizer) = finalizer {
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    match cx.client().patch::<C>(entry.meta().key(), &Patch::Strategic(patch)).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

async fn owner_exists<O: Object>(cx: &Context<O>, owner: &O) -> Result<bool> {
    let live = cx.client().live().get::<O>(cx.key()).await?;
    Ok(live.is_some_and(|live| {
        live.meta().uid == owner.meta().uid && live.meta().deletion_timestamp.is_none()
    }))
}

/// Like [`claim`], decoded; for types of which an owner has few.
pub(crate) async fn claimed<O: Object, C: Object>(
    cx: &Context<O>,
    owner: &O,
    selector: &Selector,
) -> Result<Vec<Arc<C>>> {
    decoded(cx, &claim_with::<O, C>(cx, owner, selector, None).await?)
}

/// Like [`claimed`], for an owner with a finalizer on its dependents: adoption adds it, release
/// removes it.
pub(crate) async fn claimed_with_finalizer<O: Object, C: Object>(
    cx: &Context<O>,
    owner: &O,
    selector: &Selector,
    finalizer: &str,
) -> Result<Vec<Arc<C>>> {
    decoded(cx, &claim_with::<O, C>(cx, owner, selector, Some(finalizer)).await?)
}

fn decoded<O: Object, C: Object>(cx: &Context<O>, entries: &[Arc<Entry>]) -> Result<Vec<Arc<C>>> {
    let cache = cx.client().cache();
    entries.iter().map(|entry| Ok(cache.typed::<C>(entry)?)).collect()
}
