//! Which objects are related to a node: its pods, what they refer to, and what names the node.
//!
//! Only the pods of each node are indexed. What they refer to is read from them when a kubelet
//! requests it: a node has few pods, and most writes to pods change no reference.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use evenkeel_kinds::references;
use parking_lot::RwLock;
use serde_json::Value;

use crate::storage::{Key, Store};

/// The pods that are bound to each node. Clones share one index.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodsByNode(Arc<RwLock<HashMap<Box<str>, HashSet<Key>>>>);

impl PodsByNode {
    /// Records that a pod is bound to a node.
    pub(crate) fn add(&self, node: &str, pod: &Key) {
        let known = self.0.read().get(node).is_some_and(|pods| pods.contains(pod));
        if !known {
            self.0.write().entry(node.into()).or_default().insert(pod.clone());
        }
    }

    /// Records that a pod is deleted.
    pub(crate) fn remove(&self, node: &str, pod: &Key) {
        let mut nodes = self.0.write();
        let Some(pods) = nodes.get_mut(node) else { return };
        pods.remove(pod);
        if pods.is_empty() {
            nodes.remove(node);
        }
    }

    fn of(&self, node: &str) -> Vec<Key> {
        self.0.read().get(node).into_iter().flatten().cloned().collect()
    }
}

/// The kind of an object that may be related to a node.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Related {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    Volume,
    ServiceAccount,
    ResourceClaim,
    VolumeAttachment,
    ResourceSlice,
}

pub(super) struct Relations {
    store: Store,
    pods: PodsByNode,
}

impl Relations {
    pub(super) fn new(store: Store, pods: PodsByNode) -> Self {
        Self { store, pods }
    }

    /// Returns whether the object is related to the node.
    pub(super) fn has(&self, node: &str, kind: Related, namespace: &str, name: &str) -> bool {
        let names_node = |table: &str| {
            let object = self.object(table, &Key::new("", name));
            object.is_some_and(|object| object["spec"]["nodeName"] == node)
        };
        match kind {
            Related::Pod => self.pod(node, &Key::new(namespace, name)).is_some(),
            Related::Secret => {
                self.any_pod(node, namespace, |pod| references::secrets_of_pod(pod).contains(&name))
                    || self.is_secret_of_volume(node, namespace, name)
            }
            Related::ConfigMap => self.any_pod(node, namespace, |pod| {
                references::config_maps_of_pod(pod).contains(&name)
            }),
            Related::Claim => self.uses_claim(node, namespace, name),
            Related::Volume => {
                let volume = self.object("persistentvolumes", &Key::new("", name));
                volume.is_some_and(|volume| {
                    let claim = &volume["spec"]["claimRef"];
                    let text = |field: &str| claim[field].as_str().unwrap_or_default();
                    self.uses_claim(node, text("namespace"), text("name"))
                })
            }
            Related::ServiceAccount => {
                self.any_pod(node, namespace, |pod| pod["spec"]["serviceAccountName"] == name)
            }
            Related::ResourceClaim => self.any_pod(node, namespace, |pod| {
                references::resource_claims_of_pod(pod).contains(&name)
            }),
            Related::VolumeAttachment => names_node("storage.k8s.io/volumeattachments"),
            Related::ResourceSlice => names_node("resource.k8s.io/resourceslices"),
        }
    }

    fn uses_claim(&self, node: &str, namespace: &str, name: &str) -> bool {
        self.any_pod(node, namespace, |pod| {
            references::claims_of_pod(pod).iter().any(|claim| claim == name)
        })
    }

    /// Returns whether a volume of one of the node's pods uses the Secret. It may be in another
    /// namespace than the pod.
    fn is_secret_of_volume(&self, node: &str, namespace: &str, name: &str) -> bool {
        let uses =
            |volume: &Value| references::secrets_of_volume(volume).contains(&(namespace, name));
        self.pods.of(node).iter().any(|key| {
            let claims = self.granting_pod(node, key).map(|pod| references::claims_of_pod(&pod));
            claims.into_iter().flatten().any(|claim| {
                let claim = Key::new(key.namespace(), &claim);
                let claim = self.object("persistentvolumeclaims", &claim);
                let volume = claim.and_then(|claim| {
                    let volume = claim["spec"]["volumeName"].as_str()?;
                    self.object("persistentvolumes", &Key::new("", volume))
                });
                volume.is_some_and(|volume| uses(&volume))
            })
        })
    }

    /// Returns whether a pod of the node in a namespace matches.
    fn any_pod(&self, node: &str, namespace: &str, matches: impl Fn(&Value) -> bool) -> bool {
        let pods = self.pods.of(node);
        let mut pods = pods.iter().filter(|key| key.namespace() == namespace);
        pods.any(|key| self.granting_pod(node, key).is_some_and(|pod| matches(&pod)))
    }

    /// Returns a pod of the node. A mirror pod grants nothing: a node creates those itself.
    fn granting_pod(&self, node: &str, key: &Key) -> Option<Value> {
        self.pod(node, key).filter(|pod| !references::is_mirror(pod))
    }

    /// Returns a pod if it is bound to the node.
    fn pod(&self, node: &str, key: &Key) -> Option<Value> {
        self.object("pods", key).filter(|pod| pod["spec"]["nodeName"] == node)
    }

    fn object(&self, table: &str, key: &Key) -> Option<Value> {
        let record = self.store.table(table).get(key)?;
        serde_json::from_slice(&record.body).ok()
    }
}
