//! Controllers of pods: deployments, replica sets, stateful sets, daemon sets.

use evenkeel_schema::metadata::check_labels;
use serde_json::{Map, Value};

use super::checks::{self, SelectorValues};
use super::pod::{self, PodOptions};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, claim};
use crate::names::NameRule;

const MISMATCH: &str = "`selector` does not match template `labels`";
const OVER_REPLICAS: &str = "cannot be greater than status.replicas";

fn options(old: Option<&Value>) -> PodOptions {
    old.map_or(PodOptions::CREATE, |old| PodOptions::for_update(old.at("spec").at("template")))
}

/// Labels of a template that its selector does not pick.
pub(super) fn mismatch(errs: &mut Errors, path: Path<'_>, template: &Value) {
    let path = path.child("metadata");
    let labels = template.at("metadata").at("labels");
    errs.invalid_printed(path.child("labels"), Printed(Ty::Map(&Ty::Str), labels), MISMATCH);
}

/// A template for pods that run until they are removed.
fn always_running(errs: &mut Errors, path: Path<'_>, template: &Value, owner: &str) {
    let spec = template.at("spec");
    let path = path.child("spec");
    let policy = spec.text("restartPolicy");
    if policy != "Always" {
        errs.not_supported(path.child("restartPolicy"), policy, &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errs.forbidden(path.child("activeDeadlineSeconds"), detail);
    }
}

/// Selector and template, as deployments and replica sets have them.
fn replicated(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    let selector = spec.at("selector");
    if selector.is_null() {
        errs.required(path.child("selector"), "");
    } else {
        let at = path.child("selector");
        checks::label_selector(errs, at, selector, SelectorValues::Checked);
        if checks::is_empty_selector(selector) {
            let detail = "empty selector is invalid for deployment";
            errs.invalid_printed(at, printed::label_selector(selector), detail);
        }
    }
    let template = spec.at("template");
    match checks::selects(selector, template.at("metadata").at("labels")) {
        None => {
            let shown = printed::label_selector(selector);
            errs.invalid_printed(path.child("selector"), shown, "invalid label selector");
        }
        Some(picked) => {
            let path = path.child("template");
            if !picked && !checks::selects_all(selector) {
                mismatch(errs, path, template);
            }
            pod::template(errs, path, template, opts);
            always_running(errs, path, template, "ReplicaSet");
        }
    }
}

pub(super) fn deployment(errs: &mut Errors, deployment: &Value) {
    builtin_create(errs, deployment, true, NameRule::Subdomain);
    deployment_spec(errs, deployment.at("spec"), &PodOptions::CREATE);
}

fn deployment_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    checks::non_negative(errs, path.child("replicas"), spec.int("replicas"));
    replicated(errs, path, spec, opts);
    deployment_strategy(errs, path.child("strategy"), spec.at("strategy"));
    checks::non_negatives(errs, path, spec, &["minReadySeconds", "revisionHistoryLimit"]);
    if let Some(deadline) = spec.int("progressDeadlineSeconds") {
        let path = path.child("progressDeadlineSeconds");
        checks::non_negative(errs, path, Some(deadline));
        if deadline <= spec.num("minReadySeconds") {
            errs.invalid(path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn deployment_strategy(errs: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errs.forbidden(at, detail);
            }
        }
        "RollingUpdate" if rolling.is_null() => {
            errs.required(at, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let path = at;
            checks::int_or_percent(errs, path.child("maxUnavailable"), unavailable);
            checks::int_or_percent(errs, path.child("maxSurge"), surge);
            let zero = |value| checks::int_or_percent_value(value) == 0;
            if zero(unavailable) && zero(surge) {
                let shown = Printed(Ty::IntOrString, unavailable);
                let detail = "may not be 0 when `maxSurge` is 0";
                errs.invalid_printed(path.child("maxUnavailable"), shown, detail);
            }
            let path = path.child("maxUnavailable");
            checks::not_more_than_100_percent(errs, path, unavailable);
        }
        _ => {
            let shown = Printed(Ty::Struct(printed::DEPLOYMENT_STRATEGY), strategy);
            errs.not_supported_printed(path, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

pub(super) fn deployment_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    deployment_spec(errs, spec, &options(Some(old)));
    selector_kept(errs, spec, old_spec);
}

fn selector_kept(errs: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::root("spec");
    let (now, before) = (spec.at("selector"), old.at("selector"));
    checks::immutable_selector(errs, path.child("selector"), now, before);
}

pub(super) fn deployment_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let status = new.at("status");
    const COUNTS: &[&str] = &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    checks::non_negatives(errs, path, status, COUNTS);
    within(errs, path, status, &["updatedReplicas", "readyReplicas", "availableReplicas"]);
    available_within_ready(errs, path, status, "cannot be greater than readyReplicas");
    collisions_kept(errs, path, status, old.at("status"));
}

fn within(errs: &mut Errors, path: Path<'_>, status: &Value, fields: &[&str]) {
    for field in fields {
        let count = status.num(field);
        if count > status.num("replicas") {
            errs.invalid(path.child(field), count, OVER_REPLICAS);
        }
    }
}

fn available_within_ready(errs: &mut Errors, path: Path<'_>, status: &Value, detail: &str) {
    let available = status.num("availableReplicas");
    if available > status.num("readyReplicas") {
        errs.invalid(path.child("availableReplicas"), available, detail);
    }
}

fn collisions_kept(errs: &mut Errors, path: Path<'_>, status: &Value, old: &Value) {
    let (now, before) = (status.int("collisionCount"), old.int("collisionCount"));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        errs.invalid(path.child("collisionCount"), now.unwrap_or(0), "cannot be decremented");
    }
}

pub(super) fn replica_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Subdomain);
    replica_set_spec(errs, set.at("spec"), &PodOptions::CREATE);
}

fn replica_set_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    checks::non_negatives(errs, path, spec, &["replicas", "minReadySeconds"]);
    replicated(errs, path, spec, opts);
}

