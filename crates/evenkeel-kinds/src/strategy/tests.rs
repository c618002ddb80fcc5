//! Objects as sent by clients, compared with the responses of kube-apiserver 1.36.3.
//!
//! Each case was created with `dryRun=All`. `sent` is the manifest conformed to its Go type.
//! `created` is the response without the fields set by admission plugins and allocators, with `UID`
//! and `NOW` for the UID and all times. `warnings` are the warning headers.

mod create;
mod table;
mod update;

use std::collections::BTreeMap;

use evenkeel_types::Gvk;
use serde_json::Value;

use super::{Context, User};

/// The request context of the cases.
const CONTEXT: Context<'_> = Context {
    user: User { name: "admin", uid: "1", groups: &[], extra: &BTreeMap::new() },
    now: "NOW",
    labels_from_template: false,
};

fn gvk(value: &Value) -> Gvk<'_> {
    let part = |at: usize| value[at].as_str().expect("group, version and kind are strings");
    Gvk::new(part(0), part(1), part(2))
}
