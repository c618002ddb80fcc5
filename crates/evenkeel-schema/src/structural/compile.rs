//! Compiles `openAPIV3Schema` from JSON to a tree of nodes.

use serde_json::{Map, Value};

use super::{
    Additional, Checks, EnumValues, FormatRule, JsonType, JsonTypes, ListType, Node, Rule,
    Structural, Subtree,
};
use evenkeel_types::format::{self, Format};
use evenkeel_types::pattern::Pattern;
use std::sync::Arc;

/// Why a schema does not compile.
///
/// Never returned for schemas of CRDs that passed [`validate_crd`](crate::validate_crd).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A schema is not a JSON object.
    #[error("a schema must be an object")]
    NotASchema,
    /// `pattern` is not a valid regular expression.
    #[error("{pattern}: {reason}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// The error message of Go's regexp package.
        reason: String,
    },
    /// `items` is a list of schemas.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
}

/// Which of upstream's two schema conversions to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Validates objects. Unrecognized formats are dropped, and int-or-string is a type.
    Resource,
    /// Validates `default` values. Formats are kept, and int-or-string alone is not checked.
    Default,
}

impl Structural {
    /// Compiles the `openAPIV3Schema` of one version.
    pub fn compile(schema: &Value) -> Result<Self, CompileError> {
        let mut root = compile(schema, Purpose::Resource)?;
        super::prune::prune_defaults(&mut root, true);
        Ok(Self { root: Arc::new(root), rules: Arc::default(), scale: None })
    }
}

pub(crate) fn compile(schema: &Value, purpose: Purpose) -> Result<Node, CompileError> {
    compile_map(schema.as_object().ok_or(CompileError::NotASchema)?, purpose)
}

pub(crate) fn compile_map(
    schema: &Map<String, Value>,
    purpose: Purpose,
) -> Result<Node, CompileError> {
    let mut node = Node {
        types: json_types(schema, purpose),
        nullable: flag(schema, "nullable"),
        preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(schema, "x-kubernetes-embedded-resource"),
        default: schema.get("default").filter(|d| !d.is_null()).cloned(),
        list: list_type(schema),
        rules: rules(schema),
        ..Node::default()
    };
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, child) in properties {
            node.properties.push((name.as_str().into(), compile(child, purpose)?));
        }
        node.properties.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    }
    node.additional = match schema.get("additionalProperties") {
        None | Some(Value::Null) => Additional::Unset,
        Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
        Some(child) => Additional::Schema(Box::new(compile(child, purpose)?)),
    };
    node.items = match schema.get("items") {
        None | Some(Value::Null) => None,
        Some(Value::Array(_)) => return Err(CompileError::ItemsArray),
        Some(child) => Some(Box::new(compile(child, purpose)?)),
    };
    node.checks = checks(schema, node.types, purpose)?;
    node.subtree = subtree(&node);
    Ok(node)
}

fn json_types(schema: &Map<String, Value>, purpose: Purpose) -> JsonTypes {
    if purpose == Purpose::Resource && flag(schema, "x-kubernetes-int-or-string") {
        return JsonTypes::IntOrString;
    }
    match text(schema, "type") {
        "" => JsonTypes::Any,
        "object" => JsonTypes::One(JsonType::Object),
        "array" => JsonTypes::One(JsonType::Array),
        "string" => JsonTypes::One(JsonType::String),
        "integer" => JsonTypes::One(JsonType::Integer),
        "number" => JsonTypes::One(JsonType::Number),
        "boolean" => JsonTypes::One(JsonType::Boolean),
        _ => JsonTypes::One(JsonType::Unknown),
    }
}

