//! Intended differences: parses the table in `DIFFERENCES.md`.
//!
//! Each row has a request, a path in the response, both values and the reason. `*` in a cell
//! matches any text. A row that no longer matches is reported, so that the table stays current.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::compare::Difference;

/// The table, with a match count for each row.
#[derive(Debug, Default)]
pub struct KnownDifferences {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    request: String,
    at: String,
    upstream: String,
    ours: String,
    why: String,
    hits: AtomicUsize,
}

/// Why the table is invalid.
#[derive(Debug, thiserror::Error)]
#[error("DIFFERENCES.md line {line}: {message}")]
pub struct KnownDifferencesError {
    line: usize,
    message: &'static str,
}

impl KnownDifferences {
    /// Parses the table of this source tree.
    ///
    /// # Errors
    ///
    /// If a row is invalid.
    pub fn built_in() -> Result<Self, KnownDifferencesError> {
        Self::parse(include_str!("../DIFFERENCES.md"))
    }

    /// Parses the table in `text`: the lines that begin with `|`, without the first two.
    ///
    /// # Errors
    ///
    /// If a row does not have five cells or has no reason.
    pub fn parse(text: &str) -> Result<Self, KnownDifferencesError> {
        let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with('|')).skip(2);
        let mut rows = Vec::new();
        for (at, line) in lines {
            let bad = |message| KnownDifferencesError { line: at + 1, message };
            let inner = line.trim().trim_matches('|');
            let cells: Vec<_> =
                inner.split('|').map(|cell| unquoted(cell.trim()).to_owned()).collect();
            let [request, at, upstream, ours, why] =
                <[String; 5]>::try_from(cells).map_err(|_| bad("a row must have five cells"))?;
            if why.is_empty() {
                return Err(bad("a difference must have a reason"));
            }
            rows.push(Row { request, at, upstream, ours, why, hits: AtomicUsize::new(0) });
        }
        Ok(Self { rows })
    }

    /// Returns whether a row matches this difference in the response to `request` (`METHOD path` or
    /// `read name`).
    pub fn explains(&self, request: &str, difference: &Difference) -> bool {
        let upstream = display(difference.upstream.as_ref());
        let ours = display(difference.ours.as_ref());
        let row = self.rows.iter().find(|row| {
            matches(&row.request, request)
                && matches(&row.at, &difference.at)
                && matches(&row.upstream, &upstream)
                && matches(&row.ours, &ours)
        });
        if let Some(row) = row {
            row.hits.fetch_add(1, Ordering::Relaxed);
        }
        row.is_some()
    }

    /// Returns the rows that never matched.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.rows.iter().filter(|row| row.hits.load(Ordering::Relaxed) == 0);
        unused.map(|row| format!("{} at {} ({})", row.request, row.at, row.why)).collect()
    }
}

/// Removes backquotes, inside which whitespace is significant.
fn unquoted(cell: &str) -> &str {
    cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or(cell)
}

fn display(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Returns whether `text` matches `pattern`, where `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
