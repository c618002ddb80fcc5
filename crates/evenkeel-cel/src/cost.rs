//! Static cost: bounds of what an evaluation may cost, as cel-go's `checker.Cost` computes them.
//!
//! Run-time cost is counted by [`Program::run`](crate::Program::run).
//!
//! ```
//! use evenkeel_cel::{Env, Type, cost::{CostEstimate, UnknownSizes}};
//! let env = Env::builder().standard_library().variable("x", Type::Int).build().unwrap();
//! let ast = env.compile("x + 1 == 2").unwrap();
//! assert_eq!(env.estimate_cost(&ast, &UnknownSizes), CostEstimate::fixed(3));
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Type, Value};

pub(crate) mod estimate;

/// Cost of reading a variable or a field.
pub const SELECT_COST: u64 = 1;
/// Cost of creating a list.
pub const LIST_CREATE_COST: u64 = 10;
/// Cost of creating a map.
pub const MAP_CREATE_COST: u64 = 30;
/// Cost of creating an object.
pub const STRUCT_CREATE_COST: u64 = 40;
/// Cost per character of functions that read a string once.
pub const STRING_TRAVERSAL_FACTOR: f64 = 0.1;
/// Cost per character of regular expressions, per character of the text.
pub const REGEX_LENGTH_FACTOR: f64 = 0.25;

/// Lower and upper bound of a cost; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// The lower bound.
    pub min: u64,
    /// The upper bound.
    pub max: u64,
}

/// Lower and upper bound of a size: characters, bytes, elements or entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The lower bound.
    pub min: u64,
    /// The upper bound.
    pub max: u64,
}

/// The cost of a call and, where known, the size of its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEstimate {
    /// The cost without that of the arguments.
    pub cost: CostEstimate,
    /// The size of the result.
    pub result_size: Option<SizeEstimate>,
}

/// A sub-expression as estimators see it (cel-go's `AstNode`).
#[derive(Clone, Debug)]
pub struct CostNode<'n> {
    /// The path of the value from a variable, if it is one: `self`, `items`, `@items`, `name`.
    pub path: Cow<'n, [Arc<str>]>,
    /// The inferred type.
    pub type_: Type,
    /// The size, if the expression itself determines it.
    pub size: Option<SizeEstimate>,
    /// The value of a literal.
    pub literal: Option<&'n Value<'static>>,
}

impl CostNode<'_> {
    /// The size of the value, from the expression itself or from the estimator.
    pub fn size_or_unknown(&self, sizes: &dyn SizeEstimator) -> SizeEstimate {
        self.size.or_else(|| sizes.size(self)).unwrap_or(SizeEstimate::UNKNOWN)
    }
}

/// Returns bounds of the sizes of variables and their fields, for example from `maxLength` of a schema.
pub trait SizeEstimator {
    /// The size of the value of a sub-expression; `None` if unknown.
    fn size(&self, node: &CostNode<'_>) -> Option<SizeEstimate>;
}

/// Has no sizes: everything is unbounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownSizes;

impl SizeEstimator for UnknownSizes {
    fn size(&self, _: &CostNode<'_>) -> Option<SizeEstimate> {
        None
    }
}

impl CostEstimate {
    /// Any cost.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// A cost known exactly.
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The product with a factor, rounded up.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl SizeEstimate {
    /// Any size.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// A size known exactly.
    pub const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of a traversal with this cost per unit, rounded up.
    #[must_use]
    pub fn cost(self, per_unit: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, per_unit), max: scale(self.max, per_unit) }
    }

    /// The cost of doing something of the given cost for each unit.
    #[must_use]
    pub const fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate {
            min: self.min.saturating_mul(cost.min),
            max: self.max.saturating_mul(cost.max),
        }
    }

    /// The smallest range that contains both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl From<CostEstimate> for CallEstimate {
    fn from(cost: CostEstimate) -> Self {
        Self { cost, result_size: None }
    }
}

/// Saturating conversion, as a cast of a non-negative double is.
fn scale(x: u64, factor: f64) -> u64 {
    (x as f64 * factor).ceil() as u64
}
