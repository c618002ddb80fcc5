//! Which attributes fit which types.

use syn::{Attribute, Data, DeriveInput, Error, Field, Type};

use crate::attribute::{Part, parts, split};
use crate::shape::Shape::{self, List, Map, Number, Text};

/// The attributes of `schemars` that have an effect on some types only.
const ATTRIBUTES: &[(&str, &[Shape])] = &[
    ("contains", &[Text]),
    ("email", &[Text]),
    ("inner", &[List]),
    ("length", &[Text, List]),
    ("pattern", &[Text]),
    ("range", &[Number]),
    ("regex", &[Text]),
    ("url", &[Text]),
];

const ANY: &[Shape] = &[];

/// The keywords of the schema of a CRD, and the types that they constrain.
const KEYWORDS: &[(&str, &[Shape])] = &[
    ("additionalProperties", ANY),
    ("allOf", ANY),
    ("anyOf", ANY),
    ("default", ANY),
    ("description", ANY),
    ("enum", ANY),
    ("example", ANY),
    ("exclusiveMaximum", &[Number]),
    ("exclusiveMinimum", &[Number]),
    ("externalDocs", ANY),
    ("format", ANY),
    ("items", &[List]),
    ("maxItems", &[List]),
    ("maxLength", &[Text]),
    ("maxProperties", &[Map]),
    ("maximum", &[Number]),
    ("minItems", &[List]),
    ("minLength", &[Text]),
    ("minProperties", &[Map]),
    ("minimum", &[Number]),
    ("multipleOf", &[Number]),
    ("not", ANY),
    ("nullable", ANY),
    ("oneOf", ANY),
    ("pattern", &[Text]),
    ("properties", ANY),
    ("required", ANY),
    ("title", ANY),
    ("type", ANY),
    ("uniqueItems", &[List]),
    ("x-kubernetes-embedded-resource", ANY),
    ("x-kubernetes-int-or-string", ANY),
    ("x-kubernetes-list-map-keys", &[List]),
    ("x-kubernetes-list-type", &[List]),
    ("x-kubernetes-map-type", &[Map]),
    ("x-kubernetes-preserve-unknown-fields", ANY),
    ("x-kubernetes-validations", ANY),
];

/// Returns an error for each attribute that would be dropped.
pub(crate) fn check(input: &DeriveInput) -> Vec<Error> {
    let mut errors = Vec::new();
    for part in parts(&input.attrs, "schemars") {
        check_part(&part, Shape::Unknown, None, &mut errors);
    }
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    for field in fields {
        let (shape, element) = match is_replaced(&field.attrs) {
            true => (Shape::Unknown, None),
            false => Shape::of(&field.ty),
        };
        for part in parts(&field.attrs, "schemars") {
            check_part(&part, shape, element, &mut errors);
        }
    }
    errors
}

/// Returns whether the schema of a field is not that of its type.
fn is_replaced(attributes: &[Attribute]) -> bool {
    let mut all = parts(attributes, "schemars");
    all.extend(parts(attributes, "serde"));
    all.iter().any(|part| ["with", "schema_with"].contains(&part.name.as_str()))
}

fn check_part(part: &Part, shape: Shape, element: Option<&Type>, errors: &mut Vec<Error>) {
    if part.name == "extend" {
        for keyword in split(part.arguments.clone()) {
            match KEYWORDS.iter().find(|(name, _)| *name == keyword.name) {
                Some((_, shapes)) => check_shape(&keyword, shapes, shape, errors),
                None => errors.push(unknown_keyword(&keyword)),
            }
        }
        return;
    }
    if let Some((_, shapes)) = ATTRIBUTES.iter().find(|(name, _)| *name == part.name) {
        check_shape(part, shapes, shape, errors);
    }
    if let ("inner", Some(element)) = (part.name.as_str(), element) {
        let (shape, element) = Shape::of(element);
        for part in split(part.arguments.clone()) {
            check_part(&part, shape, element, errors);
        }
    }
}

fn check_shape(part: &Part, shapes: &[Shape], shape: Shape, errors: &mut Vec<Error>) {
    if shape == Shape::Unknown || shapes.is_empty() || shapes.contains(&shape) {
        return;
    }
    let fitting: Vec<_> = shapes.iter().map(|shape| shape.describe()).collect();
    let (name, found, fitting) = (&part.name, shape.describe(), fitting.join(" or "));
    let message = format!("`{name}` has no effect on {found}: it needs {fitting}");
    errors.push(Error::new(part.span, message));
}

fn unknown_keyword(keyword: &Part) -> Error {
    let name = &keyword.name;
    let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
    let similar = KEYWORDS.iter().find(|(known, _)| plain(known) == plain(name));
    let hint = similar.map(|(known, _)| format!("; did you mean `{known}`?")).unwrap_or_default();
    Error::new(keyword.span, format!("`{name}` is not a keyword of the schema of a CRD{hint}"))
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn messages(input: &DeriveInput) -> Vec<String> {
        check(input).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn attributes_that_fit_are_accepted() {
        let input: DeriveInput = parse_quote! {
            #[schemars(title = "Spec", extend("x-kubernetes-preserve-unknown-fields" = true))]
            struct Spec {
                #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z,]+$"))]
                name: String,
                #[schemars(range(min = 1), extend("multipleOf" = 2))]
                replicas: Option<i32>,
                #[schemars(length(min = 1), inner(length(min = 1)))]
                hosts: Vec<String>,
                #[schemars(extend("minProperties" = 1))]
                labels: std::collections::BTreeMap<String, String>,
                #[schemars(length(min = 1))]
                alias: Name,
                #[schemars(with = "String", length(min = 1))]
                port: i32,
                #[serde(default)]
                plain: bool,
            }
        };
        assert_eq!(messages(&input), [""; 0]);
    }

    #[test]
    fn attributes_without_effect_are_errors() {
        let input: DeriveInput = parse_quote! {
            struct Spec {
                #[schemars(length(min = 1))]
                replicas: Option<i32>,
                #[schemars(range(max = 3))]
                name: String,
                #[schemars(length(max = 3))]
                labels: BTreeMap<String, String>,
                #[schemars(inner(range(min = 1)))]
                hosts: Vec<String>,
                #[schemars(extend("x-kubernetes-list-type" = "set"))]
                paused: bool,
            }
        };
        let expected = [
            "`length` has no effect on a number: it needs a string or a list",
            "`range` has no effect on a string: it needs a number",
            "`length` has no effect on a map: it needs a string or a list",
            "`range` has no effect on a string: it needs a number",
            "`x-kubernetes-list-type` has no effect on a boolean: it needs a list",
        ];
        assert_eq!(messages(&input), expected);
    }

    #[test]
    fn unknown_keywords_are_errors_also_on_types_and_variants() {
        let input: DeriveInput = parse_quote! {
            #[schemars(extend("x-kubernetes-validation" = []))]
            enum Mode {
                Custom {
                    #[schemars(extend("minlength" = 1, "maxLength" = 2))]
                    name: String,
                },
            }
        };
        let expected = [
            "`x-kubernetes-validation` is not a keyword of the schema of a CRD",
            "`minlength` is not a keyword of the schema of a CRD; did you mean `minLength`?",
        ];
        assert_eq!(messages(&input), expected);
    }
}
