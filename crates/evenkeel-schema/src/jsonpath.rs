//! JSONPath expressions of printer columns and selectable fields.
//!
//! The language is that of kubectl (`k8s.io/client-go/util/jsonpath`) without braces and ranges:
//! fields, indexes, slices, unions, wildcards, filters and recursive descent. Evaluation is
//! lenient: a missing value or a type mismatch yields no results.

mod parse;

use std::cmp::Ordering;

use evenkeel_types::go::Num;
use serde_json::Value;

/// A compiled path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    nodes: Vec<Node>,
}

/// A JSONPath syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(String),
    Wildcard,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    Filter(Filter),
    Recursive,
    Literal(Value),
    /// A keyword of kubectl's template language (`range`). It parses but yields no results.
    Keyword,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    from: Option<i64>,
    to: End,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    At(i64),
    /// One past `from`, for a single index.
    Single,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Node>,
    operator: Operator,
    right: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    /// An operator such as `=` or `!==`. It parses but matches nothing.
    Unknown,
}

/// The path does not apply to the value. The whole evaluation yields no results.
struct NotApplicable;

impl Path {
    /// Parses a path. It may start with `.`, `[`, `$` or `@`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(|nodes| Self { nodes }).map_err(ParseError)
    }

    /// Returns the values selected by the path, in document order.
    pub(crate) fn eval<'a>(&'a self, value: &'a Value) -> Vec<&'a Value> {
        eval_all(&self.nodes, vec![value]).unwrap_or_default()
    }

    /// Returns the first value selected by the path, as printed in table cells.
    pub fn first<'a>(&'a self, value: &'a Value) -> Option<&'a Value> {
        // Most paths consist of plain fields and need no list of candidates.
        let mut current = value;
        for node in &self.nodes {
            match node {
                Node::Field(name) => current = current.as_object()?.get(name)?,
                _ => return self.eval(value).into_iter().next(),
            }
        }
        Some(current)
    }
}

fn eval_all<'a>(
    nodes: &'a [Node],
    values: Vec<&'a Value>,
) -> Result<Vec<&'a Value>, NotApplicable> {
    nodes.iter().try_fold(values, |values, node| eval_node(node, values))
}

fn eval_node<'a>(node: &'a Node, values: Vec<&'a Value>) -> Result<Vec<&'a Value>, NotApplicable> {
    Ok(match node {
        Node::Literal(literal) => vec![literal],
        Node::Keyword => return Err(NotApplicable),
        Node::Field(name) => {
            values.into_iter().filter_map(|value| value.as_object()?.get(name)).collect()
        }
        Node::Wildcard => values.into_iter().flat_map(children).collect(),
        Node::Recursive => {
            let mut found = Vec::new();
            for value in values {
                descend(value, &mut found);
            }
            found
        }
        Node::Slice(slice) => {
            let mut found = Vec::new();
            for value in values {
                match value {
                    Value::Null => {}
                    Value::Array(items) => found.extend(slice.select(items)?),
                    _ => return Err(NotApplicable),
                }
            }
            found
        }
        Node::Union(members) => {
            let mut found = Vec::new();
            for member in members {
                found.extend(eval_all(member, values.clone())?);
            }
            found
        }
        Node::Filter(filter) => {
            let mut found = Vec::new();
            for value in values {
                let Value::Array(items) = value else { return Err(NotApplicable) };
                for item in items {
                    if filter.matches(item)? {
                        found.push(item);
                    }
                }
            }
            found
        }
    })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

/// Collects the value and all non-empty values nested in it. A string counts, as in Go.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    let children = children(value);
    if children.is_empty() && value.as_str().is_none_or(str::is_empty) {
        return;
    }
    found.push(value);
    for child in children {
        descend(child, found);
    }
}

impl Slice {
    fn select(self, items: &[Value]) -> Result<Vec<&Value>, NotApplicable> {
        let length = items.len() as i64;
        let mut from = self.from.unwrap_or(0);
        let mut to = match self.to {
            End::Open => length,
            End::At(to) => to,
            End::Single => from + 1,
        };
        if from < 0 {
            from += length;
        }
        // The end of `[-1]` is 0, which means the end of the list.
        if to < 0 || (to == 0 && self.to == End::Single) {
            to += length;
        }
        if from == to {
            return Ok(Vec::new());
        }
        let valid = (0..length).contains(&from) && (0..=length).contains(&to) && from <= to;
        let step = self.step.unwrap_or(1);
        if !valid || step <= 0 {
            return Err(NotApplicable);
        }
        let step = usize::try_from(step).map_err(|_| NotApplicable)?;
        Ok(items[from as usize..to as usize].iter().step_by(step).collect())
    }
}

impl Filter {
    fn matches(&self, item: &Value) -> Result<bool, NotApplicable> {
        let left = eval_all(&self.left, vec![item]);
        if self.operator == Operator::Exists {
            return Ok(left.is_ok_and(|found| !found.is_empty()));
        }
        let left = left?;
        let right = eval_all(&self.right, vec![item])?;
        let (left, right) = match (&left[..], &right[..]) {
            ([], _) | (_, []) => return Ok(false),
            ([left], [right]) => (*left, *right),
            _ => return Err(NotApplicable),
        };
        self.operator.compare(left, right)
    }
}

impl Operator {
    fn compare(self, left: &Value, right: &Value) -> Result<bool, NotApplicable> {
        if self == Self::Unknown {
            return Err(NotApplicable);
        }
        let order = match (left, right) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => match (Num::of(a), Num::of(b)) {
                (Num::Int(a), Num::Int(b)) => Some(a.cmp(&b)),
                (Num::Float(a), Num::Float(b)) => a.partial_cmp(&b),
                // As in Go templates, an integer cannot be compared with a float.
                _ => return Err(NotApplicable),
            },
            (Value::Bool(a), Value::Bool(b)) if matches!(self, Self::Equal | Self::NotEqual) => {
                Some(a.cmp(b))
            }
            _ => return Err(NotApplicable),
        };
        Ok(match self {
            Self::Exists | Self::Unknown => false,
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::GreaterOrEqual => order != Some(Ordering::Less),
            Self::Greater => !matches!(order, Some(Ordering::Less | Ordering::Equal)),
        })
    }
}

#[cfg(test)]
mod tests;
