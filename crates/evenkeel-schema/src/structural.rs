//! Compiled structural schemas and the operations on them.
//!
//! [`Structural::compile`] reads `openAPIV3Schema` once. Every request then walks the same tree of
//! [`Node`]s, in this order: [`normalize`](Structural::normalize) (metadata, pruning, dropping
//! nulls), [`default`](Structural::default), and after mutation [`validate`](Structural::validate)
//! or [`validate_update`](Structural::validate_update). Compilation is lenient: every schema that
//! passed [`validate_crd`](crate::validate_crd) compiles.

mod compile;
mod correlate;
mod default;
mod embedded;
mod enum_values;
mod lists;
mod normalize;
mod prune;
mod rules;
mod validate;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use self::enum_values::EnumValues;
use self::rules::RuleNode;
use crate::scale::Scale;
use evenkeel_types::format::Format;
use evenkeel_types::pattern::Pattern;

pub use compile::CompileError;
pub use normalize::DecodeError;
pub use rules::RuleFailure;

pub(crate) use compile::{Purpose, compile, compile_map};
pub(crate) use embedded::{coerce as coerce_embedded, validate as validate_embedded};
pub(crate) use prune::is_pruned;
pub(crate) use rules::{CompiledRule, Compiler, Expression, check_default as check_rules, declare};
pub(crate) use validate::check_against;

/// A compiled structural schema. Clones share it.
#[derive(Clone, Debug)]
pub struct Structural {
    root: Arc<Node>,
    /// Compiled when they are first needed.
    rules: Arc<OnceLock<Option<RuleNode>>>,
    scale: Option<Arc<Scale>>,
}

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The CEL expression; true means valid.
    pub rule: String,
    /// The message if the rule evaluates to false.
    pub message: Option<String>,
    /// An expression that returns the message; takes precedence over `message`.
    pub message_expression: Option<String>,
    /// The reason of the cause, `FieldValueInvalid` if absent.
    pub reason: Option<String>,
    /// Path of the reported field, relative to the node with the rule.
    pub field_path: Option<String>,
    /// Whether `oldSelf` is an optional, in which case the rule also runs on create.
    pub optional_old_self: Option<bool>,
}

/// A node of the schema tree, with all keywords decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) types: JsonTypes,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) default: Option<Value>,
    pub(crate) list: ListType,
    /// Sorted by name.
    pub(crate) properties: Vec<(Box<str>, Node)>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) checks: Option<Box<Checks>>,
    pub(crate) rules: Vec<Rule>,
    /// What occurs at this node or below. Walks skip subtrees without it.
    pub(crate) subtree: Subtree,
}

/// The `type` keyword; `x-kubernetes-int-or-string` allows two types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JsonTypes {
    #[default]
    Any,
    One(JsonType),
    IntOrString,
}

/// A JSON type, as named in schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Not an OpenAPI type; matches nothing. Only old CRDs have one.
    Unknown,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    #[default]
    Unset,
    Allowed(bool),
    Schema(Box<Node>),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subtree {
    pub(crate) defaults: bool,
    pub(crate) embedded: bool,
    pub(crate) lists: bool,
    pub(crate) rules: bool,
}

/// The value validations of a node. Absent if there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) format: Option<(Box<str>, FormatRule)>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<Box<str>>,
    pub(crate) enum_values: EnumValues,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

/// How a recognized `format` validates values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatRule {
    Text(Format),
    Int32,
    Int64,
    Float,
    Double,
    /// Not recognized, but kept for checking defaults, as upstream does.
    Ignored,
}

impl Structural {
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// The compiled rules; `None` if there are none.
    pub(crate) fn compiled_rules(&self) -> Option<&RuleNode> {
        self.rules.get_or_init(|| RuleNode::compile(&self.root, true)).as_ref()
    }

    /// Returns whether both are clones of one compiled schema, whose rules are compiled once.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) && Arc::ptr_eq(&self.rules, &other.rules)
    }

    /// Adds validation of the fields of the version's `scale` subresource.
    pub fn with_scale(self, scale: Option<Scale>) -> Self {
        Self { scale: scale.map(Arc::new), ..self }
    }

    /// Returns the version's `scale` subresource.
    pub fn scale(&self) -> Option<&Scale> {
        self.scale.as_deref()
    }

    /// Returns the types of a resource with this schema as expressions see them. Types of its parts
    /// are named after `name`, which must be unique in an environment. `None` if expressions cannot
    /// use it.
    pub fn expression_types(&self, name: &str) -> Option<evenkeel_cel::schema::Schema> {
        rules::declare_named(self.root(), true, name).map(|declared| declared.schema)
    }

    /// Evaluates the rules of `x-kubernetes-validations` against an object, and its old version if it
    /// is an update. Returns those that fail, with the part of the rule that is not true and the
    /// values it depends on. Defaults are not set.
    pub fn explain_rules(&self, object: &Value, old: Option<&Value>) -> Vec<RuleFailure> {
        let rules = self.compiled_rules();
        rules.map(|it| rules::explain(it, self.root(), object, old)).unwrap_or_default()
    }

    /// Returns the rules of `x-kubernetes-validations`, each with the schema path of its node.
    ///
    /// Paths are dotted, with `[*]` for the items of a list or map: `spec.ports[*]`.
    pub fn rules(&self) -> Vec<(String, &Rule)> {
        let mut found = Vec::new();
        collect_rules(self.root(), &mut String::new(), &mut found);
        found
    }
}

impl Node {
    pub(crate) fn property(&self, name: &str) -> Option<&Node> {
        let at = self.properties.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// Returns the schema of a field from `properties` or `additionalProperties`.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            _ => None,
        })
    }
}

impl JsonTypes {
    pub(crate) fn allows(self, json_type: JsonType) -> bool {
        match self {
            Self::Any => false,
            Self::One(one) => one == json_type && json_type != JsonType::Unknown,
            Self::IntOrString => matches!(json_type, JsonType::Integer | JsonType::String),
        }
    }
}

impl JsonType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Unknown => "unknown",
        }
    }
}

fn collect_rules<'a>(node: &'a Node, path: &mut String, found: &mut Vec<(String, &'a Rule)>) {
    found.extend(node.rules.iter().map(|rule| (path.clone(), rule)));
    let length = path.len();
    for (name, child) in &node.properties {
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        collect_rules(child, path, found);
        path.truncate(length);
    }
    let each = node.items.as_deref().into_iter().chain(match &node.additional {
        Additional::Schema(child) => Some(&**child),
        _ => None,
    });
    for child in each {
        path.push_str("[*]");
        collect_rules(child, path, found);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests;
