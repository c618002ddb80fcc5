//! The parser, with upstream's tokenization rules and error texts.

use serde_json::Value;

use super::{End, Filter, Node, Operator, Slice};

/// Limits the nesting of unions, filters and quoted keys.
const DEPTH_MAX: usize = 32;

pub(super) fn parse(text: &str) -> Result<Vec<Node>, String> {
    nested(text, 0)
}

fn nested(text: &str, depth: usize) -> Result<Vec<Node>, String> {
    if depth > DEPTH_MAX {
        return Err("path is nested too deep".to_owned());
    }
    let mut parser = Parser { rest: text, nodes: Vec::new(), depth };
    parser.run()?;
    Ok(parser.nodes)
}

struct Parser<'a> {
    rest: &'a str,
    nodes: Vec<Node>,
    depth: usize,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(c) = self.rest.chars().next() {
            match c {
                // Upstream wraps the path in braces, so a closing brace in the path ends it.
                '}' => return Ok(()),
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                ' ' | '@' | '$' => self.rest = &self.rest[1..],
                '[' if self.rest.starts_with("[?(") => self.filter()?,
                '[' => self.brackets()?,
                '.' if self.rest.starts_with("..") => self.recursive()?,
                '.' => {
                    self.rest = &self.rest[1..];
                    self.field();
                }
                '"' | '\'' => self.quote(c)?,
                '+' | '-' => self.number()?,
                c if c.is_numeric() => self.number()?,
                c if c == '_' || c.is_alphabetic() => self.identifier(),
                c => {
                    let code = c as u32;
                    return Err(format!("unrecognized character in action: U+{code:04X} '{c}'"));
                }
            }
        }
        Ok(())
    }

    fn field(&mut self) {
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if c == '\\' {
                name.extend(chars.next().map(|(_, escaped)| escaped));
            } else if is_terminator(c) {
                end = at;
                break;
            } else {
                name.push(c);
            }
        }
        self.rest = &self.rest[end..];
        self.nodes.push(if name == "*" { Node::Wildcard } else { Node::Field(name) });
    }

    fn recursive(&mut self) -> Result<(), String> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.rest = &self.rest[2..];
        self.nodes.push(Node::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let end = self.rest[sign..]
            .find(|c: char| c != '.' && !c.is_numeric())
            .map_or(self.rest.len(), |at| at + sign);
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let literal = if let Ok(int) = text.parse::<i64>() {
            Value::from(int)
        } else if let Ok(float) = text.parse::<f64>() {
            Value::from(float)
        } else {
            return Err(format!("cannot parse number {text}"));
        };
        self.nodes.push(Node::Literal(literal));
        Ok(())
    }

    fn identifier(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.nodes.push(match text {
            "true" => Node::Literal(true.into()),
            "false" => Node::Literal(false.into()),
            _ => Node::Keyword,
        });
    }

    fn quote(&mut self, mark: char) -> Result<(), String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, c @ ('\\' | '"' | '\''))) => text.push(c),
                    _ => return Err(format!("unquote string {} error invalid syntax", self.rest)),
                },
                c if c == mark => {
                    self.rest = &self.rest[at + 1..];
                    self.nodes.push(Node::Literal(text.into()));
                    return Ok(());
                }
                c => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn brackets(&mut self) -> Result<(), String> {
        let end = self.rest.find([']', '\n']).filter(|at| self.rest[*at..].starts_with(']'));
        let Some(end) = end else { return Err("unterminated array".to_owned()) };
        let text = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        let members: Vec<&str> = text.split(',').collect();
        if members.len() > 1 {
            let members = members
                .into_iter()
                .map(|member| nested(&format!("[{}]", member.trim_matches(' ')), self.depth + 1))
                .collect::<Result<_, _>>()?;
            self.nodes.push(Node::Union(members));
            return Ok(());
        }
        let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = quoted.filter(|key| !key.contains('\'')) {
            // A quoted key is parsed as a field, so a dot in it must still be escaped.
            self.nodes.extend(nested(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        self.nodes.push(Node::Slice(slice(if text == "*" { ":" } else { text })?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        let body = &self.rest[3..];
        let end = filter_end(body).ok_or("unterminated filter")?;
        let text = &body[..end];
        self.rest = body[end + 1..].strip_prefix(']').ok_or("unclosed array expect ]")?;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let filter = match text.find(is_operator).filter(|at| *at > 0) {
            None => Filter {
                left: nested(text, self.depth + 1)?,
                operator: Operator::Exists,
                right: Vec::new(),
            },
            Some(at) => {
                let rest = &text[at..];
                let length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
                let operator = match &rest[..length] {
                    "<" => Operator::Less,
                    "<=" => Operator::LessOrEqual,
                    "==" => Operator::Equal,
                    "!=" => Operator::NotEqual,
                    ">=" => Operator::GreaterOrEqual,
                    ">" => Operator::Greater,
                    _ => Operator::Unknown,
                };
                Filter {
                    left: nested(&text[..at], self.depth + 1)?,
                    operator,
                    right: nested(&rest[length..], self.depth + 1)?,
                }
            }
        };
        self.nodes.push(Node::Filter(filter));
        Ok(())
    }
}

/// Returns the position of the closing parenthesis of a filter, skipping its one quoted string.
fn filter_end(body: &str) -> Option<usize> {
    let mut mark = None;
    let mut closed = false;
    let mut previous = '\0';
    for (at, c) in body.char_indices() {
        match c {
            '\n' => return None,
            '"' | '\'' => match mark {
                None => mark = Some(c),
                Some(open) if c == open && previous != '\\' => closed = true,
                Some(_) => {}
            },
            ')' if mark.is_some() == closed => return Some(at),
            _ => {}
        }
        previous = c;
    }
    None
}

fn slice(text: &str) -> Result<Slice, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let digits =
        |part: &str| part.strip_prefix('-').unwrap_or(part).bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(|part| digits(part)) {
        return Err(format!("invalid array index {text}"));
    }
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => part
            .parse::<i64>()
            // Keeps index arithmetic from overflowing. No list is longer than this.
            .ok()
            .filter(|n| n.abs() <= i64::from(i32::MAX))
            .map(Some)
            .ok_or_else(|| format!("array index {part} is not a number")),
    };
    Ok(Slice {
        from: number(parts.first())?,
        to: match (parts.len(), number(parts.get(1))?) {
            (1, _) => End::Single,
            (_, Some(to)) => End::At(to),
            (_, None) => End::Open,
        },
        step: number(parts.get(2))?,
    })
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}
