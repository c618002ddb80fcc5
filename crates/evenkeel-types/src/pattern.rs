//! Go's (RE2) regular expressions, on the `regex` crate.
//!
//! The two syntaxes differ in detail: Go's `\d`, `\w`, `\s` and `\b` are ASCII, `[` inside a class
//! is literal, a `{` that does not start a repetition is literal, and octal escapes exist.
//! [`Pattern::new`] rewrites the source accordingly and rejects what Go rejects, with Go's messages
//! for common errors.

use regex::{Regex, RegexBuilder};

/// A compiled `pattern`. Matching is unanchored, as in JSON schema.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles Go syntax. The error is the text of Go's `regexp/syntax.Error`.
    pub fn new(source: &str) -> Result<Self, String> {
        let failed = |(what, at): (&str, &str)| format!("error parsing regexp: {what}: `{at}`");
        let translated = Translator::new(source).run().map_err(failed)?;
        let regex = RegexBuilder::new(&translated)
            .size_limit(16 << 20)
            .build()
            .map_err(|_| failed(("invalid or unsupported syntax", source)))?;
        Ok(Self { source: source.into(), regex })
    }

    /// The source, in Go's syntax.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The leftmost match.
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|found| found.as_str())
    }

    /// Matches from left to right that do not overlap. As in Go, an empty match directly after
    /// another match is left out.
    pub fn find_all<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.find_iter(text).map(|found| found.as_str())
    }
}

type Mistake<'a> = (&'static str, &'a str);

struct Translator<'a> {
    source: &'a str,
    at: usize,
    out: String,
    open_groups: usize,
    /// Start and end of the last repetition operator, if nothing follows it yet.
    repetition: Option<(usize, usize)>,
    /// Whether a repetition operator has an operand.
    atom: bool,
}

