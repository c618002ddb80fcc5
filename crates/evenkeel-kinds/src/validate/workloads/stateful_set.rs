//! Validates StatefulSets.

use evenkeel_schema::metadata::check_labels;
use serde_json::{Map, Value};

use super::super::checks;
use super::super::pod::{self, PodOptions};
use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_create, builtin_update, persistent_volume_claim};
use super::{
    at_most_replicas, available_at_most_ready, check_collision_count, pod_options,
    required_selector, restart_always_template, selector_mismatch,
};
use crate::names::NameRule;

pub(in crate::validate) fn stateful_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Label);
    let opts = StatefulOptions { pods: PodOptions::CREATE, update: false, skip_template: false };
    stateful_set_spec(errs, set.at("spec"), &opts);
}

struct StatefulOptions {
    pods: PodOptions,
    /// Skips checks of fields that cannot change.
    update: bool,
    /// Whether the stored template is invalid.
    skip_template: bool,
}

fn stateful_set_spec(errs: &mut Errors, spec: &Value, opts: &StatefulOptions) {
    let path = Path::root("spec");
    match spec.text("podManagementPolicy") {
        "" => errs.required(path.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errs.invalid(path.child("podManagementPolicy"), other, detail);
        }
    }
    stateful_set_strategy(errs, path.child("updateStrategy"), spec.at("updateStrategy"));
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    if !retention.is_null() {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let policy = retention.text(field);
            if !matches!(policy, "Retain" | "Delete") {
                errs.not_supported(path.child(field), policy, &["Retain", "Delete"]);
            }
        }
    }
    if !opts.update {
        for (i, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates");
            persistent_volume_claim::claim_spec(
                errs,
                path.index(i).child("spec"),
                claim.at("spec"),
            );
        }
    }
    checks::non_negatives(errs, path, spec, &["replicas", "minReadySeconds"]);
    checks::non_negative(errs, path.child("ordinals.start"), spec.at("ordinals").int("start"));
    let service = spec.text("serviceName");
    if !opts.update && !service.is_empty() {
        checks::dns1123_label(errs, path.child("serviceName"), service);
    }
    let selector = spec.at("selector");
    required_selector(errs, path.child("selector"), selector, "statefulset");
    let template = spec.at("template");
    match checks::selects(selector, template.at("metadata").at("labels")) {
        None => {
            let shown = printed::label_selector(selector);
            errs.invalid_printed(path.child("selector"), shown, "");
        }
        Some(selected) => {
            let path = path.child("template");
            if !selected && !checks::selects_all(selector) {
                selector_mismatch(errs, path, template);
            }
            stateful_template(errs, path, spec, opts);
        }
    }
    restart_always_template(errs, path.child("template"), template, "StatefulSet");
}

/// Validates the template as its pods will be: with the volumes of the claim templates and
/// generated names.
fn stateful_template(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &StatefulOptions) {
    let template = spec.at("template");
    let claims = spec.list("volumeClaimTemplates");
    let pod_spec = template.at("spec");
    let plain = claims.is_empty() && !pod_spec.has("hostname") && !pod_spec.has("subdomain");
    let filled;
    let checked = if plain {
        template
    } else {
        filled = with_claim_volumes(template, claims);
        &filled
    };
    if !opts.skip_template {
        pod::template(errs, path, checked, &opts.pods);
    }
    let labels = checked.at("metadata").at("labels");
    check_labels(labels, path.child("labels"), errs.list());
    pod::template_annotations(errs, path, checked, &opts.pods);
}

fn with_claim_volumes(template: &Value, claims: &[Value]) -> Value {
    let mut template = template.clone();
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec else { return template };
    spec.remove("hostname");
    spec.remove("subdomain");
    if claims.is_empty() {
        return template;
    }
    let name = |claim: &Value| claim.at("metadata").text("name").to_owned();
    let mut names: Vec<String> = claims.iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    let mut volumes: Vec<Value> = names
        .iter()
        .map(|name| {
            let mut claim = Map::new();
            claim.insert("claimName".to_owned(), name.as_str().into());
            let mut volume = Map::new();
            volume.insert("name".to_owned(), name.as_str().into());
            volume.insert("persistentVolumeClaim".to_owned(), claim.into());
            volume.into()
        })
        .collect();
    if let Some(Value::Array(own)) = spec.remove("volumes") {
        let is_claim =
            |v: &Value| names.binary_search_by(|n| n.as_str().cmp(v.text("name"))).is_ok();
        volumes.extend(own.into_iter().filter(|v| !is_claim(v)));
    }
    spec.insert("volumes".to_owned(), volumes.into());
    template
}

fn stateful_set_strategy(errs: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "" => errs.required(path, ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let ty = Ty::Struct(printed::ROLLING_UPDATE_STATEFUL_SET_STRATEGY);
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errs.invalid_printed(path.child("rollingUpdate"), Printed(ty, rolling), detail);
            }
        }
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            checks::non_negative(errs, path.child("partition"), rolling.int("partition"));
            let unavailable = rolling.at("maxUnavailable");
            if !unavailable.is_null() {
                let path = path.child("maxUnavailable");
                checks::int_or_percent(errs, path, unavailable);
                if checks::int_or_percent_value(unavailable) == 0 {
                    errs.invalid_printed(
                        path,
                        Printed(Ty::IntOrString, unavailable),
                        "cannot be 0",
                    );
                }
                checks::not_more_than_100_percent(errs, path, unavailable);
            }
        }
        _ => {
            let shown = Printed(Ty::Struct(printed::STATEFUL_SET_UPDATE_STRATEGY), strategy);
            errs.invalid_printed(path, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

const STATEFUL_UPDATABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(in crate::validate) fn stateful_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let mut opts =
        StatefulOptions { pods: pod_options(Some(old)), update: true, skip_template: false };
    let mut before = Errors::new();
    stateful_set_spec(&mut before, old_spec, &opts);
    opts.skip_template = !before.is_empty();
    stateful_set_spec(errs, spec, &opts);
    if !only_updatable_fields_change(spec, old_spec) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                      'template', 'updateStrategy', 'revisionHistoryLimit', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errs.forbidden(Path::root("spec"), detail);
    }
}

fn only_updatable_fields_change(spec: &Value, old: &Value) -> bool {
    let keys = |spec: &'_ Value| -> Vec<String> {
        let fields = spec.as_object().into_iter().flatten();
        fields.map(|(key, _)| key.clone()).collect()
    };
    let claims = Ty::List(&Ty::Struct(printed::CLAIM_TEMPLATE));
    keys(spec).iter().chain(&keys(old)).all(|key| {
        let (now, before) = (spec.at(key), old.at(key));
        match key.as_str() {
            key if STATEFUL_UPDATABLE.contains(&key) => true,
            "volumeClaimTemplates" => printed::same(claims, now, before),
            "selector" => printed::same(Ty::Opt(&Ty::Struct(printed::LABEL_SELECTOR)), now, before),
            _ => {
                now == before
                    || (now.as_str().unwrap_or_default().is_empty()
                        && before.as_str().unwrap_or_default().is_empty())
            }
        }
    })
}

pub(in crate::validate) fn stateful_set_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    let path = Path::root("status");
    let status = new.at("status");
    const COUNTS: &[&str] = &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    checks::non_negatives(errs, path, status, COUNTS);
    const PARTS: &[&str] =
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    at_most_replicas(errs, path, status, PARTS);
    available_at_most_ready(errs, path, status, "cannot be greater than status.readyReplicas");
    builtin_update(errs, new, old);
    check_collision_count(errs, path, status, old.at("status"));
}
