//! Label selectors: `app=web,tier in (a, b),!canary`.
//!
//! A parser of upstream's grammar with upstream's error messages. Requirements are kept in order;
//! all must match.

use evenkeel_schema::{field, names};
use evenkeel_types::go::Quoted;
use serde_json::Value;

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

    /// Reads a LabelSelector object; null selects everything.
    pub(crate) fn from_object(selector: &Value) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let exact = selector["matchLabels"].as_object().into_iter().flatten();
        let exact = exact.map(|(key, value)| {
            Ok(Requirement { key: key.clone(), test: Test::In(vec![text(value)]) })
        });
        let terms = selector["matchExpressions"].as_array().into_iter().flatten();
        let terms = terms.map(|term| {
            let values = term["values"].as_array().into_iter().flatten().map(text).collect();
            let test = match term["operator"].as_str().unwrap_or("") {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => {
                    return Err(format!(
                        "{} is not a valid label selector operator",
                        Quoted(other)
                    ));
                }
            };
            Ok(Requirement { key: text(&term["key"]), test })
        });
        exact.chain(terms).collect::<Result<_, _>>().map(Self)
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
        let reasons = names::qualified_name(key);
        if !reasons.is_empty() {
            return Err(field::Error::invalid("", key, reasons.join("; ")).to_string());
        }
        let make = |test| Ok(Requirement { key: key.to_owned(), test });
        if negated {
            return make(Test::Absent);
        }
        let operator = self.peek(false);
        let values = match operator {
            Token::End | Token::Comma => return make(Test::Exists),
            Token::In | Token::NotIn => {
                self.next(false);
                self.values()?
            }
            Token::Equals
            | Token::DoubleEquals
            | Token::NotEquals
            | Token::Greater
            | Token::Less => {
                self.next(false);
                vec![self.exact()?]
            }
            other => {
                let found = other.text();
                return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let bound = number(values.first().map(String::as_str));
        let needs_bound = matches!(operator, Token::Greater | Token::Less);
        let errors = invalid_values(key, &values, needs_bound && bound.is_none());
        if !errors.is_empty() {
            return Err(field::aggregate(&errors));
        }
        make(match (operator, bound) {
            (Token::NotIn | Token::NotEquals, _) => Test::NotIn(values),
            (Token::Greater, Some(bound)) => Test::Greater(bound),
            (Token::Less, Some(bound)) => Test::Less(bound),
            _ => Test::In(values),
        })
    }

    fn exact(&mut self) -> Result<String, String> {
        match self.peek(true) {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(word) => {
                self.next(true);
                Ok(word.to_owned())
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// The values of a set, sorted.
    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next(true) {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next(true) {
                Token::Word(word) => {
                    values.push(word.to_owned());
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

/// What is wrong with the values of a requirement.
fn invalid_values(key: &str, values: &[String], no_integer: bool) -> Vec<field::Error> {
    /// About what the rule for label values takes in an error.
    const SHOWN: usize = 256;
    let mut errors = Vec::new();
    if no_integer {
        let value = values.first().map_or("", String::as_str);
        let rule = "for 'Gt', 'Lt' operators, the value must be an integer";
        errors.push(field::Error::invalid("values[0]", value, rule));
    }
    for (i, value) in values.iter().enumerate() {
        if field::exceeds_text_limit(&errors, SHOWN) {
            break;
        }
        let reasons = names::label_value(value);
        if !reasons.is_empty() {
            let path = format!("values[{i}][{key}]");
            errors.push(field::Error::invalid(path, value.as_str(), reasons.join("; ")));
        }
    }
    errors
}

#[cfg(test)]
mod tests;
