//! Objects as clients send them, and as kube-apiserver 1.36.3 answers.
//!
//! Each case was created with `dryRun=All`: `sent` is the manifest conformed to its Go type,
//! `created` the answer without what admission plugins and allocators add, with `UID` and `NOW`
//! for the uid and all times, and `warnings` what stood in the headers.

mod create;
mod table;
mod update;

use std::collections::BTreeMap;

use evenkeel_types::Gvk;
use serde_json::Value;

use super::{Context, User};

/// The request of the cases.
const CONTEXT: Context<'_> = Context {
    user: User { name: "admin", uid: "1", groups: &[], extra: &BTreeMap::new() },
    now: "NOW",
    labels_from_template: false,
};

fn gvk(value: &Value) -> Gvk<'_> {
    let part = |at: usize| value[at].as_str().expect("group, version and kind");
    Gvk::new(part(0), part(1), part(2))
}
