//! Checks that the time of each stage grows linearly with the object, for every list and map of
//! every built-in kind.
//!
//! Each test builds an object with n elements and one with eight times as many and compares the
//! time of each stage of a write. Linear work takes eight times as long, quadratic work sixty-four
//! times. If it takes much more than eight times as long, the larger object is also compared with
//! one of twice its size.

use std::collections::{BTreeMap, HashSet};

use evenkeel_types::{Gvk, Type};
use serde_json::Value;

use grown::{Elements, Grown};
use stages::Write;

mod grown;
mod stages;
mod timed;

/// Number of elements in the smaller object.
const FEW: usize = 100;

#[test]
fn every_list_and_map_is_handled_in_linear_time() {
    let mut tried = HashSet::new();
    let mut slow = Vec::new();
    for (gvk, ty) in kinds() {
        for grown in Grown::all(ty) {
            // A list that several kinds share, such as the containers of pod templates, is tested
            // in one of them.
            if tried.insert((grown.owner(), grown.field())) {
                for elements in [Elements::Distinct, Elements::Equal] {
                    let what = format!("{gvk} {grown} ({elements:?})");
                    measure(&what, gvk, ty, |n| grown.object(gvk, n, elements), &mut slow);
                }
            }
        }
    }
    assert!(tried.len() > 500, "only {} lists and maps", tried.len());
    assert_none(&slow);
}

/// Lists with elements that refer to each other by name.
const RELATED: &[(&str, &str, &[&str])] = &[
    ("v1", "Pod", &["spec.containers", "spec.initContainers", "spec.ephemeralContainers"]),
    (
        "v1",
        "Pod",
        &["spec.volumes", "spec.containers.volumeMounts", "spec.containers.volumeDevices"],
    ),
    ("v1", "Pod", &["spec.containers.volumeDevices", "spec.containers.volumeMounts"]),
    ("v1", "Pod", &["spec.containers", "spec.volumes"]),
    ("v1", "Pod", &["spec.resourceClaims", "spec.containers.resources.claims"]),
    ("v1", "Pod", &["spec.containers", "status.containerStatuses"]),
    ("v1", "Pod", &["spec.resourceClaims", "status.resourceClaimStatuses"]),
    ("v1", "Pod", &["spec.containers", "status.extendedResourceClaimStatus.requestMappings"]),
    (
        "v1",
        "Pod",
        &[
            "spec.topologySpreadConstraints.matchLabelKeys",
            "spec.topologySpreadConstraints.labelSelector.matchExpressions",
            "spec.topologySpreadConstraints.labelSelector.matchLabels",
        ],
    ),
    ("v1", "Pod", &["metadata.annotations", "spec.containers"]),
    ("v1", "ResourceQuota", &["spec.hard", "spec.scopes"]),
    ("v1", "ResourceQuota", &["spec.hard", "spec.scopeSelector.matchExpressions"]),
    ("v1", "Service", &["spec.clusterIPs", "spec.ipFamilies"]),
    ("apps/v1", "StatefulSet", &["spec.volumeClaimTemplates", "spec.template.spec.volumes"]),
    (
        "apps/v1",
        "StatefulSet",
        &["spec.volumeClaimTemplates", "spec.template.spec.containers.volumeMounts"],
    ),
    ("batch/v1", "Job", &["spec.podFailurePolicy.rules", "spec.template.spec.containers"]),
    (
        "resource.k8s.io/v1",
        "ResourceClaim",
        &["spec.devices.requests", "spec.devices.constraints", "spec.devices.config"],
    ),
];

#[test]
fn lists_that_refer_to_each_other_are_handled_in_linear_time() {
    let mut slow = Vec::new();
    for (api_version, kind, paths) in RELATED {
        let (gvk, ty) = kinds()
            .find(|(gvk, _)| gvk.kind == *kind && gvk.api_version() == *api_version)
            .unwrap();
        let all = Grown::all(ty);
        let lists: Vec<&Grown> = paths
            .iter()
            .map(|path| all.iter().find(|grown| grown.to_string() == *path).expect(path))
            .collect();
        let object = |n: usize| {
            let mut objects = lists.iter().map(|grown| grown.object(gvk, n, Elements::Distinct));
            let first = objects.next().unwrap();
            objects.fold(first, grown::merged)
        };
        measure(&format!("{gvk} {paths:?}"), gvk, ty, object, &mut slow);
    }
    assert_none(&slow);
}

fn measure(
    what: &str,
    gvk: Gvk<'static>,
    ty: &'static Type,
    object: impl Fn(usize) -> Value,
    slow: &mut Vec<String>,
) {
    let mut writes = BTreeMap::new();
    for stage in stages::ALL {
        let ratio = timed::superlinear(FEW, |n| {
            stage.run(writes.entry(n).or_insert_with(|| Write::new(gvk, ty, object(n))));
        });
        slow.extend(ratio.map(|ratio| format!("{what}, {}: {ratio:.1} times", stage.name)));
    }
}

fn assert_none(slow: &[String]) {
    assert!(slow.is_empty(), "time for eight times as many elements:\n{}", slow.join("\n"));
}

/// Returns every kind with its type.
fn kinds() -> impl Iterator<Item = (Gvk<'static>, &'static Type)> {
    evenkeel_types::all()
        .filter(|ty| ty.field("metadata").is_some() && ty.field("items").is_none())
        .flat_map(|ty| ty.gvks.iter().map(move |gvk| (*gvk, ty)))
}
