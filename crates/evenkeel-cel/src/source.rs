//! Positions in the text of an expression, and the problems found there.

use std::fmt;
use std::sync::Arc;

/// A position: a line from 1 and a column from 0, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 if the problem is that of the whole expression.
    pub line: i32,
    /// The column, from 0.
    pub column: i32,
}

impl Location {
    /// No position.
    pub(crate) const NONE: Location = Location { line: -1, column: -1 };

    /// The position of a byte in a text.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before[start..].chars().count();
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        Self { line: number(line + 1), column: number(column) }
    }
}

/// A problem in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where it is.
    pub location: Location,
    /// What it is, as cel-go words it.
    pub message: String,
}

/// Why an expression does not compile. Prints as cel-go does, with the lines in question:
///
/// ```
/// use evenkeel_cel::Env;
/// let env = Env::builder().standard_library().build().unwrap();
/// let issues = env.compile("1 + 'a'").unwrap_err();
/// assert_eq!(issues.to_string(), "\
/// ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'
///  | 1 + 'a'
///  | ..^");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: Arc<str>,
    issues: Vec<Issue>,
    /// How many were found; only the first ones are kept.
    count: usize,
}

/// How many issues are kept.
const LIMIT: usize = 100;
/// Longer lines are not printed.
const SNIPPET: usize = 16_384;

impl Issues {
    pub(crate) fn new(source: Arc<str>) -> Self {
        Self { source, issues: Vec::new(), count: 0 }
    }

    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= LIMIT {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    /// The problems in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }

    /// Sorted by position; `Err` if there are any.
    pub(crate) fn finish(mut self) -> Result<(), Self> {
        self.issues.sort_by_key(|issue| issue.location);
        if self.issues.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, issue) in self.issues.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let Location { line, column } = issue.location;
            write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            self.snippet(f, issue.location)?;
        }
        if self.count > LIMIT {
            write!(f, "\n{} more errors were truncated", self.count - LIMIT)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

impl Issues {
    /// The line with a mark below the column; wide characters have wide dots.
    fn snippet(&self, f: &mut fmt::Formatter<'_>, location: Location) -> fmt::Result {
        let line = usize::try_from(location.line - 1).ok();
        let Some(line) = line.and_then(|line| self.source.split('\n').nth(line)) else {
            return Ok(());
        };
        if line.len() > SNIPPET || self.source.is_empty() {
            return Ok(());
        }
        write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
        let column = usize::try_from(location.column).unwrap_or_default();
        let mut characters = line.chars();
        for character in characters.by_ref().take(column) {
            f.write_str(if character.len_utf8() > 1 { "\u{ff0e}" } else { "." })?;
        }
        let wide = characters.next().is_some_and(|character| character.len_utf8() > 1);
        f.write_str(if wide { "\u{ff3e}" } else { "^" })
    }
}
