//! Dynamic provisioning of volumes.

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

/// The initial StorageClass and its provisioner.
const STANDARD: &str = "standard";
const PROVISIONER: &str = "evenkeel.dev/simulated";

/// The provisioner of classes whose volumes are created by administrators.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// How long to wait before creation of the StorageClass is retried.
const RETRY: Duration = Duration::from_secs(1);

/// Creates the StorageClass `standard` unless the cluster has StorageClasses. Retries until that
/// succeeds, since an error would stop all controllers.
pub(super) async fn run_default_class(client: Client, stop: Stop) -> Result<()> {
    while let Err(error) = create_default_class(&client).await {
        tracing::warn!(%error, class = STANDARD, "cannot create StorageClass, retrying");
        tokio::select! {
            () = stop.requested() => break,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
    Ok(())
}

async fn create_default_class(client: &Client) -> Result<()> {
    if !client.live().list::<StorageClass>().await?.is_empty() {
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

/// Sets the cluster's default StorageClass if the PVC names none.
///
/// Admission does the same for PVCs created after the class.
pub(super) async fn with_default_class(
    cx: &Context<PersistentVolumeClaim>,
    claim: &Arc<PersistentVolumeClaim>,
) -> Result<Arc<PersistentVolumeClaim>> {
    if matching::class(claim).is_some() {
        return Ok(claim.clone());
    }
    let classes = cx.client().list::<StorageClass>().await?;
    let defaults = classes.iter().filter(|class| {
        let annotations = class.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.get(DEFAULT_CLASS).is_some_and(|value| value == "true"))
    });
    // The newest default class is used, and of those the first by name.
    let newest = defaults.max_by_key(|class| {
        let created = class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, std::cmp::Reverse(class.metadata.name.clone()))
    });
    let Some(class) = newest else { return Ok(claim.clone()) };
    let mut next = (**claim).clone();
    next.spec.get_or_insert_default().storage_class_name = class.metadata.name.clone();
    Ok(cx.client().update(&next).await?)
}

/// Provisions a volume for the PVC if its class has a provisioner.
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
    let Some(class) = cx.client().get::<StorageClass>(&Key::cluster(name)).await? else {
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
    match cx.client().create(&volume(claim, &class)).await {
        // The volume's event enqueues the PVC, which is bound then.
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

/// Whether a pod uses the PVC.
async fn is_used(cx: &Context<PersistentVolumeClaim>) -> Result<bool> {
    let pods = cx.client().list::<Pod>().index(PODS, cx.key().as_str()).await?;
    Ok(pods.iter().any(|pod| !is_terminal(pod)))
}

fn volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    // Named by uid: a retry finds the volume of the first attempt.
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
            // Any source would do: there is no storage behind it.
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
