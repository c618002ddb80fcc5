//! A value that is never printed.

use std::fmt;

/// A secret value, such as a token or a password: `Debug` and `Display` print `[redacted]`, and it
/// cannot be serialized.
///
/// ```
/// use evenkeel::Redacted;
///
/// #[derive(Debug)]
/// struct Login {
///     user: String,
///     password: Redacted<String>,
/// }
///
/// let login = Login { user: "ada".into(), password: Redacted::new("lovelace".into()) };
/// assert_eq!(format!("{login:?}"), r#"Login { user: "ada", password: [redacted] }"#);
/// assert_eq!(login.password.expose(), "lovelace");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value. What happens to it from here on is visible by this name.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the value.
    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> From<T> for Redacted<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T> fmt::Display for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
