//! The Common Expression Language as Kubernetes 1.36 uses it. Pure: no async, no clock, and no IO but
//! for the time zone database of the system.
//!
//! An expression is compiled once against an [`Env`] of declarations and evaluated many times against
//! borrowed JSON. Results, error texts, positions and costs are those of cel-go 0.26.
//!
//! | step | type |
//! |---|---|
//! | declare functions, variables and types | [`EnvBuilder`], [`Function`], [`Overload`], [`Type`], [`schema::Schema`] |
//! | compile | [`Env::compile`], [`Ast`], [`Issues`] |
//! | evaluate against values | [`Program`], [`Value`], [`Error`] |
//! | bound what an evaluation may cost | [`cost`], [`Limits`] |
//! | use the functions of Kubernetes | [`kubernetes`] |
//! | explain why a condition is not true | [`Env::explain`], [`Explanation`] |
//! | expressions of webhooks and admission policies | [`admission`] |
//!
//! # Compile and evaluate
//!
//! The values of an evaluation are in the order in which the variables were declared:
//!
//! ```
//! use evenkeel_cel::{Env, Type, Value};
//! use serde_json::json;
//!
//! let env = Env::builder()
//!     .standard_library()
//!     .variable("self", Type::Dyn)
//!     .variable("limit", Type::Int)
//!     .build()?;
//! let program = env.program("self.items.all(item, item.size <= limit)")?;
//!
//! let object = json!({"items": [{"size": 3}, {"size": 5}]});
//! assert_eq!(program.evaluate(&[Value::from_json(&object), Value::Int(5)])?, Value::Bool(true));
//! assert_eq!(program.evaluate(&[Value::from_json(&object), Value::Int(4)])?, Value::Bool(false));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program can be shared between threads. A variable that is expensive to compute is computed when it
//! is read, by an [`Activation`].
//!
//! # Declare types and functions
//!
//! With `Type::Dyn` every field exists for the checker. A [`schema::Schema`] declares the fields of a JSON
//! document, and a [`Function`] adds to the language:
//!
//! ```
//! use std::sync::Arc;
//!
//! use evenkeel_cel::schema::{Field, ObjectSchema, Schema};
//! use evenkeel_cel::{Env, Error, Function, Overload, Type, Value};
//! use serde_json::json;
//!
//! fn shout<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
//!     match arguments {
//!         [Value::String(text)] => Ok(Value::from(text.to_uppercase())),
//!         _ => Err(Error::no_such_overload()),
//!     }
//! }
//!
//! let field = |name: &str, schema| (name.into(), Field { json: name.into(), schema });
//! let pet = ObjectSchema {
//!     name: "Pet".into(),
//!     fields: [field("name", Schema::String), field("born", Schema::Timestamp)].into(),
//! };
//! let schema = Schema::Object(Arc::new(pet));
//! let overload = Overload::member("string_shout", [Type::String], Type::String, shout);
//! let env = Env::builder()
//!     .standard_library()
//!     .functions([Function::new("shout").overload(overload)])
//!     .type_provider(Arc::new(schema.clone()))
//!     .variable("pet", schema.type_())
//!     .build()?;
//!
//! let program = env.program("pet.born.getFullYear() < 2020 ? pet.name.shout() : pet.name")?;
//! let object = json!({"name": "rex", "born": "2019-05-01T00:00:00Z"});
//! assert_eq!(program.evaluate(&[Value::with_schema(&object, &schema)])?, Value::from("REX"));
//! assert!(env.compile("pet.age > 3").is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors and their positions
//!
//! [`Issues`] are all problems of an expression that does not compile. They print as cel-go prints them, and
//! each has a position:
//!
//! ```
//! use evenkeel_cel::{Env, Type};
//!
//! let env = Env::builder().standard_library().variable("name", Type::String).build()?;
//! let issues = env.compile("name > 1 || nome == ''").unwrap_err();
//! let found: Vec<_> = issues.iter().map(|issue| (issue.location.column, &*issue.message)).collect();
//! assert_eq!(found, [
//!     (5, "found no matching overload for '_>_' applied to '(string, int)'"),
//!     (12, "undeclared reference to 'nome' (in container '')"),
//! ]);
//! assert!(issues.to_string().starts_with("ERROR: <input>:1:6: found no matching overload"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An evaluation that fails names the sub-expression:
//!
//! ```
//! use evenkeel_cel::{Env, Program, Type, Value};
//!
//! let env = Env::builder().standard_library().variable("n", Type::Int).build()?;
//! let ast = env.compile("n > 5 && 10 / n > 2")?;
//! let program = Program::new(&env, &ast)?;
//! assert_eq!(program.evaluate(&[Value::Int(0)])?, Value::Bool(false), "the rest is not evaluated");
//!
//! let ast = env.compile("10 / n > 2")?;
//! let program = Program::new(&env, &ast)?;
//! let error = program.evaluate(&[Value::Int(0)]).unwrap_err();
//! assert_eq!(error.message(), "division by zero");
//! assert_eq!(error.expression().map(|id| ast.location(id).column), Some(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Costs
//!
//! A cost is a number of steps, so it is the same on every machine. It is bounded before an evaluation, from
//! the sizes that values may have, and counted during one:
//!
//! ```
//! use evenkeel_cel::cost::{CostNode, SizeEstimate, SizeEstimator};
//! use evenkeel_cel::{Env, ErrorKind, Limits, Program, Type, Value};
//!
//! /// Every list has at most 100 elements.
//! struct Short;
//!
//! impl SizeEstimator for Short {
//!     fn size(&self, _: &CostNode<'_>) -> Option<SizeEstimate> {
//!         Some(SizeEstimate { min: 0, max: 100 })
//!     }
//! }
//!
//! let env = Env::builder().standard_library().variable("xs", Type::list(Type::Int)).build()?;
//! let ast = env.compile("xs.all(x, x > 0)")?;
//! let estimate = env.estimate_cost(&ast, &Short);
//!
//! let program = Program::new(&env, &ast)?;
//! let xs = [Value::list((1..=100).map(Value::Int).collect::<Vec<_>>())];
//! let evaluation = program.run(&xs, Limits::default());
//! assert_eq!(evaluation.result?, Value::Bool(true));
//! assert!((estimate.min..=estimate.max).contains(&evaluation.cost));
//!
//! let limits = Limits { cost: Some(evaluation.cost - 1), interrupted: None };
//! assert_eq!(program.run(&xs, limits).result.unwrap_err().kind(), ErrorKind::CostLimit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kubernetes
//!
//! [`kubernetes::environment`] has what expressions in Kubernetes 1.36 can use: optional values,
//! comprehensions with two variables, cel-go's extensions for strings, lists and sets, and Kubernetes' own
//! functions for lists, regular expressions, URLs, quantities, IP addresses and CIDRs, named formats and
//! semantic versions:
//!
//! ```
//! use evenkeel_cel::kubernetes;
//!
//! for expression in [
//!     "quantity('1.5Gi').isLessThan(quantity('2Gi'))",
//!     "cidr('10.0.0.0/8').containsIP('10.1.2.3') && ip('::1').family() == 6",
//!     "url('https://example.com:8443/a?b=c').getHostname() == 'example.com'",
//!     "semver('1.36.1').isGreaterThan(semver('1.36.0'))",
//!     "[3, 1, 2].sum() == 6 && ![3, 1, 2].isSorted()",
//!     "'a1b22'.findAll('[0-9]+') == ['1', '22']",
//!     "format.dns1123Label().validate('my-app') == optional.none()",
//!     "{'a': 1}[?'b'].orValue(2) == 2",
//!     "{'a': 1, 'b': 2}.transformList(k, v, v * 2).max() == 4",
//!     "sets.contains(['a', 'b'], ['b'])",
//! ] {
//!     let program = kubernetes::environment().program(expression)?;
//!     assert_eq!(program.evaluate(&[])?, true.into(), "{expression}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The limits of Kubernetes are [`kubernetes::PER_CALL_LIMIT`] and the budgets beside it. The variables of
//! webhooks and admission policies, such as `object` and `authorizer`, are in [`admission`].

pub mod admission;
pub mod cost;
pub mod schema;

mod ast;
mod check;
mod declare;
mod env;
mod error;
mod eval;
mod explain;
mod library;
mod ops;
mod parser;
mod plan;
mod program;
mod source;
mod types;
mod value;

pub use ast::Ast;
pub use declare::{
    CallCost, CostedCall, EstimateCall, Function, Implementation, Overload, Specialize,
};
pub use env::{DeclarationError, Env, EnvBuilder, FunctionCost, TypeProvider};
pub use error::{Error, ErrorKind};
pub use explain::Explanation;
pub use library::kubernetes;
pub use parser::is_reserved;
pub use program::{Activation, Evaluation, Limits, Program};
pub use source::{Issue, Issues, Location};
pub use types::{Opaque as OpaqueType, Type};
pub use value::{Bytes, Duration, List, Map, Object, Opaque, Str, Timestamp, Value};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