fn list_type(schema: &Map<String, Value>) -> ListType {
    match text(schema, "x-kubernetes-list-type") {
        "set" => ListType::Set,
        "map" => ListType::Map(strings(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn rules(schema: &Map<String, Value>) -> Vec<Rule> {
    let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) else {
        return Vec::new();
    };
    let rule = |rule: &Value| {
        let get = |key: &str| {
            rule.get(key).and_then(Value::as_str).filter(|s| !s.is_empty()).map(str::to_owned)
        };
        Rule {
            rule: get("rule").unwrap_or_default(),
            message: get("message"),
            message_expression: get("messageExpression"),
            reason: get("reason"),
            field_path: get("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    };
    rules.iter().map(rule).collect()
}

fn checks(
    schema: &Map<String, Value>,
    types: JsonTypes,
    purpose: Purpose,
) -> Result<Option<Box<Checks>>, CompileError> {
    const KEYWORDS: [&str; 19] = [
        "format",
        "maximum",
        "minimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "exclusiveMinimum",
    ];
    if !KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
        return Ok(None);
    }
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let count = |key: &str| schema.get(key).and_then(Value::as_i64);
    let nodes = |key: &str| match schema.get(key).and_then(Value::as_array) {
        Some(list) => list.iter().map(|s| compile(s, purpose)).collect(),
        None => Ok(Vec::new()),
    };
    let pattern = match text(schema, "pattern") {
        "" => None,
        source => Some(
            Pattern::new(source)
                .map_err(|reason| CompileError::Pattern { pattern: source.to_owned(), reason })?,
        ),
    };
    let not = match schema.get("not") {
        None | Some(Value::Null) => None,
        Some(node) => Some(Box::new(compile(node, purpose)?)),
    };
    Ok(Some(Box::new(Checks {
        format: format_rule(text(schema, "format"), types, purpose),
        maximum: number("maximum"),
        exclusive_maximum: flag(schema, "exclusiveMaximum"),
        minimum: number("minimum"),
        exclusive_minimum: flag(schema, "exclusiveMinimum"),
        multiple_of: number("multipleOf"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        pattern,
        max_items: count("maxItems"),
        min_items: count("minItems"),
        unique_items: flag(schema, "uniqueItems"),
        max_properties: count("maxProperties"),
        min_properties: count("minProperties"),
        required: strings(schema, "required"),
        enum_values: EnumValues::new(schema.get("enum").and_then(Value::as_array)),
        all_of: nodes("allOf")?,
        any_of: nodes("anyOf")?,
        one_of: nodes("oneOf")?,
        not,
    })))
}

fn format_rule(name: &str, types: JsonTypes, purpose: Purpose) -> Option<(Box<str>, FormatRule)> {
    if name.is_empty() {
        return None;
    }
    let type_name = match types {
        JsonTypes::Any | JsonTypes::IntOrString => "",
        JsonTypes::One(json_type) => json_type.name(),
    };
    let rule = if format::is_recognized(type_name, name) || purpose == Purpose::Default {
        match (type_name, name) {
            ("integer", "int32") => FormatRule::Int32,
            ("integer", "int64") => FormatRule::Int64,
            ("number", "float") => FormatRule::Float,
            ("number", "double") => FormatRule::Double,
            _ => Format::from_name(name).map_or(FormatRule::Ignored, FormatRule::Text),
        }
    } else {
        return None;
    };
    Some((name.into(), rule))
}

fn subtree(node: &Node) -> Subtree {
    let mut subtree = Subtree {
        defaults: node.default.is_some(),
        embedded: node.embedded,
        lists: node.list != ListType::Atomic,
        rules: !node.rules.is_empty(),
    };
    let additional = match &node.additional {
        Additional::Schema(child) => Some(&**child),
        _ => None,
    };
    let properties = node.properties.iter().map(|(_, child)| child);
    for child in properties.chain(node.items.as_deref()).chain(additional) {
        subtree.defaults |= child.subtree.defaults;
        subtree.embedded |= child.subtree.embedded;
        subtree.lists |= child.subtree.lists;
        subtree.rules |= child.subtree.rules;
    }
    subtree
}

fn flag(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or("")
}

fn strings(schema: &Map<String, Value>, key: &str) -> Vec<Box<str>> {
    let list = schema.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
}
