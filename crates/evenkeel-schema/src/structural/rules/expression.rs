//! Compiles a rule and its message expression, with the errors and costs that upstream reports.

use std::sync::Arc;

use evenkeel_cel::kubernetes::{self, MAX_REQUEST_SIZE};
use evenkeel_cel::{Env, Explanation, Program, Type, Value};

use super::Declared;
use crate::field_path;
use crate::structural::{Node, Rule};

/// A rule with its program, or the reason why it has none.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(crate) rule: Rule,
    /// `None` if the rule is blank.
    pub(crate) program: Option<Result<Expression, String>>,
    pub(crate) message: Option<Result<Expression, String>>,
    pub(crate) uses_old_self: bool,
    /// The field path as errors print it.
    pub(crate) field_path: Option<String>,
    /// How often the rule can run at most if the schema sets no limits.
    pub(crate) max_cardinality: u64,
}

/// A compiled expression and the highest cost that it may have.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) program: Program,
    pub(crate) max_cost: u64,
}

/// Compiles the rules of one node.
pub(crate) struct Compiler<'d> {
    node: &'d Node,
    declared: &'d Declared,
    env: Env,
    /// `oldSelf` is an optional.
    optional_env: Env,
}

/// The position of `oldSelf` among the variables.
pub(super) const OLD_SELF: usize = 1;

impl<'d> Compiler<'d> {
    /// Declares `self` and `oldSelf`.
    pub(crate) fn new(node: &'d Node, declared: &'d Declared) -> Option<Self> {
        let type_ = declared.schema.type_();
        let env = |old: Type| {
            let builder = kubernetes::environment().extend();
            let builder = builder.type_provider(Arc::new(declared.schema.clone()));
            builder.variable("self", type_.clone()).variable("oldSelf", old).build().ok()
        };
        Some(Self {
            node,
            declared,
            env: env(type_.clone())?,
            optional_env: env(Type::optional(type_.clone()))?,
        })
    }

    pub(crate) fn rule(&self, rule: &Rule) -> CompiledRule {
        let env = self.env_of(rule);
        let mut compiled = CompiledRule {
            rule: rule.clone(),
            program: None,
            message: None,
            uses_old_self: false,
            field_path: rule.field_path.as_deref().and_then(|path| printed(path, self.node)),
            max_cardinality: MAX_REQUEST_SIZE / (self.declared.min_size + 1),
        };
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let mut uses_old_self = false;
        let program = self.compile(env, &rule.rule, &mut uses_old_self, &RULE);
        compiled.uses_old_self = uses_old_self;
        let valid = program.is_ok();
        compiled.program = Some(program);
        if let Some(message) = rule.message_expression.as_deref().filter(|_| valid) {
            compiled.message = Some(self.compile(env, message, &mut false, &MESSAGE));
        }
        compiled
    }

    /// Explains why a rule is not true for these values of `self` and `oldSelf`.
    pub(super) fn explain(
        &self,
        rule: &Rule,
        variables: &[Option<Value<'_>>],
    ) -> Option<Explanation> {
        let env = self.env_of(rule);
        env.explain(&env.compile(&rule.rule).ok()?, variables)
    }

    fn env_of(&self, rule: &Rule) -> &Env {
        match rule.optional_old_self {
            Some(true) => &self.optional_env,
            _ => &self.env,
        }
    }

    fn compile(
        &self,
        env: &Env,
        expression: &str,
        uses_old_self: &mut bool,
        purpose: &Purpose,
    ) -> Result<Expression, String> {
        let ast = env
            .compile(expression)
            .map_err(|issues| format!("{}compilation failed: {issues}", purpose.prefix))?;
        if *ast.result_type() != purpose.result {
            return Err(purpose.wrong_result.to_owned());
        }
        *uses_old_self = ast.uses_variable(OLD_SELF);
        let program = Program::new(env, &ast)
            .map_err(|error| format!("{} failed: {error}", purpose.instantiation))?;
        let max_cost = env.estimate_cost(&ast, self.declared).max;
        Ok(Expression { program, max_cost })
    }
}

/// A field path as errors print it; `None` if it is not valid.
fn printed(path: &str, node: &Node) -> Option<String> {
    let (_, (_, printed)) =
        field_path::resolve(path, (node, String::new()), true, print_step).ok()?;
    Some(printed).filter(|printed| !printed.is_empty())
}

fn print_step<'n>(
    (node, mut printed): (&'n Node, String),
    name: &str,
) -> Result<(&'n Node, String), String> {
    let child = match node.properties.is_empty() {
        true => node.field(name),
        false => node.property(name),
    };
    let child = child.ok_or_else(|| "does not refer to a valid field".to_owned())?;
    if node.properties.is_empty() {
        printed.push_str(&format!("[{name}]"));
    } else {
        if !printed.is_empty() {
            printed.push('.');
        }
        printed.push_str(name);
    }
    Ok((child, printed))
}

/// What distinguishes the errors of rules and of message expressions.
struct Purpose {
    prefix: &'static str,
    result: Type,
    wrong_result: &'static str,
    instantiation: &'static str,
}

const RULE: Purpose = Purpose {
    prefix: "",
    result: Type::Bool,
    wrong_result: "cel expression must evaluate to a bool",
    instantiation: "program instantiation",
};

const MESSAGE: Purpose = Purpose {
    prefix: "messageExpression ",
    result: Type::String,
    wrong_result: "messageExpression must evaluate to a string",
    instantiation: "messageExpression instantiation",
};
