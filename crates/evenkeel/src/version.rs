//! ResourceVersions.

use std::fmt;

/// A resourceVersion. Those of one type of one server are comparable; zero means none.
///
/// ```
/// use evenkeel::cache::Version;
///
/// assert!(Version::parse("9") < Version::parse("10"));
/// assert_eq!(Version::parse("opaque"), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(crate) u64);

impl Version {
    /// Parses a resourceVersion; `None` if it is not a decimal number, as in upstream's comparison.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok().map(Self)).flatten()
    }

    /// Returns whether it is absent or not a number, so that it cannot be compared.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
