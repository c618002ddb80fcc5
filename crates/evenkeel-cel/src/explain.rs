//! Explanations: which part of a condition is not true, and the values it depends on.
//!
//! ```
//! use evenkeel_cel::{Env, Type, Value};
//! let env = Env::builder().standard_library().variable("min", Type::Int).variable("max", Type::Int);
//! let env = env.build().unwrap();
//! let ast = env.compile("min > 0 && min + 1 <= max").unwrap();
//! let why = env.explain(&ast, &[Some(Value::Int(5)), Some(Value::Int(3))]).unwrap();
//! assert_eq!(why.to_string(), "min + 1 <= max is false: min + 1 = 6, max = 3");
//! ```

use std::fmt;

use crate::ast::{Ast, Expr, Kind, operators};
use crate::{Env, Error, Program, Value};

mod span;

/// Longer values are cut.
const MAX_VALUE: usize = 200;

/// Why a condition is not true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The smallest part of the condition that decides it, as written.
    pub condition: String,
    /// The error of that part, if it has no value.
    pub error: Option<String>,
    /// The parts that it depends on, with their values.
    pub values: Vec<(String, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{} has no value: {error}", self.condition)?,
            None => write!(f, "{} is false", self.condition)?,
        }
        for (i, (part, value)) in self.values.iter().enumerate() {
            let separator = if i == 0 { ":" } else { "," };
            write!(f, "{separator} {part} = {value}")?;
        }
        Ok(())
    }
}

impl Env {
    /// Explains why a condition is not true for these values of the variables; `None` if it is.
    pub fn explain(&self, ast: &Ast, variables: &[Option<Value<'_>>]) -> Option<Explanation> {
        let explainer = Explainer { env: self, ast, variables };
        match explainer.value(&ast.root) {
            Ok(Value::Bool(true)) => None,
            outcome => Some(explainer.explain(&ast.root, outcome.err())),
        }
    }
}

struct Explainer<'e> {
    env: &'e Env,
    ast: &'e Ast,
    variables: &'e [Option<Value<'e>>],
}

impl Explainer<'_> {
    /// The value of a part; one that reads a variable of a comprehension has none.
    fn value(&self, expr: &Expr) -> Result<Value<'static>, Error> {
        let part = Ast { root: expr.clone(), ..self.ast.clone() };
        let program = Program::new(self.env, &part)?;
        let limits = crate::Limits {
            cost: Some(crate::kubernetes::PER_CALL_LIMIT),
            ..crate::Limits::default()
        };
        program.run(&Known(self.variables), limits).result.map(Value::into_owned)
    }

    fn explain(&self, expr: &Expr, error: Option<Error>) -> Explanation {
        match &expr.kind {
            Kind::Call { function, args, .. } if &**function == operators::AND => {
                for arg in args {
                    match self.value(arg) {
                        Ok(Value::Bool(true)) => {}
                        outcome => return self.explain(arg, outcome.err()),
                    }
                }
            }
            Kind::Comprehension(_) => {
                if let Some(explanation) = self.element(expr, error.as_ref()) {
                    return explanation;
                }
            }
            _ => {}
        }
        let mut values = Vec::new();
        self.operands(expr, &mut values);
        Explanation {
            condition: span::text(self.ast, expr),
            error: error.map(|error| error.to_string()),
            values,
        }
    }

    /// The first element for which a comprehension is not true.
    fn element(&self, expr: &Expr, error: Option<&Error>) -> Option<Explanation> {
        let Kind::Comprehension(comprehension) = &expr.kind else { return None };
        let Value::List(list) = self.value(&comprehension.range).ok()? else { return None };
        for (at, element) in list.iter().enumerate() {
            let mut single = comprehension.clone();
            single.range.kind = Kind::Literal(Value::list([element.clone().into_owned()]));
            let single = Expr { id: expr.id, kind: Kind::Comprehension(single) };
            if matches!(self.value(&single), Ok(Value::Bool(true))) {
                continue;
            }
            let range = span::text(self.ast, &comprehension.range);
            return Some(Explanation {
                condition: span::text(self.ast, expr),
                error: error.map(ToString::to_string),
                values: vec![(format!("{range}[{at}]"), shown(&element))],
            });
        }
        None
    }

    /// The parts of a condition that are not literals, with their values.
    fn operands(&self, expr: &Expr, values: &mut Vec<(String, String)>) {
        let parts: Vec<&Expr> = match &expr.kind {
            Kind::Call { function, target, args } => {
                let parts = target.as_deref().into_iter().chain(args);
                match &**function {
                    operators::AND | operators::OR | operators::NOT => {
                        parts.for_each(|part| self.operands(part, values));
                        return;
                    }
                    _ => parts.collect(),
                }
            }
            // Whether a field exists shows best in what would have it.
            Kind::Select { operand, test_only: true, .. } => vec![operand],
            Kind::Comprehension(comprehension) => vec![&comprehension.range],
            _ => vec![expr],
        };
        for part in parts {
            let text = span::text(self.ast, part);
            let literal = matches!(part.kind, Kind::Literal(_));
            if literal || values.iter().any(|(known, _)| *known == text) {
                continue;
            }
            if let Ok(value) = self.value(part) {
                values.push((text, shown(&value)));
            }
        }
    }
}

/// The values of variables that are known.
struct Known<'k, 'v>(&'k [Option<Value<'v>>]);

impl<'v> crate::Activation<'v> for Known<'_, 'v> {
    fn variable(&self, index: usize) -> Option<Result<Value<'v>, Error>> {
        self.0.get(index).cloned().flatten().map(Ok)
    }
}

fn shown(value: &Value<'_>) -> String {
    let mut text = match value.to_json() {
        Ok(json) => json.to_string(),
        Err(_) => format!("{value:?}"),
    };
    if text.len() > MAX_VALUE {
        text.truncate(text.floor_char_boundary(MAX_VALUE));
        text.push('…');
    }
    text
}
