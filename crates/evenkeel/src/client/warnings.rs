//! Warnings of the API server: deprecated versions, unknown fields, discouraged values.

use std::collections::BTreeSet;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

use crate::request_info::RequestInfo;

/// The maximum number of remembered warnings; beyond it they may be logged again.
const WARNINGS_MAX: usize = 256;

/// Logs each warning once: a reconciler usually causes it on every run.
#[derive(Default)]
pub(super) struct Warnings(Mutex<BTreeSet<String>>);

impl Warnings {
    pub(super) fn log(&self, request_info: &RequestInfo, headers: &HeaderMap) {
        let texts = headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
        for text in texts.filter_map(text_of) {
            if self.is_new(&text) {
                tracing::warn!(request = %request_info, warning = text, "API server warning");
            }
        }
    }

    fn is_new(&self, text: &str) -> bool {
        let mut logged = self.0.lock();
        if logged.contains(text) {
            return false;
        }
        if logged.len() == WARNINGS_MAX {
            logged.clear();
        }
        logged.insert(text.to_owned())
    }
}

/// Parses `299 agent "text"`, the only form the API server sends.
fn text_of(header: &str) -> Option<String> {
    let (_, quoted) = header.strip_prefix("299 ")?.split_once(' ')?;
    let quoted = quoted.strip_prefix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_warning_headers_are_parsed() {
        let text = |header| text_of(header);
        assert_eq!(
            text(r#"299 - "unknown field \"spec.x\"""#),
            Some(r#"unknown field "spec.x""#.into())
        );
        assert_eq!(text(r#"299 agent "old" "Thu""#), Some("old".into()));
        for other in ["", "299", "299 -", "199 - \"x\"", "299 - x", "299 - \"x", "299 - \"x\\"] {
            assert_eq!(text(other), None, "{other}");
        }
    }

    #[test]
    fn warning_is_logged_once() {
        let warnings = Warnings::default();
        assert!(warnings.is_new("a"));
        assert!(!warnings.is_new("a"));
        for number in 0..WARNINGS_MAX {
            warnings.is_new(&number.to_string());
        }
        assert!(warnings.0.lock().len() <= WARNINGS_MAX);
    }
}
