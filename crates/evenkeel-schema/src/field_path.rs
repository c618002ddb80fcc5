//! Field paths such as `.spec.color` or `.data['a.b']`.

/// Follows the path through the schema. Returns its steps and the schema at its end.
pub(crate) fn resolve<S>(
    path: &str,
    schema: S,
    brackets: bool,
    descend: impl Fn(S, &str) -> Result<S, String>,
) -> Result<(Vec<String>, S), String> {
    const INCOMPLETE: &str = "unexpected end of JSON path";
    let mut tokens = Tokens { rest: path };
    let mut steps = Vec::new();
    let mut schema = schema;
    while let Some(token) = tokens.next() {
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(INCOMPLETE)?;
                let name = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''))
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescape(name)?;
                schema = descend(schema, &name)?;
                match tokens.next().ok_or(INCOMPLETE)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
                name
            }
            "." => {
                let name = tokens.next().ok_or(INCOMPLETE)?.to_owned();
                schema = descend(schema, &name)?;
                name
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        steps.push(name);
    }
    Ok((steps, schema))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('a') => '\x07',
                Some('b') => '\x08',
                Some('f') => '\x0c',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('v') => '\x0b',
                Some(c @ ('\\' | '\'')) => c,
                _ => return Err("invalid string literal: invalid syntax".to_owned()),
            },
            c => c,
        });
    }
    Ok(out)
}

/// Splits a path into tokens. Delimiters are separate tokens; a quoted string is one token
/// including its quotes.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest;
        let first = rest.chars().next()?;
        let end = if first == '\'' {
            let mut escaped = false;
            rest[1..]
                .char_indices()
                .find(|(_, c)| {
                    let closes = *c == '\'' && !escaped;
                    escaped = *c == '\\';
                    closes
                })
                .map_or(rest.len(), |(at, _)| at + 2)
        } else if matches!(first, '.' | '[' | ']') {
            1
        } else {
            rest.find(['.', '[', ']']).unwrap_or(rest.len())
        };
        let (token, rest) = rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}
