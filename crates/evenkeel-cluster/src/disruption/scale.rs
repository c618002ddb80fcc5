//! The expected number of pods, from the scale of their controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::{Context, Key, Result};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::discovery::Types;
use crate::versions::Workload;

/// Returns the sum of the scales of the pods' controllers. Pods without a controller do not count.
pub(super) async fn expected(cx: &Context<PodDisruptionBudget>, pods: &[Arc<Pod>]) -> Result<i32> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller(&pod.metadata) else { continue };
        if scales.contains_key(&owner.uid) {
            continue;
        }
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let (uid, replicas) = scale(cx, owner)
            .await?
            .ok_or_else(|| format!("found no controllers for pod {name:?}"))?;
        scales.insert(uid, replicas);
    }
    Ok(scales.values().fold(0, |sum, replicas| sum.saturating_add(*replicas)))
}

fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Returns uid and scale of a controller, or of the Deployment that controls a ReplicaSet.
async fn scale(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
) -> Result<Option<(String, i32)>> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let key = cx.key().sibling(&owner.name);
    let same = |meta: &ObjectMeta, owner: &OwnerReference| meta.uid.as_ref() == Some(&owner.uid);
    let found = |uid: &str, replicas: Option<i32>| Some((uid.to_owned(), replicas.unwrap_or(1)));
    match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let set =
                cx.client().get::<ReplicaSet>(&key).await?.filter(|set| same(&set.metadata, owner));
            let Some(set) = set else { return Ok(None) };
            if let Some(above) =
                controller(&set.metadata).filter(|above| above.kind == "Deployment")
            {
                let found_above =
                    cx.client().get::<Deployment>(&cx.key().sibling(&above.name)).await?;
                let deployment = found_above.filter(|found| same(&found.metadata, above));
                return Ok(deployment.and_then(|deployment| {
                    found(&above.uid, deployment.spec().and_then(|spec| spec.replicas))
                }));
            }
            Ok(found(&owner.uid, set.spec().and_then(|spec| spec.replicas)))
        }
        ("apps", "StatefulSet") => {
            let set = cx.client().get::<StatefulSet>(&key).await?;
            let set = set.filter(|set| same(&set.metadata, owner));
            Ok(set.and_then(|set| found(&owner.uid, set.spec().and_then(|spec| spec.replicas))))
        }
        ("", "ReplicationController") => {
            let set = cx.client().get::<ReplicationController>(&key).await?;
            let set = set.filter(|set| same(&set.metadata, owner));
            Ok(set.and_then(|set| {
                found(&owner.uid, set.spec.as_ref().and_then(|spec| spec.replicas))
            }))
        }
        (group, kind) => by_subresource(cx, owner, group, kind, &key).await,
    }
}

/// Reads the scale subresource of any other type.
async fn by_subresource(
    cx: &Context<PodDisruptionBudget>,
    owner: &OwnerReference,
    group: &str,
    kind: &str,
    key: &Key,
) -> Result<Option<(String, i32)>> {
    let types = Types::discover(cx.client().kube()).await?;
    let Some(found) = types.find(group, kind) else {
        return Err(
            format!("no matches for kind {kind:?} in version {:?}", owner.api_version).into()
        );
    };
    match cx.client().dynamic(found).subresource(key, "scale").get::<Scale>().await {
        Ok(scale) if scale.metadata.uid.as_ref() == Some(&owner.uid) => {
            let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or_default();
            Ok(Some((owner.uid.clone(), replicas)))
        }
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => {
            let name = format!("{}.{group}", found.plural());
            Err(format!("{} does not implement the scale subresource", name.trim_end_matches('.'))
                .into())
        }
        Err(error) => Err(error.into()),
    }
}
