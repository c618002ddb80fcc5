//! The merge schema of a kind, which managed fields are computed with.

use std::sync::OnceLock;

use evenkeel_apply::ObjectType;
use evenkeel_apply::schema::Schema;
use evenkeel_types::Type;
use serde_json::Value;

use crate::registry::resource::{Resource, TypeInfo};

/// Returns the type of a resource's objects, built on first use.
pub(crate) fn of(resource: &Resource) -> &ObjectType {
    resource.apply_type.get_or_init(|| match &resource.type_info {
        TypeInfo::Builtin(builtin) => builtin_type(builtin.ty),
        TypeInfo::Custom(custom) => match &custom.openapi {
            None => ObjectType::deduced(),
            Some(schema) => Schema::from_structural(schema, false).unwrap_or_else(|why| {
                tracing::warn!(kind = &*resource.kind, %why, "no merge schema, deducing one");
                ObjectType::deduced()
            }),
        },
    })
}

/// Returns what an empty body decodes to.
pub(super) fn zero(resource: &Resource) -> &Value {
    static EMPTY: OnceLock<Value> = OnceLock::new();
    match &resource.type_info {
        TypeInfo::Custom(_) => EMPTY.get_or_init(super::empty),
        TypeInfo::Builtin(builtin) => resource.zero.get_or_init(|| {
            let mut zero = super::empty();
            if let Err(why) = evenkeel_types::conform(builtin.ty, &mut zero) {
                tracing::error!(%why, kind = &*resource.kind, "cannot build the zero value");
            }
            zero
        }),
    }
}

pub(crate) fn builtin_type(ty: &'static Type) -> ObjectType {
    ObjectType::builtin(ty).unwrap_or_else(|why| {
        tracing::error!(%why, name = ty.name, "no merge schema, deducing one");
        ObjectType::deduced()
    })
}
