//! What the API server warns of: deprecated versions, fields it drops, values it doubts.

use std::collections::BTreeSet;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

use super::error::RequestInfo;

/// How many warnings are remembered; beyond that each may be told once more.
const REMEMBERED: usize = 256;

/// Tells each warning once: a reconciler that causes one causes it all the time.
#[derive(Default)]
pub(super) struct Warnings(Mutex<BTreeSet<String>>);

impl Warnings {
    pub(super) fn tell(&self, request_info: &RequestInfo, headers: &HeaderMap) {
        let texts = headers.get_all(WARNING).iter().filter_map(|value| value.to_str().ok());
        for text in texts.filter_map(text_of) {
            if self.is_new(&text) {
                tracing::warn!(kind = %request_info.kind, "{request_info}: the API server warns: {text}");
            }
        }
    }

    fn is_new(&self, text: &str) -> bool {
        let mut told = self.0.lock();
        if told.contains(text) {
            return false;
        }
        if told.len() == REMEMBERED {
            told.clear();
        }
        told.insert(text.to_owned())
    }
}

/// The text of `299 agent "text"`, the only form the API server uses.
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
    fn only_whole_warnings_of_the_api_server_are_read() {
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
    fn a_warning_is_told_once() {
        let warnings = Warnings::default();
        assert!(warnings.is_new("a"));
        assert!(!warnings.is_new("a"));
        for number in 0..REMEMBERED {
            warnings.is_new(&number.to_string());
        }
        assert!(warnings.0.lock().len() <= REMEMBERED);
    }
}
