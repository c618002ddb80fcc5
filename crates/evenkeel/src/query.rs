//! Query parameters of requests.

use std::fmt::Write as _;

/// Builds a query string; empty values are omitted.
#[derive(Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        // Written here because it is one match: a crate for it would be one more in every operator.
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    self.0.push(byte.into());
                }
                _ => {
                    let _ = write!(self.0, "%{byte:02X}");
                }
            }
        }
    }

    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.add(name, &value.to_string());
    }

    /// Returns the query string including the question mark, or an empty string.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
