//! Email addresses as Go's `net/mail.ParseAddress` accepts them: `a@b` or `Name <a@b>`.

/// Returns whether `text` is a single address.
pub(super) fn is_address(text: &str) -> bool {
    let mut scan = Scan { rest: text };
    scan.space();
    let start = scan.rest;
    if scan.spec() && scan.end() {
        return true;
    }
    // The address must be in angle brackets if there is a display name and may be otherwise.
    scan.rest = start;
    if !scan.rest.starts_with('<') && !scan.phrase() {
        return false;
    }
    scan.space();
    if !scan.eat('<') {
        return false;
    }
    scan.space();
    scan.spec() && {
        scan.space();
        scan.eat('>') && scan.end()
    }
}

struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Returns whether only white space and comments follow.
    fn end(&mut self) -> bool {
        loop {
            self.space();
            if self.rest.is_empty() {
                return true;
            }
            if !self.comment() {
                return false;
            }
        }
    }

    fn comment(&mut self) -> bool {
        if !self.eat('(') {
            return false;
        }
        let mut depth = 1;
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => {
                    chars.next();
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[at + 1..];
                return true;
            }
        }
        false
    }

    /// Parses `local@domain`.
    fn spec(&mut self) -> bool {
        let local = if self.rest.starts_with('"') {
            self.quoted().is_some_and(|length| length > 0)
        } else {
            self.dot_atom()
        };
        self.space();
        if !(local && self.eat('@')) {
            return false;
        }
        self.space();
        if self.rest.starts_with('[') {
            return self.domain_literal();
        }
        self.dot_atom()
    }

    fn phrase(&mut self) -> bool {
        let mut words = 0;
        loop {
            self.space();
            let word = match self.rest.chars().next() {
                Some('"') => self.quoted().is_some(),
                Some(c) if is_atext(c) || (words > 0 && c == '.') => {
                    let end = self
                        .rest
                        .find(|c: char| !(is_atext(c) || c == '.'))
                        .unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                    true
                }
                _ => return words > 0,
            };
            if !word {
                return false;
            }
            words += 1;
        }
    }

    fn quoted(&mut self) -> Option<usize> {
        let mut chars = self.rest.char_indices().skip(1);
        let mut length = 0;
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(length);
                }
                '\\' => {
                    chars.next().filter(|(_, c)| is_quotable(*c))?;
                }
                c if is_quotable(c) => {}
                _ => return None,
            }
            length += 1;
        }
        None
    }

    fn dot_atom(&mut self) -> bool {
        let end = self.rest.find(|c: char| !(is_atext(c) || c == '.')).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        !atom.is_empty() && !atom.split('.').any(str::is_empty)
    }

    fn domain_literal(&mut self) -> bool {
        let Some(end) = self.rest.find(']') else { return false };
        let literal = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        literal.parse::<std::net::IpAddr>().is_ok()
    }
}

fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

fn is_quotable(c: char) -> bool {
    c == ' ' || c == '\t' || c.is_ascii_graphic() || !c.is_ascii()
}
