//! Expressions of admission: match conditions of webhooks, and the policies
//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`.
//!
//! A [`Compiler`] compiles them once, with the variables of a policy. For each request, [`Inputs`] hold
//! the values, and a [`Scope`] evaluates expressions against them within a [`Budget`]:
//!
//! ```
//! use evenkeel_cel::admission::{Budget, Compiler, Inputs, Purpose, Scope};
//! use evenkeel_cel::Value;
//!
//! let mut compiler = Compiler::of_policy(false);
//! compiler.variable("replicas", "object.spec.replicas").unwrap();
//! let compiled = compiler.compile("variables.replicas <= 5", Purpose::Condition);
//!
//! let object = serde_json::json!({"spec": {"replicas": 7}});
//! let inputs = Inputs { object: Value::from_json(&object), ..Inputs::default() };
//! let scope = Scope::new(&inputs, compiler.variables());
//! let result = scope.evaluate(&compiled, &mut Budget::of_object()).unwrap();
//! assert_eq!(result, Ok(Value::Bool(false)));
//! ```

mod compile;
mod conditions;
mod evaluate;
mod types;

pub use compile::{Compiled, Compiler, Expression, Invalid, Purpose, Variable};
pub use conditions::MatchConditions;
pub use evaluate::{Budget, Inputs, OutOfBudget, Scope};
