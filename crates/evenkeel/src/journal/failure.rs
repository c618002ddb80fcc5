//! The error of a failed reconcile.

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::error::{Error, chain};

/// The error of a failed reconcile: its text and the error itself.
///
/// ```
/// use evenkeel::journal::Failure;
///
/// let failure = Failure::from("three".parse::<i32>().unwrap_err());
/// assert_eq!(failure.message(), "invalid digit found in string");
/// assert!(failure.find::<std::num::ParseIntError>().is_some());
/// ```
#[derive(Clone)]
pub struct Failure {
    message: Arc<str>,
    error: Retained,
}

impl Failure {
    /// Returns the message and its causes on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the first error of type `T` among the error and its causes; see [`Error::find`].
    #[must_use]
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        self.error.0.as_ref()?.find()
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { message: chain(&*error).into(), error: Retained(Some(Arc::new(error))) }
    }
}

/// Failures with the same message are equal.
impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl Eq for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.message)
    }
}

/// The journal drops an error long after the reconcile: a panic of its destructor must not end the
/// worker.
#[derive(Clone)]
struct Retained(Option<Arc<Error>>);

impl Drop for Retained {
    fn drop(&mut self) {
        let error = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(error))).is_err() {
            tracing::error!("destructor of a reconcile error panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("loaded")]
    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn panic_of_a_destructor_is_caught() {
        let failure = Failure::from(PanicsOnDrop);
        assert!(failure.find::<PanicsOnDrop>().is_some());
        let other = failure.clone();
        drop(failure);
        assert_eq!(other.message(), "loaded");
        drop(other);
    }
}