pub(super) fn replica_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    replica_set_spec(errs, new.at("spec"), &options(Some(old)));
    selector_kept(errs, new.at("spec"), old.at("spec"));
}

pub(super) fn replica_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let status = new.at("status");
    const COUNTS: &[&str] = &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    checks::non_negatives(errs, path, status, COUNTS);
    within(errs, path, status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]);
    available_within_ready(errs, path, status, "cannot be greater than readyReplicas");
}

pub(super) fn replication_controller(errs: &mut Errors, controller: &Value, old: Option<&Value>) {
    match old {
        None => builtin_create(errs, controller, true, NameRule::Subdomain),
        Some(old) => builtin_update(errs, controller, old),
    }
    let path = Path::root("spec");
    let spec = controller.at("spec");
    checks::non_negative(errs, path.child("minReadySeconds"), spec.int("minReadySeconds"));
    let selector = spec.map("selector").filter(|s| !s.is_empty());
    if selector.is_none() {
        errs.required(path.child("selector"), "");
    }
    if spec.has("replicas") {
        checks::non_negative(errs, path.child("replicas"), spec.int("replicas"));
    } else {
        errs.required(path.child("replicas"), "");
    }
    let template = spec.at("template");
    let path = path.child("template");
    if template.is_null() {
        errs.required(path, "");
        return;
    }
    let labels = template.at("metadata").at("labels");
    if selector.into_iter().flatten().any(|(key, value)| labels.at(key) != value) {
        mismatch(errs, path, template);
    }
    pod::template(errs, path, template, &options(old));
    always_running(errs, path, template, "ReplicationController");
}

pub(super) fn daemon_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Subdomain);
    daemon_set_spec(errs, set.at("spec"), &PodOptions::CREATE);
}

fn daemon_set_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    checks::label_selector(errs, path.child("selector"), selector, opts.affinity_values);
    let at = path.child("template");
    if checks::selects(selector, template.at("metadata").at("labels")) == Some(false) {
        mismatch(errs, at, template);
    }
    if checks::selects_all(selector) {
        let detail = "empty selector is invalid for daemonset";
        errs.invalid_printed(path.child("selector"), printed::label_selector(selector), detail);
    }
    pod::template(errs, at, template, opts);
    always_running(errs, at, template, "DaemonSet");
    checks::non_negative(errs, path.child("minReadySeconds"), spec.int("minReadySeconds"));
    daemon_set_strategy(errs, path.child("updateStrategy"), spec.at("updateStrategy"));
    let limit = spec.int("revisionHistoryLimit");
    checks::non_negative(errs, path.child("revisionHistoryLimit"), limit);
}

fn daemon_set_strategy(errs: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errs.required(path.child("rollingUpdate"), ""),
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let bounds = [
                ("maxUnavailable", rolling.at("maxUnavailable")),
                ("maxSurge", rolling.at("maxSurge")),
            ];
            for (field, value) in bounds {
                checks::int_or_percent(errs, path.child(field), value);
            }
            for (field, value) in bounds {
                checks::not_more_than_100_percent(errs, path.child(field), value);
            }
            match bounds.map(|(_, value)| checks::int_or_percent_value(value) != 0) {
                [true, true] => {
                    let shown = Printed(Ty::IntOrString, rolling.at("maxSurge"));
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errs.invalid_printed(path.child("maxSurge"), shown, detail);
                }
                [false, false] => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errs.required(path.child("maxUnavailable"), detail);
                }
                _ => {}
            }
        }
        _ => {
            let shown = Printed(Ty::Struct(printed::DAEMON_SET_UPDATE_STRATEGY), strategy);
            errs.not_supported_printed(path, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

pub(super) fn daemon_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    selector_kept(errs, new.at("spec"), old.at("spec"));
    daemon_set_spec(errs, new.at("spec"), &options(Some(old)));
}

pub(super) fn daemon_set_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    const COUNTS: &[&str] = &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    checks::non_negatives(errs, path, new.at("status"), COUNTS);
    collisions_kept(errs, path, new.at("status"), old.at("status"));
}

