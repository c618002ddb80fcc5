//! The error type of reconcilers and `main`.
//!
//! Every error and every string converts into it with `?`. Its `Debug`, which is printed when
//! `main` returns an error, is the message and its causes.

mod retry;

#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;

pub(crate) use retry::{Retry, RetryPolicy};
pub use retry::{retry_after, terminal};

/// A boxed error; types that convert into it also convert into [`Error`].
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// The result of fallible functions of an operator, such as `main` and `reconcile`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Any error with its causes.
///
/// It derefs to [`std::error::Error`], for `source` and `downcast_ref`. As in `anyhow`, it does not
/// implement that trait itself, so that `?` can convert every error. [`find`](Error::find) also
/// finds an error that is wrapped.
///
/// | format  | prints                                     |
/// |---------|--------------------------------------------|
/// | `{}`    | the message                                |
/// | `{:#}`  | the message and its causes on one line     |
/// | `{:?}`  | the message and its causes, a line each    |
///
/// The errors of this crate never print their cause: it is their `source`. Those of some other
/// crates do both, so a cause is omitted if its text is part of the text before it.
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

    /// Returns the first error of type `T` among this error and its causes.
    ///
    /// Neither [`terminal`] and [`retry_after`] nor errors that return it as their source hide it.
    ///
    /// ```
    /// use evenkeel::{Error, client, terminal};
    ///
    /// fn is_conflict(error: &Error) -> bool {
    ///     error.find::<client::Error>().is_some_and(client::Error::is_conflict)
    /// }
    ///
    /// let error = terminal("three".parse::<i32>().unwrap_err());
    /// assert!(error.find::<std::num::ParseIntError>().is_some());
    /// assert!(!is_conflict(&error));
    /// ```
    #[must_use]
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        causes(&*self.0).find_map(|cause| {
            let wrapped = || cause.downcast_ref::<RetryPolicy>()?.error.downcast_ref();
            cause.downcast_ref().or_else(wrapped)
        })
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
///
/// ```
/// let error = std::io::Error::other("connection refused");
/// assert_eq!(evenkeel::chain(&error), "connection refused");
/// ```
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    joined(error, ": ")
}

/// Returns the error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

fn joined(error: &(dyn StdError + 'static), separator: &str) -> String {
    let mut text = error.to_string();
    for cause in causes(error).skip(1).filter(|cause| !cause.is::<RetryPolicy>()) {
        let cause = cause.to_string();
        // Errors of other crates often include the text of their source.
        if !text.contains(&cause) {
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    text
}
