//! The admission plugins of a server, in the order they run. The plugins themselves are in
//! `admission/`.

use serde_json::Value;

use super::{HookFuture, RequestContext, Reservation};
use crate::object::Metadata as _;
use crate::status::Status;

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// The attributes of a write that plugins read.
pub(crate) struct Attributes<'a> {
    pub(crate) cx: &'a RequestContext,
    pub(crate) operation: Operation,
    /// The object to be stored; `None` on delete.
    pub(crate) object: Option<&'a mut Value>,
    /// The stored object; `None` on create.
    pub(crate) old: Option<&'a Value>,
}

impl Attributes<'_> {
    /// Returns the name of the object in errors. A name that is not generated yet is shown as its
    /// prefix.
    pub(crate) fn name(&self) -> &str {
        let object = self.object.as_deref();
        let names = [
            self.cx.name(),
            object.map_or("", |object| object.meta_str("name")),
            object.map_or("", |object| object.meta_str("generateName")),
        ];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }

    /// Returns the error of a rejected write.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.cx.resource.group_resource(), self.name(), why)
    }
}

/// What admission has reserved for a write, if anything.
pub(crate) type Reserved = Option<Box<dyn Reservation>>;

/// An admission plugin. All methods do nothing by default.
pub(crate) trait Plugin: Send + Sync {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    /// Reserves what the write uses. Runs after all plugins have validated it.
    fn reserve<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Option<HookFuture<'a, Result<Reserved, Status>>> {
        let _ = attributes;
        None
    }
}

/// The enabled plugins, in the order they run.
pub(crate) struct Chain(Vec<Box<dyn Plugin>>);

impl Chain {
    pub(crate) fn new(plugins: Vec<Box<dyn Plugin>>) -> Self {
        Self(plugins)
    }

    /// Runs mutating admission. Async, so that a plugin can call a webhook at this place; the
    /// plugins of this server do not await, so nothing is boxed or suspended.
    pub(crate) async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|plugin| plugin.mutate(attributes))
    }

    /// Runs validating admission. Async for the same reason as [`mutate`](Self::mutate).
    pub(crate) async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|plugin| plugin.validate(attributes))
    }

    /// Reserves what the write uses, once it is valid.
    pub(crate) async fn reserve(&self, attributes: &Attributes<'_>) -> Result<Reserved, Status> {
        for plugin in &self.0 {
            if let Some(reserve) = plugin.reserve(attributes) {
                return reserve.await;
            }
        }
        Ok(None)
    }
}