pub(super) fn stateful_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Label);
    let opts = StatefulOptions { pods: PodOptions::CREATE, update: false, template_kept: false };
    stateful_set_spec(errs, set.at("spec"), &opts);
}

struct StatefulOptions {
    pods: PodOptions,
    /// What cannot change anyway is not checked again.
    update: bool,
    /// The stored template is faulty itself.
    template_kept: bool,
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
            claim::claim_spec(errs, path.index(i).child("spec"), claim.at("spec"));
        }
    }
    checks::non_negatives(errs, path, spec, &["replicas", "minReadySeconds"]);
    checks::non_negative(errs, path.child("ordinals.start"), spec.at("ordinals").int("start"));
    let service = spec.text("serviceName");
    if !opts.update && !service.is_empty() {
        checks::dns1123_label(errs, path.child("serviceName"), service);
    }
    let selector = spec.at("selector");
    if selector.is_null() {
        errs.required(path.child("selector"), "");
    } else {
        let at = path.child("selector");
        checks::label_selector(errs, at, selector, SelectorValues::Checked);
        if checks::is_empty_selector(selector) {
            let detail = "empty selector is invalid for statefulset";
            errs.invalid_printed(at, printed::label_selector(selector), detail);
        }
    }
    let template = spec.at("template");
    match checks::selects(selector, template.at("metadata").at("labels")) {
        None => {
            let shown = printed::label_selector(selector);
            errs.invalid_printed(path.child("selector"), shown, "");
        }
        Some(picked) => {
            let path = path.child("template");
            if !picked && !checks::selects_all(selector) {
                mismatch(errs, path, template);
            }
            stateful_template(errs, path, spec, opts);
        }
    }
    always_running(errs, path.child("template"), template, "StatefulSet");
}

/// The template as its pods will be: with the volumes of the claims, and names of their own.
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
    if !opts.template_kept {
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
        volumes.extend(own.into_iter().filter(|v| !names.iter().any(|n| n == v.text("name"))));
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

pub(super) fn stateful_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let mut opts = StatefulOptions { pods: options(Some(old)), update: true, template_kept: false };
    let mut before = Errors::new();
    stateful_set_spec(&mut before, old_spec, &opts);
    opts.template_kept = !before.is_empty();
    stateful_set_spec(errs, spec, &opts);
    if !stateful_rest_kept(spec, old_spec) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                      'template', 'updateStrategy', 'revisionHistoryLimit', \
                      'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errs.forbidden(Path::root("spec"), detail);
    }
}

fn stateful_rest_kept(spec: &Value, old: &Value) -> bool {
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

pub(super) fn stateful_set_status_update(errs: &mut Errors, new: &Value, old: &Value) {
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
    within(errs, path, status, PARTS);
    available_within_ready(errs, path, status, "cannot be greater than status.readyReplicas");
    builtin_update(errs, new, old);
    collisions_kept(errs, path, status, old.at("status"));
}

pub(super) fn controller_revision(errs: &mut Errors, revision: &Value) {
    revision_common(errs, revision);
    let path = Path::root("data");
    match revision.at("data") {
        Value::Null => errs.required(path, "data is mandatory"),
        Value::Object(_) => {}
        _ => errs.required(path, "data must be a valid JSON object"),
    }
}

fn revision_common(errs: &mut Errors, revision: &Value) {
    builtin_create(errs, revision, true, NameRule::Subdomain);
    checks::non_negative(errs, Path::root("revision"), revision.int("revision"));
}

pub(super) fn controller_revision_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    revision_common(errs, new);
    let (data, before) = (new.at("data"), old.at("data"));
    if data != before {
        let shown = Printed(Ty::Any, data);
        errs.invalid_printed(Path::root("data"), shown, checks::IMMUTABLE);
    }
}

pub(super) fn pod_template(errs: &mut Errors, template: &Value, old: Option<&Value>) {
    match old {
        None => builtin_create(errs, template, true, NameRule::Subdomain),
        Some(old) => builtin_update(errs, template, old),
    }
    let opts = old.map_or(PodOptions::CREATE, |old| PodOptions::for_update(old.at("template")));
    pod::template(errs, Path::root("template"), template.at("template"), &opts);
}
