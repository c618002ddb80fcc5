//! Validates the volumes of a pod.

use std::collections::{HashMap, HashSet};

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::persistent_volume_claim;
use super::pod::PodOptions;
use super::read::Read;
use super::report::{Errors, Path};
use super::{checks, container};
use crate::names;

mod projected;
pub(super) mod sources;

pub(super) use projected::{token_expiration, trust_bundle_name};
use sources::file_mode;

const MORE_THAN_ONE: &str = "may not specify more than 1 volume type";

/// The volumes that containers may mount, by name: those without errors.
pub(super) struct Volumes<'a>(HashMap<&'a str, &'a Value>);

impl<'a> Volumes<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).copied()
    }
}

/// Validates the volumes of a pod. `pod_name` is empty for a template.
pub(super) fn volumes<'a>(
    errs: &mut Errors,
    path: Path<'_>,
    volumes: &'a [Value],
    pod_name: &str,
    opts: &PodOptions,
) -> Volumes<'a> {
    let mut valid: HashMap<&str, &Value> = HashMap::with_capacity(volumes.len());
    let ephemeral = volumes.iter().filter(|v| v.has("ephemeral")).map(|v| v.text("name"));
    let ephemeral: HashSet<&str> = ephemeral.collect();
    for (i, volume) in volumes.iter().enumerate() {
        let path = path.index(i);
        let name = volume.text("name");
        let before = errs.len();
        source(errs, path, volume, pod_name, opts);
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else {
            checks::dns1123_label(errs, path.child("name"), name);
        }
        if valid.contains_key(name) {
            errs.duplicate(path.child("name"), name);
        }
        if errs.len() == before {
            valid.insert(name, volume);
        }
        let claim = volume.at("persistentVolumeClaim");
        if !claim.is_null() && !pod_name.is_empty() {
            let claim_name = claim.text("claimName");
            let own = claim_name.strip_prefix(pod_name).and_then(|rest| rest.strip_prefix('-'));
            if own.is_some_and(|name| ephemeral.contains(name)) {
                let detail = "must not reference a PVC that gets created for an ephemeral volume";
                let path = path.child("persistentVolumeClaim");
                errs.invalid(path.child("claimName"), claim_name, detail);
            }
        }
    }
    Volumes(valid)
}

type Check = fn(&mut Errors, Path<'_>, &Value, &Context<'_>);

/// Additional data for the validation of a volume source.
pub(super) struct Context<'a> {
    pub(super) pod_name: &'a str,
    pub(super) volume_name: &'a str,
    pub(super) opts: &'a PodOptions,
}

/// The sources in upstream's order, with the name of each in the error about a second source and
/// the name used in its own errors. Neither always equals the field name.
const SOURCES: &[(&str, &str, &str, Check)] = &[
    ("emptyDir", "emptyDir", "emptyDir", |errs, path, source, _| {
        if Quantity::from_json(source.at("sizeLimit")).is_some_and(|q| q.sign().is_lt()) {
            let detail = "SizeLimit field must be a valid resource quantity";
            errs.forbidden(path.child("sizeLimit"), detail);
        }
    }),
    ("hostPath", "hostPath", "hostPath", |errs, path, source, _| {
        sources::host_path(errs, path, source);
    }),
    ("gitRepo", "gitRepo", "gitRepo", |errs, path, source, _| {
        checks::required_text(errs, path, source, "repository");
        sources::descending_path(errs, path.child("directory"), source.text("directory"));
    }),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |errs, path, source, _| {
        sources::gce_persistent_disk(errs, path, source);
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |errs, path, s, _| {
        sources::aws_elastic_block_store(errs, path, s);
    }),
    ("secret", "secret", "secret", |errs, path, source, _| {
        checks::required_text(errs, path, source, "secretName");
        file_mode(errs, path.child("defaultMode"), source.int("defaultMode"));
        key_paths(errs, path.child("items"), source.list("items"));
    }),
    ("nfs", "nfs", "nfs", |errs, path, source, _| sources::nfs(errs, path, source)),
    ("iscsi", "iscsi", "iscsi", |errs, path, source, _| sources::iscsi(errs, path, source)),
    ("glusterfs", "glusterfs", "glusterfs", |errs, path, source, _| {
        checks::required_text(errs, path, source, "endpoints");
        checks::required_text(errs, path, source, "path");
    }),
    ("flocker", "flocker", "flocker", |errs, path, s, _| sources::flocker(errs, path, s)),
    (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        |errs, path, source, _| checks::required_text(errs, path, source, "claimName"),
    ),
    ("rbd", "rbd", "rbd", |errs, path, source, _| sources::rbd(errs, path, source)),
    ("cinder", "cinder", "cinder", |errs, path, source, _| {
        sources::cinder(errs, path, source);
    }),
    ("cephfs", "cephFS", "cephfs", |errs, path, source, _| {
        if source.list("monitors").is_empty() {
            errs.required(path.child("monitors"), "");
        }
    }),
    ("quobyte", "quobyte", "quobyte", |errs, path, s, _| sources::quobyte(errs, path, s)),
    ("downwardAPI", "downwarAPI", "downwardAPI", |errs, path, source, _| {
        file_mode(errs, path.child("defaultMode"), source.int("defaultMode"));
        for file in source.list("items") {
            projected::downward_api_file(errs, path, file);
        }
    }),
    ("fc", "fc", "fc", |errs, path, source, _| sources::fc(errs, path, source)),
    ("flexVolume", "flexVolume", "flexVolume", |errs, path, source, _| {
        sources::flex(errs, path, source);
    }),
    ("configMap", "configMap", "configMap", |errs, path, source, _| {
        checks::required_text(errs, path, source, "name");
        file_mode(errs, path.child("defaultMode"), source.int("defaultMode"));
        key_paths(errs, path.child("items"), source.list("items"));
    }),
    ("azureFile", "azureFile", "azureFile", |errs, path, source, _| {
        checks::required_text(errs, path, source, "secretName");
        checks::required_text(errs, path, source, "shareName");
    }),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |errs, path, source, _| {
        checks::required_text(errs, path, source, "volumePath");
    }),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "photonPersistentDisk",
        |errs, path, source, _| checks::required_text(errs, path, source, "pdID"),
    ),
    ("portworxVolume", "portworxVolume", "portworxVolume", |errs, path, source, _| {
        checks::required_text(errs, path, source, "volumeID");
    }),
    ("azureDisk", "azureDisk", "azureDisk", |errs, path, s, _| {
        sources::azure_disk(errs, path, s);
    }),
    ("storageos", "storageos", "storageos", |errs, path, s, _| {
        sources::storageos(errs, path, s);
    }),
    ("projected", "projected", "projected", |errs, path, source, _| {
        projected::projected(errs, path, source);
    }),
    ("scaleIO", "scaleIO", "scaleIO", |errs, path, s, _| sources::scale_io(errs, path, s)),
    ("csi", "csi", "csi", |errs, path, source, _| csi(errs, path, source)),
    ("ephemeral", "ephemeral", "ephemeral", |errs, path, source, _| {
        let template = source.at("volumeClaimTemplate");
        if template.is_null() {
            errs.required(path.child("volumeClaimTemplate"), "");
        } else {
            persistent_volume_claim::template(errs, path.child("volumeClaimTemplate"), template);
        }
    }),
    ("image", "image", "image", |errs, path, source, context| {
        if context.opts.is_pod {
            checks::required_text(errs, path, source, "reference");
        }
        container::pull_policy(errs, path.child("pullPolicy"), source.text("pullPolicy"));
    }),
];

