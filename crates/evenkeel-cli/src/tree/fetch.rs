//! Reads an object and everything below it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use evenkeel::kube;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{ApiCapabilities, ApiResource, Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::target::Connection;

/// An object and the objects that it owns.
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) object: DynamicObject,
    /// By kind and name.
    pub(super) children: Vec<Node>,
}

impl Node {
    /// Returns the tree with the facts that [`render`](super::render) shows.
    pub(super) fn to_json(&self) -> Value {
        let meta = &self.object.metadata;
        json!({
            "apiVersion": self.object.types.as_ref().map(|types| &types.api_version),
            "kind": self.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "deletionTimestamp": meta.deletion_timestamp,
            "finalizers": meta.finalizers,
            "conditions": self.object.data.pointer("/status/conditions"),
            "blockedBy": self.blockers(),
            "children": self.children.iter().map(Node::to_json).collect::<Vec<_>>(),
        })
    }

    /// Returns why an object that is being deleted still exists.
    pub(super) fn blockers(&self) -> Vec<String> {
        let meta = &self.object.metadata;
        if meta.deletion_timestamp.is_none() {
            return Vec::new();
        }
        let mut blockers = Vec::new();
        for finalizer in meta.finalizers.iter().flatten() {
            if finalizer != "foregroundDeletion" {
                blockers.push(format!("finalizer {finalizer}"));
                continue;
            }
            let uid = meta.uid.as_deref();
            let blocks = |child: &&Node| {
                let owners = child.object.metadata.owner_references.iter().flatten();
                owners.into_iter().any(|owner| {
                    Some(&*owner.uid) == uid && owner.block_owner_deletion == Some(true)
                })
            };
            let children = self.children.iter().filter(blocks);
            blockers.extend(children.map(|child| {
                let name = child.object.metadata.name.as_deref().unwrap_or_default();
                format!("{} {name}", child.kind)
            }));
        }
        blockers
    }
}

/// Reads the object `KIND/NAME` and everything below it.
pub(super) async fn tree(connection: &Connection, object: &str) -> anyhow::Result<Node> {
    let Some((kind, name)) = object.split_once('/') else {
        bail!("invalid object {object:?}: expected KIND/NAME, for example deployment/web");
    };
    let client = &connection.client;
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.context("cannot discover the resources of the cluster")?;
    let resources: Vec<_> = discovery
        .groups_alphabetical()
        .into_iter()
        .flat_map(|group| group.recommended_resources())
        .collect();
    let found = match resources.iter().find(|(it, _)| is_called(it, kind)) {
        None => by_short_name(client, &resources, kind).await?,
        found => found,
    };
    let Some((resource, capabilities)) = found else {
        bail!("the server has no resource type {kind:?}");
    };
    let api = api(client, resource, capabilities, Some(&connection.namespace));
    let root = api.get(name).await.with_context(|| format!("cannot get {object}"))?;
    let scope = root.metadata.namespace.clone();
    let mut owned = owned_objects(client, &resources, scope.as_deref()).await?;
    Ok(assemble(resource.kind.clone(), root, &mut owned))
}

/// Whether kubectl would accept `name` for the resource, short names aside.
fn is_called(resource: &ApiResource, name: &str) -> bool {
    let (name, group) = match name.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (name, None),
    };
    group.is_none_or(|group| group == resource.group)
        && (resource.plural.eq_ignore_ascii_case(name) || resource.kind.eq_ignore_ascii_case(name))
}

/// Finds a resource by a short name such as `deploy`, which only the lists of resources have.
async fn by_short_name<'a>(
    client: &kube::Client,
    resources: &'a [(ApiResource, ApiCapabilities)],
    name: &str,
) -> anyhow::Result<Option<&'a (ApiResource, ApiCapabilities)>> {
    let versions: BTreeSet<_> = resources.iter().map(|(it, _)| &*it.api_version).collect();
    for version in versions {
        let list = match version {
            "v1" => client.list_core_api_resources(version).await,
            _ => client.list_api_group_resources(version).await,
        };
        let list = list.with_context(|| format!("cannot discover the resources of {version}"))?;
        let called = list.resources.iter().find(|resource| {
            resource.short_names.iter().flatten().any(|it| it.eq_ignore_ascii_case(name))
        });
        if let Some(called) = called {
            return Ok(resources
                .iter()
                .find(|(it, _)| it.api_version == version && it.plural == called.name));
        }
    }
    Ok(None)
}

fn api(
    client: &kube::Client,
    resource: &ApiResource,
    capabilities: &ApiCapabilities,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match (&capabilities.scope, namespace) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, resource)
        }
        _ => Api::all_with(client.clone(), resource),
    }
}

/// Returns the objects that have owners, by the uid of each owner. An object in a namespace can only
/// own objects in it.
async fn owned_objects(
    client: &kube::Client,
    resources: &[(ApiResource, ApiCapabilities)],
    namespace: Option<&str>,
) -> anyhow::Result<BTreeMap<String, Vec<(String, DynamicObject)>>> {
    let mut owned = BTreeMap::<String, Vec<_>>::new();
    for (resource, capabilities) in resources {
        let relevant = capabilities.supports_operation(verbs::LIST)
            && (namespace.is_none() || capabilities.scope == Scope::Namespaced)
            // Both groups serve the same events, which have no owners.
            && resource.kind != "Event";
        if !relevant {
            continue;
        }
        let api = api(client, resource, capabilities, namespace);
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            // What the user may not read is not shown.
            Err(kube::Error::Api(status)) if [403, 404, 405].contains(&status.code) => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot list {}", resource.plural));
            }
        };
        for mut object in list {
            object.types.get_or_insert_with(|| kube::api::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            for owner in object.metadata.owner_references.iter().flatten() {
                let entry = owned.entry(owner.uid.clone()).or_default();
                entry.push((resource.kind.clone(), object.clone()));
            }
        }
    }
    Ok(owned)
}

/// Moves the objects below `object` out of `owned`. An object with two owners in the tree is shown
/// below the first, so a cycle of owners ends.
fn assemble(
    kind: String,
    object: DynamicObject,
    owned: &mut BTreeMap<String, Vec<(String, DynamicObject)>>,
) -> Node {
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let mut children = owned.remove(&uid).unwrap_or_default();
    children.sort_by(|(a, x), (b, y)| (a, &x.metadata.name).cmp(&(b, &y.metadata.name)));
    let children = children.into_iter().map(|(kind, child)| assemble(kind, child, owned)).collect();
    Node { kind, object, children }
}