impl<'a> Translator<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            out: String::with_capacity(source.len() + 16),
            open_groups: 0,
            repetition: None,
            atom: false,
        }
    }

    fn run(mut self) -> Result<String, Mistake<'a>> {
        while let Some(c) = self.peek() {
            let start = self.at;
            match c {
                '\\' => {
                    self.escape(false)?;
                    self.atom();
                }
                '[' => {
                    self.class()?;
                    self.atom();
                }
                '(' => self.group()?,
                ')' => {
                    if self.open_groups == 0 {
                        return Err(("unexpected )", self.source));
                    }
                    self.open_groups -= 1;
                    self.take(1);
                    self.atom();
                }
                '*' | '+' | '?' => {
                    self.take(1);
                    self.repeat(start)?;
                }
                '{' => match repetition_length(&self.source[self.at..]) {
                    Some(length) => {
                        let text = &self.source[start..start + length];
                        if !repetition_in_range(text) {
                            return Err(("invalid repeat count", text));
                        }
                        self.take(length);
                        self.repeat(start)?;
                    }
                    None => {
                        self.at += 1;
                        self.out.push_str("\\{");
                        self.atom();
                    }
                },
                '|' => {
                    self.take(1);
                    self.atom = false;
                    self.repetition = None;
                }
                '^' | '$' => {
                    self.take(1);
                    self.atom();
                }
                c => {
                    self.take(c.len_utf8());
                    self.atom();
                }
            }
        }
        if self.open_groups > 0 {
            return Err(("missing closing )", self.source));
        }
        Ok(self.out)
    }

    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    /// Copies `length` bytes of the source.
    fn take(&mut self, length: usize) {
        self.out.push_str(&self.source[self.at..self.at + length]);
        self.at += length;
    }

    fn atom(&mut self) {
        self.atom = true;
        self.repetition = None;
    }

    fn repeat(&mut self, start: usize) -> Result<(), Mistake<'a>> {
        if !self.atom {
            return Err(("missing argument to repetition operator", &self.source[start..self.at]));
        }
        // A `?` after an operator makes it lazy. Go rejects any further operator.
        if self.peek() == Some('?') {
            self.take(1);
        }
        if let Some((first, _)) = self.repetition {
            return Err(("invalid nested repetition operator", &self.source[first..self.at]));
        }
        self.repetition = Some((start, self.at));
        Ok(())
    }

    fn group(&mut self) -> Result<(), Mistake<'a>> {
        let rest = &self.source[self.at..];
        if let Some(flags) = rest.strip_prefix("(?") {
            let named = flags
                .strip_prefix("P<")
                .or_else(|| flags.strip_prefix('<').filter(|name| !name.starts_with(['=', '!'])));
            if let Some(name) = named {
                let Some(end) = name.find('>') else {
                    return Err(("invalid named capture", rest));
                };
                let length = rest.len() - name.len() + end + 1;
                let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                if end == 0 || !name.bytes().take(end).all(word) {
                    return Err(("invalid named capture", &rest[..length]));
                }
                // The name has no effect on matching, and the regex crate accepts fewer names.
                self.open_groups += 1;
                self.at += length;
                self.out.push('(');
            } else {
                let length = flags.bytes().take_while(|b| b"imsU-".contains(b)).count();
                match flags.as_bytes().get(length) {
                    Some(b':') => {
                        self.open_groups += 1;
                        self.take(length + 3);
                    }
                    Some(b')') if length > 0 => self.take(length + 3),
                    other => {
                        // Go reports the construct up to and including the invalid character.
                        let end = 2 + length + usize::from(other.is_some());
                        let end = (end..=rest.len()).find(|i| rest.is_char_boundary(*i));
                        let text = &rest[..end.unwrap_or(rest.len())];
                        return Err(("invalid or unsupported Perl syntax", text));
                    }
                }
            }
        } else {
            self.open_groups += 1;
            self.take(1);
        }
        self.atom = false;
        self.repetition = None;
        Ok(())
    }

    fn class(&mut self) -> Result<(), Mistake<'a>> {
        const SHAPES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
            "punct", "space", "upper", "word", "xdigit",
        ];
        let start = self.at;
        self.take(1);
        if self.peek() == Some('^') {
            self.take(1);
        }
        let first = self.at;
        loop {
            let item = self.at;
            let rest = &self.source[item..];
            match self.peek() {
                None => return Err(("missing closing ]", &self.source[start..])),
                Some(']') if item > first => {
                    self.take(1);
                    return Ok(());
                }
                Some('[') if rest.starts_with("[:") && rest.contains(":]") => {
                    let length = rest.find(":]").unwrap_or(0) + 2;
                    let name = rest[2..length - 2].trim_start_matches('^');
                    if !SHAPES.contains(&name) {
                        return Err(("invalid character class range", &rest[..length]));
                    }
                    self.take(length);
                }
                Some(_) => {
                    let low = self.class_member()?;
                    let rest = &self.source[self.at..];
                    if low.is_none() || !rest.starts_with('-') || rest.starts_with("-]") {
                        continue;
                    }
                    self.take(1);
                    let end = self.at;
                    if self.peek().is_none() {
                        continue;
                    }
                    match self.class_member()? {
                        None => {
                            let class = &self.source[end..self.at];
                            return Err(("invalid escape sequence", class));
                        }
                        high if low <= high => {}
                        Some(_) => {
                            let range = &self.source[item..self.at];
                            return Err(("invalid character class range", range));
                        }
                    }
                }
            }
        }
    }

    /// Parses one character of a class, escaped for the regex crate. Returns `None` for a class of
    /// several characters.
    fn class_member(&mut self) -> Result<Option<char>, Mistake<'a>> {
        let Some(c) = self.peek() else { return Ok(None) };
        if c != '\\' {
            self.at += c.len_utf8();
            // Some of these are set operators in the regex crate if doubled.
            if matches!(c, '[' | ']' | '&' | '~' | '-') {
                self.out.push('\\');
            }
            self.out.push(c);
            return Ok(Some(c));
        }
        let named = self.source[self.at + 1..].chars().next();
        let before = self.out.len();
        self.escape(true)?;
        if matches!(named, Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P')) {
            return Ok(None);
        }
        // Decodes the single character that the escape stands for.
        let text = &self.out[before..];
        let code = match text.strip_prefix("\\x") {
            Some(hex) => u32::from_str_radix(hex.trim_matches(['{', '}']), 16).ok(),
            None => match named {
                Some('a') => Some(7),
                Some('f') => Some(12),
                Some('t') => Some(9),
                Some('n') => Some(10),
                Some('r') => Some(13),
                Some('v') => Some(11),
                Some(c) => Some(c as u32),
                None => None,
            },
        };
        Ok(code.and_then(char::from_u32))
    }

    fn escape(&mut self, in_class: bool) -> Result<(), Mistake<'a>> {
        let rest = &self.source[self.at..];
        let Some(c) = rest[1..].chars().next() else {
            return Err(("trailing backslash at end of expression", ""));
        };
        let width = 1 + c.len_utf8();
        let replacement = match (c, in_class) {
            ('d', false) => "[0-9]",
            ('d', true) => "0-9",
            ('D', _) => "[^0-9]",
            ('w', false) => "[0-9A-Za-z_]",
            ('w', true) => "0-9A-Za-z_",
            ('W', _) => "[^0-9A-Za-z_]",
            ('s', false) => "[\\t\\n\\f\\r ]",
            ('s', true) => "\\t\\n\\f\\r ",
            ('S', _) => "[^\\t\\n\\f\\r ]",
            ('b', false) => "(?-u:\\b)",
            ('B', false) => "(?-u:\\B)",
            ('<', _) => "<",
            ('>', _) => ">",
            ('Q', false) => {
                let literal = &rest[2..];
                let end = literal.find("\\E").unwrap_or(literal.len());
                self.out.push_str(&regex::escape(&literal[..end]));
                self.at += 2 + end + if end == literal.len() { 0 } else { 2 };
                return Ok(());
            }
            ('0'..='7', _) => return self.octal(rest),
            ('p' | 'P', _) => {
                let length = match rest[width..].chars().next() {
                    Some('{') => rest.find('}').map(|end| end + 1),
                    Some(class) => Some(width + class.len_utf8()),
                    None => None,
                };
                let Some(length) = length else {
                    return Err(("invalid character class range", rest));
                };
                let class = &rest[..length];
                let negated = if c == 'p' { "\\P{" } else { "\\p{" };
                let class = class.replace(&format!("\\{c}{{^"), negated);
                if Regex::new(&class).is_err() {
                    return Err(("invalid character class range", &rest[..length]));
                }
                self.out.push_str(&class);
                self.at += length;
                return Ok(());
            }
            ('x', _) => {
                let length = match rest[width..].chars().next() {
                    Some('{') => rest.find('}').map(|end| end + 1),
                    _ => Some(width + 2).filter(|end| {
                        rest.get(width..*end)
                            .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
                    }),
                };
                let Some(length) = length else {
                    return Err(("invalid escape sequence", &rest[..width]));
                };
                self.take(length);
                return Ok(());
            }
            ('A' | 'z', false) | ('a' | 'f' | 't' | 'n' | 'r' | 'v', _) => {
                self.take(width);
                return Ok(());
            }
            (c, _) if c.is_ascii() && !c.is_ascii_alphanumeric() => {
                self.take(width);
                return Ok(());
            }
            _ => return Err(("invalid escape sequence", &rest[..width])),
        };
        self.out.push_str(replacement);
        self.at += width;
        Ok(())
    }

    fn octal(&mut self, rest: &'a str) -> Result<(), Mistake<'a>> {
        let digits = rest[1..].bytes().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
        // A single digit other than zero would be a back reference.
        if digits == 1 && !rest.starts_with("\\0") {
            return Err(("invalid escape sequence", &rest[..2]));
        }
        let code = u32::from_str_radix(&rest[1..=digits], 8).unwrap_or(0);
        self.out.push_str(&format!("\\x{{{code:X}}}"));
        self.at += 1 + digits;
        Ok(())
    }
}

/// Returns the length of `{n}`, `{n,}` or `{n,m}` at the start of `text`.
fn repetition_length(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (low, high) = match text[1..end].split_once(',') {
        Some((low, high)) => (low, high),
        None => (&text[1..end], ""),
    };
    let number = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    (!low.is_empty() && number(low) && number(high)).then_some(end + 1)
}

fn repetition_in_range(text: &str) -> bool {
    const GO_MAX: u32 = 1000;
    let body = text.trim_matches(['{', '}']);
    let (low, high) = body.split_once(',').unwrap_or((body, body));
    let parse = |s: &str| s.parse::<u32>().ok().filter(|n| *n <= GO_MAX);
    match (parse(low), high.is_empty(), parse(high)) {
        (Some(_), true, _) => true,
        (Some(low), false, Some(high)) => low <= high,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
