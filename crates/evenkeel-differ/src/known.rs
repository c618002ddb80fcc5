//! What differs on purpose: the table in `DIFFERENCES.md`, read as data.
//!
//! Each row says which requests it concerns, where in the answer, what either side says, and why
//! it stays so. `*` in a cell is any text. A row that matches nothing any more is reported, so that
//! the table cannot outlive its reasons.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::compare::Difference;

/// The table, with a count for each row.
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

/// Why the table cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("DIFFERENCES.md line {line}: {message}")]
pub struct KnownDifferencesError {
    line: usize,
    message: &'static str,
}

impl KnownDifferences {
    /// The table of this source tree.
    ///
    /// # Errors
    ///
    /// If a row is not of its form.
    pub fn built_in() -> Result<Self, KnownDifferencesError> {
        Self::parse(include_str!("../DIFFERENCES.md"))
    }

    /// Reads the table in `text`: the lines that begin with `|`, without the first two.
    ///
    /// # Errors
    ///
    /// If a row has not five cells, or gives no reason.
    pub fn parse(text: &str) -> Result<Self, KnownDifferencesError> {
        let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with('|')).skip(2);
        let mut rows = Vec::new();
        for (at, line) in lines {
            let bad = |message| KnownDifferencesError { line: at + 1, message };
            let inner = line.trim().trim_matches('|');
            let cells: Vec<_> =
                inner.split('|').map(|cell| unquoted(cell.trim()).to_owned()).collect();
            let [request, at, upstream, ours, why] =
                <[String; 5]>::try_from(cells).map_err(|_| bad("a row has five cells"))?;
            if why.is_empty() {
                return Err(bad("a difference needs a reason"));
            }
            rows.push(Row { request, at, upstream, ours, why, hits: AtomicUsize::new(0) });
        }
        Ok(Self { rows })
    }

    /// Whether the table has this difference, in the answer to `request` (`METHOD path` or `read
    /// name`).
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

    /// Rows that never matched.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.rows.iter().filter(|row| row.hits.load(Ordering::Relaxed) == 0);
        unused.map(|row| format!("{} at {} ({})", row.request, row.at, row.why)).collect()
    }
}

/// Blanks count inside backquotes.
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

/// Whether `text` is as `pattern` says, where `*` stands for any text.
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
