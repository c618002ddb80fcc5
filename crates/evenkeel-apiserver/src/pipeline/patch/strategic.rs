//! Strategic merge patch of built-in kinds; the type table defines how each list is merged.

use std::collections::HashMap;
use std::sync::OnceLock;

use evenkeel_apply::patch::{
    PatchField, PatchSchema, PatchStrategy, StrategicError, strategic_merge_patch,
};
use evenkeel_types::{Shape, Type};
use serde_json::{Map, Value};

pub(super) fn apply(
    ty: &'static Type,
    object: Map<String, Value>,
    patch: Map<String, Value>,
) -> Result<Map<String, Value>, StrategicError> {
    strategic_merge_patch(object, patch, of(ty))
}

/// A type of the table as a patch schema.
struct Struct(&'static Type);

/// Scalars and maps whose keys are data.
struct Leaf;

impl PatchSchema for Struct {
    fn field(&self, name: &str) -> Option<PatchField<'_>> {
        let field = self.0.field(name)?;
        let shape = match field.shape {
            Shape::List(element) => element.shape(),
            other => other,
        };
        let schema: &dyn PatchSchema = match shape {
            Shape::Struct(ty) => of(ty.get()),
            Shape::Map { value, .. } => match value.shape() {
                Shape::Struct(ty) => of(ty.get()),
                _ => &Leaf,
            },
            _ => &Leaf,
        };
        let mut strategy = PatchStrategy::Default;
        for name in field.patch_strategies() {
            match name {
                "merge" => strategy = PatchStrategy::Merge,
                "replace" => strategy = PatchStrategy::Replace,
                // `retainKeys` is a directive of the patch, not a merge strategy.
                _ => {}
            }
        }
        Some(PatchField { schema, strategy, merge_key: field.merge_key })
    }

    fn name(&self) -> &str {
        self.0.short_name()
    }
}

impl PatchSchema for Leaf {
    fn field(&self, _: &str) -> Option<PatchField<'_>> {
        None
    }

    fn name(&self) -> &str {
        "string"
    }

    fn is_struct(&self) -> bool {
        false
    }
}

/// Returns the schema of a type. The schemas refer to each other, so they are static.
fn of(ty: &'static Type) -> &'static Struct {
    static ALL: OnceLock<HashMap<&'static str, Struct>> = OnceLock::new();
    let all = ALL.get_or_init(|| evenkeel_types::all().map(|ty| (ty.name, Struct(ty))).collect());
    &all[ty.name]
}
