//! Volumes that are made for a claim.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::client::Client;
use evenkeel::manager::Stop;
use evenkeel::{Context, Key, Result};
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::bind::{self, BY_CONTROLLER};
use super::release::PROVISIONED_BY;
use super::{PODS, matching};
use crate::pods::is_terminal;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The class a cluster begins with, and what makes its volumes.
const STANDARD: &str = "standard";
const PROVISIONER: &str = "evenkeel.dev/simulated";

/// Means that volumes of a class are made by people.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// How long to wait before the storage class is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Makes the storage class `standard`, unless the cluster has classes of its own; retries until that
/// works, since an error would end all controllers.
pub(super) async fn standard(client: Client, stop: Stop) -> Result<()> {
    while let Err(error) = create_standard(&client).await {
        tracing::warn!(%error, "the storage class {STANDARD} cannot be created, and is retried");
        tokio::select! {
            () = stop.requested() => break,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
    Ok(())
}

async fn create_standard(client: &Client) -> Result<()> {
    if !client.live().list::<StorageClass>(None, "").await?.is_empty() {
        return Ok(());
    }
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some(STANDARD.to_owned()),
            annotations: Some(BTreeMap::from([(DEFAULT_CLASS.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        ..StorageClass::default()
    };
    match client.create(&class).await {
        Err(error) if !error.is_already_exists() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The claim with the cluster's default class, if it leaves the choice to the cluster.
///
/// Admission does the same for claims that come after the class.
pub(super) async fn with_default_class(
    cx: &Context<PersistentVolumeClaim>,
    claim: &Arc<PersistentVolumeClaim>,
) -> Result<Arc<PersistentVolumeClaim>> {
    if matching::class(claim).is_some() {
        return Ok(claim.clone());
    }
    let classes = cx.list::<StorageClass>().await?;
    let defaults = classes.iter().filter(|class| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.get(DEFAULT_CLASS).is_some_and(|value| value == "true"))
    });
    // The newest of several counts, the first by name of those.
    let newest = defaults.max_by_key(|class| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, std::cmp::Reverse(class.metadata.name.clone()))
    });
    let Some(class) = newest else { return Ok(claim.clone()) };
    let mut next = (**claim).clone();
    next.spec.get_or_insert_default().storage_class_name = class.metadata.name.clone();
    Ok(cx.update(&next).await?)
}

/// Makes a volume for the claim, if its class says how.
pub(super) async fn provision(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let name = matching::class(claim).unwrap_or_default();
    if name.is_empty() {
        let text = "no persistent volumes available for this claim and no storage class is set";
        cx.event("FailedBinding", text);
        return Ok(());
    }
    let Some(class) = cx.get::<StorageClass>(&Key::cluster(name)).await? else {
        let text = format!("storageclass.storage.k8s.io {name:?} not found");
        cx.warning_event("ProvisioningFailed", &text);
        return Ok(());
    };
    if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && !is_used(cx).await? {
        let text = "waiting for first consumer to be created before binding";
        cx.event("WaitForFirstConsumer", text);
        return Ok(());
    }
    if class.provisioner == NO_PROVISIONER {
        return Ok(());
    }
    match cx.create(&volume(claim, &class)).await {
        // Its own event brings the claim up again, and then it is bound.
        Ok(made) => {
            let made = made.metadata.name.as_deref().unwrap_or_default();
            let text = format!("Successfully provisioned volume {made}");
            cx.event("ProvisioningSucceeded", &text);
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a pod needs the claim.
async fn is_used(cx: &Context<PersistentVolumeClaim>) -> Result<bool> {
    let pods = cx.list::<Pod>().index(PODS, cx.key().as_str()).await?;
    Ok(pods.iter().any(|pod| !is_terminal(pod)))
}

fn volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    // Named by uid: a second try meets the first one's volume.
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()).and_then(|r| r.requests.clone());
    let annotations = [
        (PROVISIONED_BY.to_owned(), class.provisioner.clone()),
        (BY_CONTROLLER.to_owned(), "yes".to_owned()),
    ];
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.and_then(|spec| spec.access_modes.clone()),
            capacity: requests,
            claim_ref: Some(bind::reference(claim)),
            // Any source would do: nothing is behind it.
            host_path: Some(HostPathVolumeSource {
                path: format!("/var/lib/evenkeel/{name}"),
                type_: None,
            }),
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.and_then(|spec| spec.volume_mode.clone()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}
