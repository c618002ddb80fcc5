//! Declarations of functions: what the checker uses, what runs, and what it costs.
//!
//! A library is a function that returns [`Function`]s:
//!
//! ```
//! use evenkeel_cel::{Env, Error, Function, Overload, Type, Value};
//!
//! fn library() -> Vec<Function> {
//!     vec![Function::new("shout").overload(Overload::member("string_shout", [Type::String], Type::String, shout))]
//! }
//!
//! fn shout<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
//!     match arguments {
//!         [Value::String(text)] => Ok(Value::from(text.to_uppercase())),
//!         _ => Err(Error::no_such_overload()),
//!     }
//! }
//!
//! let env = Env::builder().standard_library().functions(library()).build().unwrap();
//! let program = env.program("'hi'.shout()").unwrap();
//! assert_eq!(program.evaluate(&[]).unwrap(), Value::from("HI"));
//! ```
//!
//! Arguments of a member overload start with the target. An implementation is called only with arguments
//! that match the declared types; it is never called with an error.

use std::fmt;
use std::sync::Arc;

use crate::cost::{CallEstimate, CostNode, SizeEstimator};
use crate::{Error, Type, Value};

/// A function with its overloads.
#[derive(Clone, Debug)]
pub struct Function {
    /// The name as expressions spell it, with its namespace (`ip.isCanonical`).
    pub name: &'static str,
    /// Overloads in the order of declaration, in which they are tried.
    pub overloads: Vec<Arc<Overload>>,
}

/// One signature of a function.
#[derive(Clone)]
pub struct Overload {
    /// The unique id, as cel-go and Kubernetes name it.
    pub id: &'static str,
    /// Whether it is called as `target.function(…)`; the target is the first argument.
    pub member: bool,
    /// Types of the arguments.
    pub arguments: Vec<Type>,
    /// The type of the result.
    pub result: Type,
    pub(crate) implementation: Implementation,
    pub(crate) specialize: Option<Specialize>,
    pub(crate) estimate: Option<EstimateCall>,
    pub(crate) cost: Option<CallCost>,
    /// Whether it is an operator of the standard, which the evaluator implements itself.
    pub(crate) standard: bool,
    /// Whether the types of arguments are checked before a call; otherwise the implementation does it.
    pub(crate) guarded: bool,
}

/// What a call evaluates: the values of the arguments to a result.
pub type Implementation =
    Arc<dyn for<'a> Fn(&[Value<'a>]) -> Result<Value<'a>, Error> + Send + Sync>;

/// Returns a faster implementation for a call whose constant arguments are known when it is compiled, for
/// example with a compiled regular expression. With an error, the program is not created.
pub type Specialize =
    fn(constants: &[Option<&Value<'static>>]) -> Option<Result<Implementation, Error>>;

/// The static cost of a call, without that of its arguments; `None` for the default.
///
/// The overload id is given because estimates may be declared for a whole function
/// ([`EnvBuilder::function_cost`](crate::EnvBuilder::function_cost)).
pub type EstimateCall = fn(
    sizes: &dyn SizeEstimator,
    overload: &str,
    target: Option<&CostNode<'_>>,
    arguments: &[CostNode<'_>],
) -> Option<CallEstimate>;

/// The run-time cost of a call, without that of its arguments; `None` for the default.
pub type CallCost = fn(call: &CostedCall<'_, '_>) -> Option<u64>;

/// A finished call, for its run-time cost.
#[derive(Debug)]
pub struct CostedCall<'c, 'a> {
    /// The id of the overload; empty if it was resolved at run time among several.
    pub overload: &'c str,
    /// Arguments, the target first. One that failed is `null`.
    pub arguments: &'c [Value<'a>],
    /// The result, if it did not fail.
    pub result: Option<&'c Value<'a>>,
}

impl Function {
    /// A function without overloads.
    pub fn new(name: &'static str) -> Self {
        Self { name, overloads: Vec::new() }
    }

    /// Adds an overload.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overloads.push(Arc::new(overload));
        self
    }
}

impl Overload {
    /// An overload called as `function(…)`.
    pub fn global<F>(
        id: &'static str,
        arguments: impl Into<Vec<Type>>,
        result: Type,
        implementation: F,
    ) -> Self
    where
        F: for<'a> Fn(&[Value<'a>]) -> Result<Value<'a>, Error> + Send + Sync + 'static,
    {
        Self {
            id,
            member: false,
            arguments: arguments.into(),
            result,
            implementation: Arc::new(implementation),
            specialize: None,
            estimate: None,
            cost: None,
            standard: false,
            guarded: true,
        }
    }

    /// An overload called as `target.function(…)`; the first argument is the target.
    pub fn member<F>(
        id: &'static str,
        arguments: impl Into<Vec<Type>>,
        result: Type,
        implementation: F,
    ) -> Self
    where
        F: for<'a> Fn(&[Value<'a>]) -> Result<Value<'a>, Error> + Send + Sync + 'static,
    {
        Self { member: true, ..Self::global(id, arguments, result, implementation) }
    }

    /// Whether the values are of the declared types. Elements of lists and maps are checked as cel-go
    /// does: the first one stands for all.
    pub(crate) fn accepts(&self, arguments: &[Value<'_>]) -> bool {
        self.arguments.len() == arguments.len()
            && self.arguments.iter().zip(arguments).all(|(type_, value)| accepts(type_, value))
    }

    /// Sets what prepares calls with constant arguments.
    #[must_use]
    pub fn specialize(self, specialize: Specialize) -> Self {
        Self { specialize: Some(specialize), ..self }
    }

    /// Sets the static cost of calls.
    #[must_use]
    pub fn estimate(self, estimate: EstimateCall) -> Self {
        Self { estimate: Some(estimate), ..self }
    }

    /// Sets the run-time cost of calls.
    #[must_use]
    pub fn cost(self, cost: CallCost) -> Self {
        Self { cost: Some(cost), ..self }
    }
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} -> {:?}", self.id, self.arguments, self.result)
    }
}

fn accepts(type_: &Type, value: &Value<'_>) -> bool {
    match (type_, value) {
        (Type::Dyn | Type::Param(_), _) => true,
        (Type::Wrapper(inner), value) => matches!(value, Value::Null) || accepts(inner, value),
        (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::List(element), Value::List(list)) => match (&**element, list.is_empty()) {
            (Type::Dyn | Type::Param(_), _) | (_, true) => true,
            (element, false) => list.get(0).is_some_and(|first| accepts(element, &first)),
        },
        (Type::Map(entry), Value::Map(map)) => match &**entry {
            (Type::Dyn | Type::Param(_), Type::Dyn | Type::Param(_)) => true,
            (keys, values) => match map.iter().next() {
                Some((key, value)) => accepts(keys, &key) && accepts(values, &value),
                None => true,
            },
        },
        (Type::Map(_), Value::Object(_)) => true,
        (Type::Opaque(opaque), Value::Optional(value)) => {
            &*opaque.name == crate::types::OPTIONAL
                && match (value, opaque.parameters.first()) {
                    (Some(value), Some(inner)) => accepts(inner, value),
                    _ => true,
                }
        }
        (Type::Opaque(opaque), Value::Opaque(value)) => value.type_().name() == &*opaque.name,
        (Type::Struct(name), Value::Object(object)) => object.type_name() == name,
        (Type::Struct(name), Value::Opaque(value)) => value.type_().name() == &**name,
        _ => false,
    }
}