fn source(errs: &mut Errors, path: Path<'_>, volume: &Value, pod_name: &str, opts: &PodOptions) {
    let Some(fields) = volume.as_object() else { return };
    let context = Context { pod_name, volume_name: volume.text("name"), opts };
    // A volume has a name and one source. Comparing its two keys with the table is faster than
    // looking up every source of the table.
    let mut present: Vec<(usize, &Value)> = Vec::new();
    for (key, source) in fields.iter().filter(|(_, source)| !source.is_null()) {
        present.extend(SOURCES.iter().position(|(k, ..)| k == key).map(|at| (at, source)));
    }
    present.sort_unstable_by_key(|(at, _)| *at);
    for (i, (at, source)) in present.iter().enumerate() {
        let (key, second, own, check) = SOURCES[*at];
        if i > 0 {
            errs.forbidden(path.child(second), MORE_THAN_ONE);
        } else {
            check(errs, path.child(own), source, &context);
            if key == "ephemeral" {
                ephemeral_claim_name(errs, path, &context);
            }
        }
        if key == "iscsi" {
            iscsi_initiator(errs, path, source, &context);
        }
    }
    if present.is_empty() {
        errs.required(path, "must specify a volume type");
    }
}

/// Validates the name of the PersistentVolumeClaim of an ephemeral volume, which is made of the
/// names of pod and volume.
fn ephemeral_claim_name(errs: &mut Errors, path: Path<'_>, context: &Context<'_>) {
    if context.pod_name.is_empty() || context.volume_name.is_empty() {
        return;
    }
    let name = format!("{}-{}", context.pod_name, context.volume_name);
    for reason in names::dns1123_subdomain(&name) {
        let detail = format!("PVC name \"{name}\": {reason}");
        errs.invalid(path.child("name"), context.volume_name, detail);
    }
}

fn iscsi_initiator(errs: &mut Errors, path: Path<'_>, iscsi: &Value, context: &Context<'_>) {
    let length = context.volume_name.len() + 1 + iscsi.text("targetPortal").len();
    if iscsi.has("initiatorName") && length > 64 {
        errs.invalid(path.child("name"), context.volume_name, sources::INITIATOR_TOO_LONG);
    }
}

pub(super) fn key_paths(errs: &mut Errors, path: Path<'_>, items: &[Value]) {
    for (i, item) in items.iter().enumerate() {
        key_path(errs, path.index(i), item);
    }
}

fn key_path(errs: &mut Errors, path: Path<'_>, item: &Value) {
    checks::required_text(errs, path, item, "key");
    checks::required_text(errs, path, item, "path");
    sources::local_path(errs, path.child("path"), item.text("path"));
    file_mode(errs, path.child("mode"), item.int("mode"));
}

fn csi(errs: &mut Errors, path: Path<'_>, csi: &Value) {
    sources::csi_driver_name(errs, path.child("driver"), csi.text("driver"));
    let secret = csi.at("nodePublishSecretRef");
    if secret.is_null() {
        return;
    }
    let name = secret.text("name");
    if name.is_empty() {
        errs.required(path.child("nodePublishSecretRef").child("name"), "");
    } else {
        checks::dns1123_subdomain(errs, path.child("name"), name);
    }
}
