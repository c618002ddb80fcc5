//! `DenyServiceExternalIPs`: no Service gets new external IPs. Disabled by default.

use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;

pub(super) struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let applies = writes && cx.resource.is("", "services") && cx.subresource.is_none();
        let Some(new) = attributes.object.as_deref().filter(|_| applies) else { return Ok(()) };
        let before = attributes.old.map_or(&[][..], external_ips);
        if external_ips(new).iter().all(|ip| before.contains(ip)) {
            return Ok(());
        }
        Err(attributes.forbidden("Use of external IPs is denied by admission control"))
    }
}

fn external_ips(service: &Value) -> &[Value] {
    service.pointer("/spec/externalIPs").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
