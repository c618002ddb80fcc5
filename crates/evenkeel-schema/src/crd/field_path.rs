//! Resolves field paths against the schema of a CRD.

use super::schema::{Additional, Schema};

/// Follows the path through the schema. Returns its steps and the schema at its end.
pub(super) fn resolve<'a>(
    path: &str,
    schema: Schema<'a>,
    brackets: bool,
) -> Result<(Vec<String>, Schema<'a>), String> {
    crate::field_path::resolve(path, schema, brackets, descend)
}

fn descend<'a>(schema: Schema<'a>, name: &str) -> Result<Schema<'a>, String> {
    let found = if schema.properties().is_empty() {
        match schema.additional() {
            Some(Additional::Schema(child)) => Some(child),
            Some(Additional::Allowed(_)) | None => None,
        }
    } else {
        schema.property(name)
    };
    found.ok_or_else(|| "does not refer to a valid field".to_owned())
}
