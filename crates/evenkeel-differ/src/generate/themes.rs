//! Themes of sequences. The steps of a theme depend on each other; those of a mixed sequence are
//! random.

mod compaction;

mod conversion;

mod fields;

mod forms;

mod identity;

mod crds;

mod limits;

mod nulls;

mod pages;

mod pods;

mod quota;

mod rbac;

mod rules;

mod watches;

mod webhooks;

mod writers;

use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use super::random::Random;
use super::steps::{self, collection};
use crate::sequence::{Step, set_at};

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// The theme of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Theme {
    /// Requests that operators send every day.
    Mixed,
    /// CRDs created, changed and deleted while in use, with discovery and OpenAPI.
    Crds,
    /// Any field of the built-in kinds, with valid and invalid values.
    Fields,
    /// Watches and streaming lists: opened, with selectors, resumed.
    Watches,
    /// Lists, pages and watches after a compaction.
    Compaction,
    /// Paginated lists, continued after writes.
    Pages,
    /// Concurrent writers.
    Writers,
    /// Pods and other kinds with special subresources.
    Pods,
    /// Requests that are too deep, too large, too many or malformed.
    Limits,
    /// Impersonation and timeouts.
    Identity,
    /// Nulls in fields that have a value.
    Nulls,
    /// The same objects as protobuf, as metadata, as tables and as YAML.
    Forms,
    /// Validation rules of CRDs.
    Rules,
    /// Roles, bindings and what they allow.
    Rbac,
    /// Admission webhooks.
    Webhooks,
    /// Custom objects that a webhook converts.
    Conversion,
    /// Quotas and limit ranges.
    Quota,
}

impl Theme {
    /// All themes.
    pub const ALL: [Self; 17] = [
        Self::Mixed,
        Self::Crds,
        Self::Fields,
        Self::Watches,
        Self::Compaction,
        Self::Pages,
        Self::Writers,
        Self::Pods,
        Self::Limits,
        Self::Identity,
        Self::Nulls,
        Self::Forms,
        Self::Rules,
        Self::Rbac,
        Self::Webhooks,
        Self::Conversion,
        Self::Quota,
    ];

    /// Returns the prefix of its sequences' names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "seed",
            Self::Crds => "definitions",
            Self::Fields => "fields",
            Self::Watches => "watches",
            Self::Compaction => "compaction",
            Self::Pages => "pages",
            Self::Writers => "writers",
            Self::Pods => "pods",
            Self::Limits => "limits",
            Self::Identity => "identity",
            Self::Nulls => "nulls",
            Self::Forms => "forms",
            Self::Rules => "rules",
            Self::Rbac => "rbac",
            Self::Webhooks => "webhooks",
            Self::Conversion => "conversion",
            Self::Quota => "quota",
        }
    }

    /// Returns the theme of the sequence with this number.
    pub(super) fn of(number: u64) -> Self {
        match number % 24 {
            3 | 9 | 15 => Self::Crds,
            1 | 10 => Self::Fields,
            5 | 16 => Self::Watches,
            7 => Self::Pages,
            11 => Self::Writers,
            13 => Self::Pods,
            17 => Self::Limits,
            8 => Self::Identity,
            18 => Self::Nulls,
            14 => Self::Forms,
            12 => Self::Rules,
            19 => Self::Compaction,
            20 => Self::Rbac,
            21 => Self::Webhooks,
            22 => Self::Conversion,
            23 => Self::Quota,
            _ => Self::Mixed,
        }
    }

    /// Returns whether its sequences run only against kube-apiserver, because they configure
    /// webhooks.
    pub(super) fn is_live(self) -> bool {
        matches!(self, Self::Webhooks | Self::Conversion)
    }

    pub(super) fn generate(self, random: &mut Random) -> Vec<Step> {
        match self {
            Self::Mixed => steps::generate(random),
            Self::Crds => crds::generate(random),
            Self::Fields => fields::generate(random),
            Self::Watches => watches::generate(random),
            Self::Compaction => compaction::generate(random),
            Self::Pages => pages::generate(random),
            Self::Writers => writers::generate(random),
            Self::Pods => pods::generate(random),
            Self::Limits => limits::generate(random),
            Self::Identity => identity::generate(random),
            Self::Nulls => nulls::generate(random),
            Self::Forms => forms::generate(random),
            Self::Rules => rules::generate(random),
            Self::Rbac => rbac::generate(random),
            Self::Webhooks => webhooks::generate(random),
            Self::Conversion => conversion::generate(random),
            Self::Quota => quota::generate(random),
        }
    }
}

/// Returns a random namespaced kind.
fn namespaced(random: &mut Random) -> &'static Kind {
    loop {
        let kind = random.pick(KINDS);
        if kind.namespaced {
            return kind;
        }
    }
}

/// Generates an object of a kind that is most likely valid, with a label for selectors.
fn object(random: &mut Random, kind: &Kind, name: &str) -> Value {
    let mut object = (kind.make)(random);
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.kind.into();
    set_at(&mut object, "/metadata/name", name.into());
    set_at(&mut object, "/metadata/labels", json!({"app": *random.pick(&["x", "y"])}));
    object
}

fn post(path: impl AsRef<str>, body: Value) -> Step {
    Step::call("POST", path).with_body(body)
}

fn get(path: impl AsRef<str>) -> Step {
    Step::call("GET", path)
}

fn patch(path: impl AsRef<str>, content_type: &str, body: Value) -> Step {
    Step::call("PATCH", path).with_body(body).with_type(content_type)
}

fn delete(path: impl AsRef<str>) -> Step {
    Step::call("DELETE", path)
}

/// A PUT of a saved object.
fn put(path: impl AsRef<str>, from: &str) -> Step {
    Step { from: Some(from.to_owned()), ..Step::call("PUT", path) }
}

fn watch(name: &str, path: impl AsRef<str>) -> Step {
    Step { watch: Some(name.to_owned()), ..get(path) }
}

fn read(name: &str) -> Step {
    Step { read: Some(name.to_owned()), ..Step::default() }
}

fn close(name: &str) -> Step {
    Step { close: Some(name.to_owned()), ..Step::default() }
}

impl Step {
    fn accepting(mut self, accept: &str) -> Self {
        self.headers.insert("accept".to_owned(), accept.to_owned());
        self
    }

    fn setting(mut self, pointer: &str, value: Value) -> Self {
        self.set.insert(pointer.to_owned(), value);
        self
    }

    fn saving_field(mut self, name: &str, pointer: &str) -> Self {
        self.save.insert(name.to_owned(), pointer.to_owned());
        self
    }
}

/// Changes a label by one of the patch types.
fn touch(random: &mut Random, kind: &Kind, name: &str) -> Step {
    let path = format!("{}/{name}", collection(kind));
    let value = *random.pick(&["x", "y", "z"]);
    let labels = json!({"metadata": {"labels": {"app": value}}});
    match random.below(4) {
        0 => patch(
            path,
            JSON_PATCH,
            json!([{"op": "replace", "path": "/metadata/labels/app", "value": value}]),
        ),
        1 if !kind.custom => patch(path, STRATEGIC, labels),
        _ => patch(path, MERGE, labels),
    }
}
