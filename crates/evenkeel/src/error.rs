//! The error type of reconcilers and `main`.
//!
//! Every error and every string converts into it with `?`. Its `Debug`, which is printed when
//! `main` returns an error, is the message and its causes.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;

/// A boxed error; types that convert into it also convert into [`Error`].
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// The result of fallible functions of an operator, such as `main` and `reconcile`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error with its causes.
///
/// It derefs to [`std::error::Error`], for `source` and `downcast_ref`. As in `anyhow`, it does not
/// implement that trait itself, so that `?` can convert every error.
///
/// | format  | prints                                     |
/// |---------|--------------------------------------------|
/// | `{}`    | the message                                |
/// | `{:#}`  | the message and its causes on one line     |
/// | `{:?}`  | the message and its causes, a line each    |
///
/// A cause is omitted if its text is part of the text before it.
///
/// ```
/// use evenkeel::Result;
///
/// fn replicas(text: &str) -> Result<i32> {
///     Ok(text.parse()?)
/// }
///
/// let error = replicas("three").unwrap_err();
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
/// ```
pub struct Error(BoxError);

impl Error {
    /// Creates an error from another error or from a string.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }

    /// Returns the inner error.
    #[must_use]
    pub fn into_boxed(self) -> BoxError {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl Deref for Error {
    type Target = dyn StdError + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => f.write_str(&chain(&*self.0)),
            false => self.0.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&*self.0, "\n  caused by: "))
    }
}

/// Returns the error and its causes on one line.
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    joined(error, ": ")
}

fn joined(error: &(dyn StdError + 'static), separator: &str) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Errors of other crates often include the text of their source.
        if !text.contains(&cause_text) {
            text.push_str(separator);
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the kubeconfig: {0}")]
    struct Middle(#[source] std::io::Error);

    fn failed() -> Result<()> {
        let missing = std::io::Error::other("no such file");
        Err(Outer(Middle(missing)))?;
        Ok(())
    }

    #[test]
    fn debug_prints_the_message_and_each_cause_once() {
        let error = failed().unwrap_err();
        let lines = "cannot start\n  caused by: cannot read the kubeconfig: no such file";
        assert_eq!(format!("{error:?}"), lines);
        assert_eq!(format!("{error:#}"), "cannot start: cannot read the kubeconfig: no such file");
        assert_eq!(error.to_string(), "cannot start");
    }

    #[test]
    fn texts_and_boxed_errors_convert() {
        let from_text = || -> Result<()> { Err("plain")? };
        assert_eq!(format!("{:?}", from_text().unwrap_err()), "plain");
        let from_box = || -> Result<()> { Err(BoxError::from("boxed"))? };
        assert_eq!(format!("{:?}", from_box().unwrap_err()), "boxed");
        assert!(failed().unwrap_err().downcast_ref::<Outer>().is_some());
    }
}
