//! The managed fields of objects that are sent to a subresource and not stored: only admission sees
//! them.

use std::sync::OnceLock;

use evenkeel_apply::ObjectType;
use evenkeel_apply::managed::{self, Request, SingleVersion};
use evenkeel_types::Gvk;
use serde_json::Value;

use crate::context::RequestContext;
use crate::pipeline::manage::types::builtin_type;
use crate::request::query::WriteOptions;

/// A kind whose objects are sent to a subresource.
pub(super) struct SentKind {
    pub(super) gvk: Gvk<'static>,
    version: OnceLock<SingleVersion>,
}

impl SentKind {
    pub(super) const fn new(gvk: Gvk<'static>) -> Self {
        Self { gvk, version: OnceLock::new() }
    }

    /// Sets the managed fields of a sent object; `empty` is an object without content.
    pub(super) fn set_managed_fields(
        &self,
        cx: &RequestContext,
        object: &mut Value,
        mut empty: Value,
        options: &WriteOptions,
    ) {
        let api_version = self.gvk.api_version();
        empty["kind"] = self.gvk.kind.into();
        empty["apiVersion"] = api_version.clone().into();
        let versions = self.version.get_or_init(|| {
            let ty = evenkeel_types::lookup(self.gvk);
            let object_type = ty.map_or_else(ObjectType::deduced, builtin_type);
            SingleVersion { api_version: api_version.clone(), object_type }
        });
        let manager = cx.field_manager(options.field_manager.as_deref());
        let update = Request {
            versions,
            api_version: &api_version,
            kind: self.gvk.kind,
            subresource: cx.subresource.as_deref().unwrap_or_default(),
            reset_fields: &[],
            empty_object: &empty,
            manager: &manager,
            now: &cx.core.clock_rng.timestamp(),
        };
        if let Err(why) = managed::update(&update, None, object) {
            tracing::warn!(kind = self.gvk.kind, %why, "managed fields were dropped");
        }
    }
}
