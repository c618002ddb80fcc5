//! The position of a walk, and Go's error messages for values of the wrong type.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Custom, Expr, Field, Shape, Type, go};

/// A value that cannot be decoded into the type, with the API server's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeMismatch(String);

impl TypeMismatch {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The position of a value: a linked list on the stack, formatted only for errors.
pub(super) enum Place<'a> {
    Root,
    Field { of: &'static Type, field: &'static Field, parent: &'a Place<'a> },
    Key { key: &'a str, parent: &'a Place<'a> },
    Index { index: usize, parent: &'a Place<'a> },
}

impl Place<'_> {
    /// Returns the path of a field of the current object, such as `spec.containers[0].imag`.
    pub(super) fn child_path(&self, key: &str) -> String {
        let mut path = String::new();
        self.write_path(&mut path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        path
    }

    fn write_path(&self, path: &mut String) {
        let (parent, name) = match self {
            Self::Root => return,
            Self::Index { index, parent } => {
                parent.write_path(path);
                let _ = write!(path, "[{index}]");
                return;
            }
            Self::Field { field, parent, .. } => (parent, field.name),
            Self::Key { key, parent } => (parent, *key),
        };
        parent.write_path(path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }

    pub(super) fn mismatch(&self, value: &Value, go_type: &str) -> TypeMismatch {
        self.cannot_unmarshal(go::json_kind(value), go_type)
    }

    /// A number of the right type that is out of range.
    pub(super) fn number(&self, text: &str, expr: Expr) -> TypeMismatch {
        self.cannot_unmarshal(&format!("number {text}"), &expr.go_type())
    }

    pub(super) fn cannot_unmarshal(&self, kind: &str, go_type: &str) -> TypeMismatch {
        let mut context = Context::default();
        self.write_context(&mut context);
        let Context { of, fields, .. } = context;
        TypeMismatch(match of {
            Some(of) => {
                format!(
                    "json: cannot unmarshal {kind} into Go struct field {of}.{fields} of type {go_type}"
                )
            }
            None => format!("json: cannot unmarshal {kind} into Go value of type {go_type}"),
        })
    }

    fn write_context(&self, context: &mut Context) {
        match self {
            Self::Root => {}
            Self::Key { parent, .. } | Self::Index { parent, .. } => parent.write_context(context),
            Self::Field { of, field, parent } => {
                parent.write_context(context);
                if !context.nested {
                    context.of = Some(of.short_name());
                }
                context.nested |= decodes_itself(field.shape);
                let mut declared = (*of, *field);
                while let Some(embed) = declared.1.embed {
                    let embed = &declared.0.embeds[embed as usize];
                    context.push(embed.name);
                    let Some(inner) = embed.ty.get().field(field.name) else { break };
                    declared = (embed.ty.get(), inner);
                }
                context.push(field.name);
            }
        }
    }
}

/// The context of Go's decoder: the current struct, and field names without indices.
#[derive(Default)]
struct Context {
    of: Option<&'static str>,
    fields: String,
    /// Inside a type that decodes itself: the outer decoder still reports the struct it was in.
    nested: bool,
}

impl Context {
    fn push(&mut self, name: &str) {
        if !self.fields.is_empty() {
            self.fields.push('.');
        }
        self.fields.push_str(name);
    }
}

fn decodes_itself(shape: Shape) -> bool {
    match shape {
        Shape::List(element) | Shape::Map { value: element, .. } => decodes_itself(element.shape()),
        Shape::Custom(custom, _) => matches!(
            custom,
            Custom::JsonSchemaPropsOrArray
                | Custom::JsonSchemaPropsOrBool
                | Custom::JsonSchemaPropsOrStringArray
        ),
        _ => false,
    }
}
