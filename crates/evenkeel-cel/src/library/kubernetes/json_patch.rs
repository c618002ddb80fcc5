//! `jsonpatch.escapeKey`: keys in the paths of JSON patches.

use super::text;
use crate::{Error, Function, Overload, Type, Value};

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new("jsonpatch.escapeKey").overload(Overload::global(
        "string_jsonpatch_escapeKey_string",
        [Type::String],
        Type::String,
        |values| {
            let key = text(values.first().ok_or_else(Error::no_such_overload)?)?;
            Ok(Value::from(key.replace('~', "~0").replace('/', "~1")))
        },
    ))]
}
