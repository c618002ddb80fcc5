//! Rules of `x-kubernetes-validations`: compiled once per schema, evaluated for every write.
//!
//! [`declare`] gives the nodes of a schema the types that expressions see, [`expression`] compiles a rule
//! with its message, and [`evaluate`] walks an object with its old version. The static checks of new CRDs
//! are in `crd/rules.rs`.

mod declare;
mod evaluate;
mod expression;

use super::{Additional, Node};

pub(crate) use declare::{Declared, declare, declare_named};
pub use evaluate::RuleFailure;
pub(crate) use evaluate::{check_default, evaluate, explain};
pub(crate) use expression::{CompiledRule, Compiler, Expression};

/// The nodes of a schema at or above rules, with their compiled rules.
#[derive(Debug)]
pub(crate) struct RuleNode {
    /// What `self` is at this node; absent if the node has no rules.
    declared: Option<Declared>,
    rules: Vec<CompiledRule>,
    /// Sorted by name, like the properties of the node.
    properties: Vec<(Box<str>, RuleNode)>,
    values: Option<Box<RuleNode>>,
    items: Option<Box<RuleNode>>,
}

impl RuleNode {
    /// Compiles all rules at and below a node; `None` if there are none.
    pub(crate) fn compile(node: &Node, resource_root: bool) -> Option<Self> {
        if !node.subtree.rules {
            return None;
        }
        let mut compiled = Self {
            declared: None,
            rules: Vec::new(),
            properties: Vec::new(),
            values: None,
            items: None,
        };
        if !node.rules.is_empty()
            && let Some(declared) = declare(node, resource_root)
        {
            // Rules of nodes without a type cannot be stored; upstream would report an internal error.
            if let Some(compiler) = Compiler::new(node, &declared) {
                compiled.rules = node.rules.iter().map(|rule| compiler.rule(rule)).collect();
            }
            compiled.declared = Some(declared);
        }
        let child = |child: &Node| Self::compile(child, child.embedded);
        compiled.items = node.items.as_deref().and_then(child).map(Box::new);
        if let Additional::Schema(values) = &node.additional {
            compiled.values = child(values).map(Box::new);
        }
        let properties = node.properties.iter();
        compiled.properties = properties
            .filter_map(|(name, property)| Some((name.clone(), child(property)?)))
            .collect();
        Some(compiled)
    }

    fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }
}
