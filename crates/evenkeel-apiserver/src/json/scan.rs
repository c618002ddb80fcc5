//! The error messages of Go's JSON scanner.
//!
//! The input is known to be invalid. The scanner finds the byte at which Go stops, and its message.
//! Like Go, it treats the end of input as a space.

use evenkeel_types::go;

/// Returns the syntax error, or `None` if Go's scanner accepts the input.
pub(super) fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scan = Scan { at: At::Value, within: Vec::new() };
    for byte in text {
        if let Err(unexpected) = scan.step(*byte) {
            return Some(format_error(*byte, unexpected));
        }
    }
    if scan.at == At::End {
        return None;
    }
    Some(match scan.step(b' ') {
        Err(unexpected) => format_error(b' ', unexpected),
        Ok(()) if scan.at == At::End => return None,
        Ok(()) => "unexpected end of JSON input".to_owned(),
    })
}

fn format_error(byte: u8, unexpected: Unexpected) -> String {
    let c = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        byte => {
            let quoted = go::quote(&char::from(byte).to_string());
            quoted[1..quoted.len() - 1].to_owned()
        }
    };
    match unexpected {
        Unexpected::Context(unexpected) => format!("invalid character '{c}' {unexpected}"),
        Unexpected::Literal(word, expected) => {
            format!("invalid character '{c}' in literal {word} (expecting '{expected}')")
        }
    }
}

#[derive(Clone, Copy)]
enum Unexpected {
    Context(&'static str),
    Literal(&'static str, char),
}

/// What the scanner expects next.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Value,
    /// As [`At::Value`], or the end of an empty list.
    FirstItem,
    Key,
    /// As [`At::Key`], or the end of an empty object.
    FirstKey,
    /// The value has ended, unless a number continues.
    Done,
    End,
    Text,
    Escape,
    Hex(u8),
    Minus,
    /// A zero, which cannot be followed by another digit.
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    Literal(&'static str, u8),
}

/// The container of the current position.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Key,
    Value,
    List,
}

struct Scan {
    at: At,
    within: Vec<Within>,
}

impl Scan {
    fn step(&mut self, c: u8) -> Result<(), Unexpected> {
        let space = matches!(c, b' ' | b'\t' | b'\r' | b'\n');
        let digit = c.is_ascii_digit();
        self.at = match self.at {
            at @ (At::Value | At::FirstItem | At::Key | At::FirstKey | At::End) if space => at,
            At::FirstItem if c == b']' => return self.close(),
            At::Value | At::FirstItem => self.begin(c)?,
            At::FirstKey if c == b'}' => return self.close(),
            At::Key | At::FirstKey if c == b'"' => At::Text,
            At::Key | At::FirstKey => {
                return Err(Unexpected::Context("looking for beginning of object key string"));
            }
            At::Done => return self.after(c),
            At::End => return Err(Unexpected::Context("after top-level value")),
            At::Text => match c {
                b'"' => At::Done,
                b'\\' => At::Escape,
                0..0x20 => return Err(Unexpected::Context("in string literal")),
                _ => At::Text,
            },
            At::Escape => match c {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => At::Text,
                b'u' => At::Hex(4),
                _ => return Err(Unexpected::Context("in string escape code")),
            },
            At::Hex(left) if c.is_ascii_hexdigit() => {
                if left == 1 {
                    At::Text
                } else {
                    At::Hex(left - 1)
                }
            }
            At::Hex(_) => return Err(Unexpected::Context("in \\u hexadecimal character escape")),
            At::Minus if c == b'0' => At::Zero,
            At::Minus | At::Digits if digit => At::Digits,
            At::Minus => return Err(Unexpected::Context("in numeric literal")),
            At::Zero | At::Digits if c == b'.' => At::Point,
            At::Zero | At::Digits | At::Fraction if matches!(c, b'e' | b'E') => At::Exponent,
            At::Point | At::Fraction if digit => At::Fraction,
            At::Point => return Err(Unexpected::Context("after decimal point in numeric literal")),
            At::Exponent if matches!(c, b'+' | b'-') => At::ExponentSign,
            At::Exponent | At::ExponentSign | At::ExponentDigits if digit => At::ExponentDigits,
            At::Exponent | At::ExponentSign => {
                return Err(Unexpected::Context("in exponent of numeric literal"));
            }
            At::Zero | At::Digits | At::Fraction | At::ExponentDigits => return self.after(c),
            At::Literal(word, seen) => {
                let expected = word.as_bytes()[usize::from(seen)];
                if c != expected {
                    return Err(Unexpected::Literal(word, char::from(expected)));
                }
                let seen = seen + 1;
                if usize::from(seen) == word.len() { At::Done } else { At::Literal(word, seen) }
            }
        };
        // Only a nested value can be followed by another token.
        if self.at == At::Done && self.within.is_empty() {
            self.at = At::End;
        }
        Ok(())
    }

    fn begin(&mut self, c: u8) -> Result<At, Unexpected> {
        Ok(match c {
            b'{' => {
                self.within.push(Within::Key);
                At::FirstKey
            }
            b'[' => {
                self.within.push(Within::List);
                At::FirstItem
            }
            b'"' => At::Text,
            b'-' => At::Minus,
            b'0' => At::Zero,
            b'1'..=b'9' => At::Digits,
            b't' => At::Literal("true", 1),
            b'f' => At::Literal("false", 1),
            b'n' => At::Literal("null", 1),
            _ => return Err(Unexpected::Context("looking for beginning of value")),
        })
    }

    /// Reads the byte after a value.
    fn after(&mut self, c: u8) -> Result<(), Unexpected> {
        let Some(within) = self.within.last_mut() else {
            self.at = At::End;
            return self.step(c);
        };
        if matches!(c, b' ' | b'\t' | b'\r' | b'\n') {
            self.at = At::Done;
            return Ok(());
        }
        match (*within, c) {
            (Within::Key, b':') => {
                *within = Within::Value;
                self.at = At::Value;
            }
            (Within::Value, b',') => {
                *within = Within::Key;
                self.at = At::Key;
            }
            (Within::List, b',') => self.at = At::Value,
            (Within::Value, b'}') | (Within::List, b']') => return self.close(),
            (Within::Key, _) => return Err(Unexpected::Context("after object key")),
            (Within::Value, _) => return Err(Unexpected::Context("after object key:value pair")),
            (Within::List, _) => return Err(Unexpected::Context("after array element")),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Unexpected> {
        self.within.pop();
        self.at = if self.within.is_empty() { At::End } else { At::Done };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::syntax_error;

    #[test]
    fn errors_match_go() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("{\"a\": tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("nul}", "invalid character '}' in literal null (expecting 'l')"),
            ("[-", "invalid character ' ' in numeric literal"),
            ("[1.", "invalid character ' ' after decimal point in numeric literal"),
            ("1e", "invalid character ' ' in exponent of numeric literal"),
            ("[1", "unexpected end of JSON input"),
            ("{\"a\":x}", "invalid character 'x' looking for beginning of value"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn valid_json_has_no_syntax_error() {
        for text in ["1", " [] ", "{}", "-0.5e+7", "[{\"a\":[1,\"\\u00e9\"]},null]", "true"] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }
}
