//! Comma-separated values as Go's `encoding/csv` reads them, errors included.
//!
//! Token files are written for kube-apiserver, so the format and the errors are Go's. Fields may be
//! quoted, quoted fields may span lines, empty lines are skipped, and records may differ in length.

/// The position and kind of a syntax error; columns count bytes from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    record_line: usize,
    line: usize,
    column: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    BareQuote,
    Quote,
}

/// An iterator over the records of a text, which ends after the first error.
pub(super) struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, line: 0 }
    }

    /// Returns the next line without its terminator, and whether it had one.
    fn next_line(&mut self) -> Option<(&'a str, bool)> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let (line, terminated) = match self.rest.split_once('\n') {
            Some((line, rest)) => {
                self.rest = rest;
                (line, true)
            }
            None => (std::mem::take(&mut self.rest), false),
        };
        Some((line.strip_suffix('\r').unwrap_or(line), terminated))
    }

    fn record(&mut self, mut line: &'a str, mut terminated: bool) -> Result<Vec<String>, Error> {
        let record_line = self.line;
        let fail = |line, column, kind| Error { record_line, line, column, kind };
        let mut fields = Vec::new();
        let mut column = 1;
        loop {
            let Some(mut quoted) = line.strip_prefix('"') else {
                let (field, rest) = match line.split_once(',') {
                    Some((field, rest)) => (field, Some(rest)),
                    None => (line, None),
                };
                if let Some(at) = field.find('"') {
                    return Err(fail(self.line, column + at, Kind::BareQuote));
                }
                fields.push(field.to_owned());
                let Some(rest) = rest else { return Ok(fields) };
                column += field.len() + 1;
                line = rest;
                continue;
            };
            column += 1;
            let mut field = String::new();
            line = loop {
                let Some((text, rest)) = quoted.split_once('"') else {
                    field.push_str(quoted);
                    column += quoted.len();
                    if terminated {
                        field.push('\n');
                        column += 1;
                    }
                    let next = if terminated { self.next_line() } else { None };
                    let Some(next) = next else {
                        return Err(fail(self.line, column, Kind::Quote));
                    };
                    (quoted, terminated) = next;
                    column = 1;
                    continue;
                };
                field.push_str(text);
                column += text.len() + 1;
                if let Some(rest) = rest.strip_prefix('"') {
                    field.push('"');
                    column += 1;
                    quoted = rest;
                } else if let Some(rest) = rest.strip_prefix(',') {
                    column += 1;
                    break rest;
                } else if rest.is_empty() {
                    fields.push(field);
                    return Ok(fields);
                } else {
                    return Err(fail(self.line, column - 1, Kind::Quote));
                }
            };
            fields.push(field);
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Vec<String>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (line, terminated) = self.next_line()?;
            if line.is_empty() {
                continue;
            }
            let record = self.record(line, terminated);
            if record.is_err() {
                self.rest = "";
            }
            return Some(record);
        }
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { record_line, line, column, kind } = self;
        if record_line != line {
            write!(f, "record on line {record_line}; ")?;
        }
        let kind = match kind {
            Kind::BareQuote => "bare \" in non-quoted-field",
            Kind::Quote => "extraneous or missing \" in quoted-field",
        };
        write!(f, "parse error on line {line}, column {column}: {kind}")
    }
}
