//! Services: cluster IPs and node ports, and the endpoints of deleted Services.

mod addresses;

pub(crate) mod allocator;

use std::sync::Arc;

use evenkeel_kinds::strategy;
use serde_json::Value;

use self::addresses::Addresses;
use self::allocator::{AllocateError, Allocator};
use crate::codec;
use crate::context::{Core, HookFuture, Hooks, RequestContext, Reservation};
use crate::pipeline;
use crate::pipeline::prepare::invalid;
use crate::registry::resource::Part;
use crate::request::delete_options::DeleteOptions;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::Record;

/// The hooks of Services.
pub(super) struct Services {
    allocator: Allocator,
    addresses: Addresses,
}

impl Services {
    pub(super) fn new(allocator: Allocator) -> Self {
        Self { allocator, addresses: Addresses::default() }
    }

    fn allocate(
        &self,
        cx: &RequestContext,
        service: &mut Value,
        old: Option<&Value>,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        match self.allocator.allocate(service, old, cx.is_dry_run()) {
            Ok(reservation) => Ok(Some(Box::new(reservation))),
            Err(AllocateError::Invalid(errors)) => Err(invalid(cx, service, &errors)),
            Err(AllocateError::Failed(status)) => Err(status),
        }
    }
}

impl Hooks for Services {
    fn begin_create(
        &self,
        cx: &RequestContext,
        service: &mut Value,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        // A Service created through its status subresource gets no address.
        if cx.subresource.is_some() {
            return Ok(None);
        }
        strategy::before_allocation_on_create(service);
        self.allocate(cx, service, None)
    }

    fn begin_update(
        &self,
        cx: &RequestContext,
        service: &mut Value,
        old: &Value,
        part: Part<'_>,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        if part != Part::Main {
            return Ok(None);
        }
        strategy::before_allocation_on_update(old, service);
        self.allocate(cx, service, Some(old))
    }

    fn update_view(&self, current: &Value) -> Option<Value> {
        strategy::service_as_stored(current)
    }

    fn status_view(&self, cx: &RequestContext, record: &Record) -> Option<Value> {
        strategy::service_as_stored(&codec::value(&cx.resource, record).ok()?)
    }

    fn after_write<'a>(
        &'a self,
        cx: &'a RequestContext,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        Some(Box::pin(self.addresses.update(&cx.core, record)))
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        last: &'a Value,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        self.allocator.release(last);
        Some(Box::pin(async move {
            self.addresses.remove(&cx.core, record).await;
            remove_endpoints(cx, record).await;
        }))
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        Some(Box::pin(async move {
            for record in super::stored(core, "", "services")? {
                self.allocator.restore(&record);
                self.addresses.update(core, &record).await;
            }
            Ok(())
        }))
    }
}

/// Deletes the endpoints of a deleted Service: a new Service of the same name must not use them.
async fn remove_endpoints(cx: &RequestContext, service: &Record) {
    let Some(endpoints) = cx.core.builtin("", "endpoints") else { return };
    let internal = RequestContext::internal(&cx.core, &endpoints, Verb::Delete, &service.key, None);
    let options = DeleteOptions::default();
    if let Err(status) = pipeline::delete_internal(&internal, service.key.name(), &options).await
        && status.code() != 404
    {
        tracing::warn!(
            service = %service.key,
            why = status.message(),
            "cannot delete the endpoints of a deleted service"
        );
    }
}
