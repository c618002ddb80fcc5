//! Chains of `&&` and `||`, which become balanced trees.

use super::{Abort, Node, Parse};
use crate::ast::{Expr, Kind};

/// Terms with operators between them.
#[derive(Default)]
pub(super) struct Chain {
    terms: Vec<Option<Expr>>,
    pub(super) ops: Vec<u32>,
    depth: usize,
}

impl Chain {
    pub(super) fn push(&mut self, node: Node) {
        self.depth = self.depth.max(node.depth);
        self.terms.push(Some(*node.expr));
    }

    /// The terms as a tree of logarithmic depth.
    pub(super) fn balanced(mut self, function: &str) -> Parse {
        let expr = match self.ops.len() {
            0 => self.terms.pop().flatten(),
            count => self.tree(function, 0, count - 1),
        };
        Ok(Node::new(expr.ok_or(Abort)?, self.depth))
    }

    /// The tree of the operators of a range.
    fn tree(&mut self, function: &str, low: usize, high: usize) -> Option<Expr> {
        let middle = (low + high).div_ceil(2);
        let left = match middle == low {
            true => self.terms[middle].take(),
            false => self.tree(function, low, middle - 1),
        };
        let right = match middle == high {
            true => self.terms[middle + 1].take(),
            false => self.tree(function, middle + 1, high),
        };
        let args = vec![left?, right?];
        let kind = Kind::Call { function: function.into(), target: None, args };
        Some(Expr { id: self.ops[middle], kind })
    }
}
