//! Prepares Jobs and DaemonSets.

use serde_json::Value;

use super::{Context, semantic};
use crate::defaults::set::{self, Object};

/// Sets the selector of a Job to its UID, unless `manualSelector` is set.
pub(super) fn generate_selector(job: &mut Object, cx: &Context<'_>) {
    let manual = set::get(job, "spec")
        .and_then(|spec| spec.get("manualSelector"))
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if manual {
        return;
    }
    let metadata = set::get(job, "metadata");
    let field = |key| Value::from(metadata.map_or("", |metadata| set::string(metadata, key)));
    let (name, uid) = (field("name"), field("uid"));
    // A Job without labels gets those of its template when it is next read and defaulted.
    let unlabelled = metadata.is_none_or(|metadata| set::is_empty(metadata.get("labels")));
    let Some(spec) = set::structure(job, "spec") else { return };
    let labels = set::structure(spec, "template")
        .and_then(|template| set::structure(template, "metadata"))
        .and_then(|metadata| set::structure(metadata, "labels"));
    if let Some(labels) = labels {
        for (key, value) in [
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            (UID, &uid),
        ] {
            if !labels.contains_key(key) {
                labels.insert(key.to_owned(), value.clone());
            }
        }
    }
    let shared =
        labels_of_template(spec).filter(|_| cx.labels_from_template || unlabelled).cloned();
    let selected = set::structure(spec, "selector")
        .and_then(|selector| set::structure(selector, "matchLabels"));
    if let Some(selected) = selected
        && !selected.contains_key(UID)
    {
        selected.insert(UID.to_owned(), uid);
    }
    if let Some(labels) = shared
        && let Some(metadata) = set::structure(job, "metadata")
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn labels_of_template(spec: &Object) -> Option<&Value> {
    set::get(set::get(spec, "template")?, "metadata")?.get("labels")
}

const UID: &str = "batch.kubernetes.io/controller-uid";

/// Annotation with the number of template changes, a field in extensions/v1beta1.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Sets the template generation of a new DaemonSet to at least 1.
pub(super) fn create_daemon_set(object: &mut Object) {
    let generation = template_generation(object).max(1);
    set_template_generation(object, generation);
}

/// Increments the template generation if the template changes.
pub(super) fn update_daemon_set(old: &Object, new: &mut Object) {
    let template =
        |object: &Object| set::get(object, "spec").and_then(|spec| spec.get("template")).cloned();
    let changed = !semantic::equal(template(old).as_ref(), template(new).as_ref());
    set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
}

/// Keeps the template generation on updates through subresources.
pub(super) fn keep_template_generation(old: &Object, new: &mut Object) {
    set_template_generation(new, template_generation(old));
}

/// Returns the template generation of a DaemonSet.
pub(super) fn template_generation(object: &Object) -> i64 {
    set::get(object, "metadata")
        .and_then(|metadata| set::get(metadata, "annotations"))
        .and_then(|annotations| set::string(annotations, TEMPLATE_GENERATION).parse().ok())
        .unwrap_or(0)
}

pub(super) fn set_template_generation(object: &mut Object, generation: i64) {
    let annotations = set::structure(object, "metadata")
        .and_then(|metadata| set::structure(metadata, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string().into());
    }
}
