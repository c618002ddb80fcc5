//! Warnings about pod volumes.

use std::collections::BTreeMap;

use super::MAX_PER_ELEMENT;
use super::storage::warn_about_claim_spec;
use crate::defaults::set::{self, Object};

/// Returns the name of a deprecated volume type in warnings, and its replacement.
pub(super) fn deprecated(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "photonPersistentDisk" => {
            ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+")
        }
        "gitRepo" => ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
        "scaleIO" => ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        "flocker" => ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        "storageos" => ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        "quobyte" => ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        "glusterfs" => ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        "cephfs" => ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        "rbd" => ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
        _ => return None,
    })
}

/// Adds the warnings about the volumes of a pod whose fields are under `base`.
pub(super) fn add_warnings(spec: &Object, base: &str, warnings: &mut Vec<String>) {
    for (i, volume) in set::list(spec, "volumes").enumerate() {
        for kind in volume.keys() {
            if let Some((name, message)) = deprecated(kind) {
                warnings.push(format!("{base}spec.volumes[{i}].{name}: {message}"));
            }
        }
        let claim = set::get(volume, "ephemeral")
            .and_then(|ephemeral| set::get(ephemeral, "volumeClaimTemplate"))
            .and_then(|template| set::get(template, "spec"));
        if let Some(claim) = claim {
            let path = format_args!("{base}spec.volumes[{i}].ephemeral.volumeClaimTemplate.spec");
            warn_about_claim_spec(claim, path, warnings);
        }
    }
    for volume in set::list(spec, "volumes") {
        overlaps(volume, warnings);
    }
}

/// Warns about files of a projected volume that overlap.
fn overlaps(volume: &Object, warnings: &mut Vec<String>) {
    let name = set::string(volume, "name");
    let mut files = Files::default();
    let mut check = |what: &str, source: &str, path: &str, warnings: &mut Vec<String>| {
        let path = path.trim_end_matches('/');
        for other in files.add(path, source) {
            warnings.push(format!(
                "volume {name:?} ({what}): overlapping paths: {} with {other}",
                described(path, source)
            ));
        }
    };
    let single = [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")];
    for (key, kind, field) in single {
        if let Some(source) = set::get(volume, key) {
            let what = format!("{kind} {:?}", set::string(source, field));
            for item in set::list(source, "items") {
                check(&what, "", set::string(item, "path"), warnings);
            }
        }
    }
    if let Some(source) = set::get(volume, "downwardAPI") {
        for item in set::list(source, "items") {
            check("DownwardAPI", "", set::string(item, "path"), warnings);
        }
    }
    let Some(projected) = set::get(volume, "projected") else { return };
    for part in set::list(projected, "sources") {
        if part.is_empty() {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
            continue;
        }
        for (key, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
            if let Some(source) = set::get(part, key) {
                let described = format!("{kind} {:?}", set::string(source, "name"));
                for item in set::list(source, "items") {
                    check("Projected", &described, set::string(item, "path"), warnings);
                }
            }
        }
        if let Some(source) = set::get(part, "downwardAPI") {
            for item in set::list(source, "items") {
                check("Projected", "DownwardAPI", set::string(item, "path"), warnings);
            }
        }
        if let Some(source) = set::get(part, "serviceAccountToken") {
            check("Projected", "ServiceAccountToken", set::string(source, "path"), warnings);
        }
    }
}

/// The files of a volume by path, with their source and position.
#[derive(Default)]
struct Files {
    by_path: BTreeMap<String, Vec<(usize, String)>>,
    count: usize,
}

impl Files {
    /// Adds a file. Returns the earlier files with the same path or a path above or below it.
    fn add(&mut self, path: &str, source: &str) -> Vec<String> {
        if path.is_empty() {
            return Vec::new();
        }
        let above = path.match_indices('/').filter_map(|(at, _)| {
            let (path, files) = self.by_path.get_key_value(&path[..at])?;
            Some((path, files))
        });
        // All paths below this one sort between these two bounds.
        let below = self.by_path.range(format!("{path}/")..format!("{path}0"));
        let same = self.by_path.get_key_value(path);
        let mut found: Vec<(usize, String)> = above
            .chain(below)
            .chain(same)
            .flat_map(|(path, files)| {
                files.iter().map(move |(order, source)| (*order, described(path, source)))
            })
            .take(MAX_PER_ELEMENT)
            .collect();
        found.sort_unstable();
        let entry = self.by_path.entry(path.to_owned()).or_default();
        if entry.len() < MAX_PER_ELEMENT {
            entry.push((self.count, source.to_owned()));
        }
        self.count += 1;
        found.into_iter().map(|(_, described)| described).collect()
    }
}

fn described(path: &str, source: &str) -> String {
    if source.is_empty() { format!("{path:?}") } else { format!("{path:?} ({source})") }
}
