//! The stages of a write, run one at a time.

use std::collections::BTreeMap;
use std::hint::black_box;

use evenkeel_kinds::strategy::{Context, User};
use evenkeel_kinds::{columns, convert, defaults, strategy, validate};
use evenkeel_types::{Gvk, Type};
use serde_json::Value;

use crate::grown::altered;

/// An object and a changed object that replaces it.
pub(crate) struct Write {
    gvk: Gvk<'static>,
    ty: &'static Type,
    old: Value,
    new: Value,
}

impl Write {
    pub(crate) fn new(gvk: Gvk<'static>, ty: &'static Type, old: Value) -> Self {
        let new = altered(&old);
        Self { gvk, ty, old, new }
    }
}

/// One stage of a write.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    run: fn(&Write),
}

impl Stage {
    pub(crate) fn run(&self, write: &Write) {
        (self.run)(write);
    }
}

pub(crate) const ALL: &[Stage] = &[
    Stage { name: "decode", run: |w| drop(evenkeel_types::conform(w.ty, &mut w.old.clone())) },
    Stage { name: "default", run: |w| _ = black_box(defaults::apply(w.gvk, &mut w.old.clone())) },
    Stage { name: "prepare to create", run: prepare_to_create },
    Stage { name: "prepare to update", run: prepare_to_update },
    Stage { name: "validate a creation", run: |w| print(&validate::create(w.gvk, &w.old)) },
    Stage { name: "validate an update", run: |w| print(&validate::update(w.gvk, &w.new, &w.old)) },
    Stage { name: "validate no update", run: |w| print(&validate::update(w.gvk, &w.old, &w.old)) },
    Stage {
        name: "validate a status",
        run: |w| print(&validate::status_update(w.gvk, &w.new, &w.old)),
    },
    Stage { name: "validate a subresource", run: validate_subresources },
    Stage { name: "warn", run: warn },
    Stage { name: "print columns", run: |w| drop(columns::row(w.gvk, &w.old, 0)) },
    Stage { name: "convert", run: convert_to_all },
];

fn prepare_to_create(w: &Write) {
    let mut object = w.old.clone();
    with_context(|cx| strategy::prepare_for_create(w.gvk, &mut object, cx));
    strategy::canonicalize(w.gvk, &mut object);
}

fn prepare_to_update(w: &Write) {
    with_context(|cx| {
        strategy::prepare_for_update(w.gvk, &w.old, &mut w.new.clone(), cx);
        strategy::prepare_for_status_update(w.gvk, &w.old, &mut w.new.clone(), cx);
    });
}

fn validate_subresources(w: &Write) {
    let subresources: &[&str] = match w.gvk.kind {
        "Pod" => &["ephemeralcontainers", "resize"],
        "Namespace" => &["finalize"],
        "CertificateSigningRequest" => &["approval"],
        _ => &[],
    };
    for subresource in subresources {
        print(&validate::subresource_update(w.gvk, subresource, &w.new, &w.old));
    }
}

fn warn(w: &Write) {
    drop(strategy::warnings::on_create(w.gvk, &w.old));
    drop(strategy::warnings::on_update(w.gvk, &w.old, &w.new));
}

fn convert_to_all(w: &Write) {
    for sibling in convert::convertible_kinds(w.gvk) {
        drop(convert::to(w.gvk, *sibling, &mut w.old.clone()));
    }
}

/// Formats errors as in a response.
fn print(errors: &[evenkeel_schema::field::Error]) {
    black_box(errors.iter().map(ToString::to_string).collect::<Vec<_>>());
}

fn with_context(run: impl FnOnce(&Context<'_>)) {
    let extra = BTreeMap::new();
    let user = User { name: "admin", uid: "", groups: &[], extra: &extra };
    run(&Context { user, now: "2026-01-02T03:04:05Z", labels_from_template: false });
}
