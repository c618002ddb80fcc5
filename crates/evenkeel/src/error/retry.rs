//! Errors with a retry policy.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::{BoxError, Error};

/// Wraps `error` so that it is not retried until the object changes or is resynced.
///
/// ```
/// use evenkeel::{Action, Result, terminal};
///
/// fn check(replicas: i32) -> Result<Action> {
///     if replicas < 0 {
///         return Err(terminal("replicas must not be negative"));
///     }
///     Ok(Action::done())
/// }
/// # assert_eq!(check(-1).unwrap_err().to_string(), "replicas must not be negative");
/// ```
pub fn terminal(error: impl Into<Error>) -> Error {
    RetryError::wrap(error.into(), Retry::Never)
}

/// Wraps `error` so that it is retried after `delay` instead of the backoff.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::{Action, Result, retry_after};
///
/// fn check(licences: u32) -> Result<Action> {
///     if licences == 0 {
///         return Err(retry_after("no licence is free", Duration::from_secs(300)));
///     }
///     Ok(Action::done())
/// }
/// # assert!(check(0).is_err());
/// ```
pub fn retry_after(error: impl Into<Error>, delay: Duration) -> Error {
    RetryError::wrap(error.into(), Retry::After(delay))
}

/// How an error is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    BackOff,
    After(Duration),
    Never,
}

/// An error with a retry policy; it prints as the wrapped error.
///
/// The policy is the source: a transparent wrapper hides this error itself from the chain of
/// sources, but not its source.
#[derive(Debug)]
pub(super) struct RetryError(RetryPolicy);

/// The policy and the wrapped error. The wrapped error is not the source, because its message has
/// already been printed; its source is.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    pub(super) error: BoxError,
    pub(crate) retry: Retry,
}

impl RetryError {
    fn wrap(error: Error, retry: Retry) -> Error {
        Error::new(Self(RetryPolicy { error: error.into_boxed(), retry }))
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

impl StdError for RetryError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// For other crates that print chains; [`chain`](super::chain) omits it.
impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry {
            Retry::BackOff => f.write_str("retried with backoff"),
            Retry::After(delay) => write!(f, "retried after {delay:?}"),
            Retry::Never => f.write_str("terminal error"),
        }
    }
}

impl StdError for RetryPolicy {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}
