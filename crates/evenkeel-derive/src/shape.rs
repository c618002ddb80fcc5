//! What a Rust type is in JSON, as far as its name shows it.

use syn::{GenericArgument, PathArguments, Type};

/// The JSON type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Number,
    Boolean,
    List,
    Map,
    /// A struct, an enum, an alias or a type of another crate.
    Unknown,
}

impl Shape {
    /// Returns the shape of a type, and the type of its elements if it is a list. `Option` and smart
    /// pointers have the shape of their content.
    pub(crate) fn of(kind: &Type) -> (Self, Option<&Type>) {
        match kind {
            Type::Array(array) => return (Self::List, Some(&array.elem)),
            Type::Slice(slice) => return (Self::List, Some(&slice.elem)),
            Type::Reference(reference) => return Self::of(&reference.elem),
            Type::Paren(paren) => return Self::of(&paren.elem),
            Type::Group(group) => return Self::of(&group.elem),
            _ => {}
        }
        let Type::Path(path) = kind else { return (Self::Unknown, None) };
        let Some(last) = path.path.segments.last() else { return (Self::Unknown, None) };
        let first = match &last.arguments {
            PathArguments::AngleBracketed(arguments) => {
                arguments.args.iter().find_map(|argument| match argument {
                    GenericArgument::Type(kind) => Some(kind),
                    _ => None,
                })
            }
            _ => None,
        };
        match (last.ident.to_string().as_str(), first) {
            ("Option" | "Box" | "Arc" | "Rc" | "Cow", Some(content)) => Self::of(content),
            ("Vec" | "VecDeque" | "BTreeSet" | "HashSet", element) => (Self::List, element),
            ("BTreeMap" | "HashMap", _) => (Self::Map, None),
            ("String" | "str" | "char", None) => (Self::Text, None),
            ("bool", None) => (Self::Boolean, None),
            (
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64"
                | "i128" | "isize" | "f32" | "f64",
                None,
            ) => (Self::Number, None),
            _ => (Self::Unknown, None),
        }
    }

    /// Describes a field of this shape.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Unknown => "this type",
        }
    }
}
