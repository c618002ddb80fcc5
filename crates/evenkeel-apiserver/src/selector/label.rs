//! Label selectors: `app=web,tier in (a, b),!canary`.
//!
//! A parser of upstream's grammar with upstream's error messages. Requirements are kept in order;
//! all must match.

use evenkeel_schema::names;

use crate::storage::Labels;

/// A label selector. An empty one selects everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Parser { rest: text }.requirements().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|v| lists(values, v)),
            Self::NotIn(values) => value.is_none_or(|v| !lists(values, v)),
            Self::Greater(bound) => number(value).is_some_and(|n| n > *bound),
            Self::Less(bound) => number(value).is_some_and(|n| n < *bound),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

struct Parser<'a> {
    rest: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    In,
    NotIn,
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::In => "in",
            Self::NotIn => "notin",
            Self::Word(word) => word,
        }
    }
}

impl<'a> Parser<'a> {
    /// Returns the next token; `values` is whether `in` and `notin` are plain words here.
    fn next(&mut self, values: bool) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
        let Some(first) = self.rest.chars().next() else { return Token::End };
        let (token, length) = if special(first) {
            match (first, self.rest.as_bytes().get(1)) {
                ('=', Some(b'=')) => (Token::DoubleEquals, 2),
                ('!', Some(b'=')) => (Token::NotEquals, 2),
                ('=', _) => (Token::Equals, 1),
                ('!', _) => (Token::Not, 1),
                ('(', _) => (Token::Open, 1),
                (')', _) => (Token::Close, 1),
                (',', _) => (Token::Comma, 1),
                ('>', _) => (Token::Greater, 1),
                _ => (Token::Less, 1),
            }
        } else {
            let end = self
                .rest
                .find(|c: char| special(c) || matches!(c, ' ' | '\t' | '\r' | '\n'))
                .unwrap_or(self.rest.len());
            let word = &self.rest[..end];
            let token = match word {
                "in" if !values => Token::In,
                "notin" if !values => Token::NotIn,
                _ => Token::Word(word),
            };
            (token, end)
        };
        self.rest = &self.rest[length..];
        token
    }

    fn peek(&self, values: bool) -> Token<'a> {
        Parser { rest: self.rest }.next(values)
    }

    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut all = Vec::new();
        loop {
            match self.peek(true) {
                Token::End => return Ok(all),
                Token::Word(_) | Token::Not => {
                    let requirement = self.requirement();
                    all.push(
                        requirement.map_err(|why| format!("unable to parse requirement: {why}"))?,
                    );
                    match self.next(true) {
                        Token::End => return Ok(all),
                        Token::Comma => match self.peek(true) {
                            Token::Word(_) | Token::Not => {}
                            other => {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    other.text()
                                ));
                            }
                        },
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            ));
                        }
                    }
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek(true) == Token::Not;
        if negated {
            self.next(true);
        }
        let key = match self.next(true) {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if let Some(why) = names::qualified_name(key).into_iter().next() {
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        let make = |test| Ok(Requirement { key: key.to_owned(), test });
        if negated {
            return make(Test::Absent);
        }
        match self.peek(false) {
            Token::End | Token::Comma => make(Test::Exists),
            Token::In => {
                self.next(false);
                self.values(key).and_then(|values| make(Test::In(values)))
            }
            Token::NotIn => {
                self.next(false);
                self.values(key).and_then(|values| make(Test::NotIn(values)))
            }
            Token::Equals | Token::DoubleEquals => {
                self.next(false);
                self.exact(key).and_then(|value| make(Test::In(vec![value])))
            }
            Token::NotEquals => {
                self.next(false);
                self.exact(key).and_then(|value| make(Test::NotIn(vec![value])))
            }
            token @ (Token::Greater | Token::Less) => {
                self.next(false);
                let value = self.exact(key)?;
                let bound = value.parse::<i64>().map_err(|_| {
                    format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the \
                         value must be an integer"
                    )
                })?;
                make(if token == Token::Greater { Test::Greater(bound) } else { Test::Less(bound) })
            }
            other => {
                Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()))
            }
        }
    }

    fn exact(&mut self, key: &str) -> Result<String, String> {
        match self.peek(true) {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(word) => {
                self.next(true);
                checked(key, word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next(true) {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next(true) {
                Token::Word(word) => {
                    values.push(checked(key, word)?);
                    match self.next(true) {
                        Token::Comma => {
                            // `(a,)` has an empty second value.
                            if self.peek(true) == Token::Close {
                                values.push(String::new());
                            }
                        }
                        Token::Close => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    break;
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        other.text()
                    ));
                }
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

/// Returns whether `values`, which is sorted, contains a value.
fn lists(values: &[String], value: &str) -> bool {
    values.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
}

fn checked(key: &str, value: &str) -> Result<String, String> {
    match names::label_value(value).into_iter().next() {
        None => Ok(value.to_owned()),
        Some(why) => Err(format!("values[0][{key}]: Invalid value: {value:?}: {why}")),
    }
}

#[cfg(test)]
mod tests;
