//! Errors of evaluation. Errors of compilation are `Issues`.

use std::borrow::Cow;
use std::fmt;

use crate::Value;

/// Why an expression has no value. One word in size; the text is that of cel-go.
///
/// ```
/// use evenkeel_cel::Error;
/// assert_eq!(Error::new("no such key: color").to_string(), "no such key: color");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    /// The id of the failed sub-expression; 0 before the evaluator has set it.
    expr: u32,
}

/// Classes of errors that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A function or an operator failed.
    Evaluation,
    /// The cost exceeded the limit of the call. Not absorbed by `&&`, `||` and `exists`.
    CostLimit,
    /// The caller interrupted the evaluation. Not absorbed either.
    Interrupted,
}

impl Error {
    /// An error of a function or an operator.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of_kind(ErrorKind::Evaluation, message)
    }

    /// An error of the given class.
    pub fn of_kind(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), expr: 0 }))
    }

    /// No overload accepts the types of the arguments.
    pub fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// No overload of the function accepts the arguments.
    pub(crate) fn no_overload_for(function: &str, arguments: &[Value<'_>]) -> Self {
        let types: Vec<String> =
            arguments.iter().map(|value| value.type_().name().to_owned()).collect();
        Self::new(format!("no such overload: {function}({})", types.join(", ")))
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text without a position.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The id of the sub-expression that failed, for `Ast::location`.
    pub fn expression(&self) -> Option<u32> {
        (self.0.expr != 0).then_some(self.0.expr)
    }

    /// Records where the error occurred, unless a deeper expression did.
    pub(crate) fn at(mut self, expr: u32) -> Self {
        if self.0.expr == 0 {
            self.0.expr = expr;
        }
        self
    }

    /// Whether the error ends the evaluation whatever the other operands are.
    pub(crate) fn is_final(&self) -> bool {
        self.0.kind != ErrorKind::Evaluation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {}
