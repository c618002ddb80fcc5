//! Finds duplicate keys in JSON, as a strict YAML decoder reports them.
//!
//! The input is valid JSON.

use std::collections::BTreeSet;

/// A duplicate key and the line of its value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DuplicateKey {
    pub(crate) key: String,
    pub(crate) line: usize,
}

enum Inside {
    List,
    Object { keys: BTreeSet<String>, key: Option<String> },
}

/// Returns all duplicate keys, each when its value has been read: nested ones come first.
pub(crate) fn duplicate_keys(text: &[u8]) -> Vec<DuplicateKey> {
    let mut found = Vec::new();
    let mut around: Vec<(Inside, usize)> = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(&byte) = text.get(at) {
        let begin = line;
        // The line on which the value that ends here began.
        let mut ended = None;
        match byte {
            b'{' => {
                let inside = Inside::Object { keys: BTreeSet::new(), key: None };
                around.push((inside, line));
            }
            b'[' => around.push((Inside::List, line)),
            b'}' | b']' => ended = around.pop().map(|(_, began)| began),
            b'"' => {
                let length = string_length(&text[at..]);
                let token = &text[at..at + length];
                at += length - 1;
                match around.last_mut() {
                    Some((Inside::Object { key: key @ None, .. }, _)) => {
                        *key = serde_json::from_slice(token).ok();
                    }
                    _ => ended = Some(begin),
                }
            }
            b'\n' => line += 1,
            b',' | b':' | b' ' | b'\t' | b'\r' => {}
            _ => {
                let rest = text[at..].iter();
                let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                at += rest.take_while(plain).count().max(1) - 1;
                ended = Some(begin);
            }
        }
        at += 1;
        if let (Some(line), Some((Inside::Object { keys, key }, _))) = (ended, around.last_mut())
            && let Some(key) = key.take()
            && let Some(key) = keys.replace(key)
        {
            found.push(DuplicateKey { key, line });
        }
    }
    found
}

/// Returns the length of a string in bytes, quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let close = text.iter().skip(1).position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => *byte == b'"',
    });
    close.map_or(text.len(), |close| close + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_carry_the_line_of_their_value() {
        let text =
            b"{\"a\": {\"x\\\"\": 1,\n \"x\\\"\": [1, {\"y\": 2}]},\n\"b\": [\"a\", \"a\"],\n\
                     \"a\":\n {\"z\": true, \"z\": null}, \"a\": -1.5e3}";
        let found = duplicate_keys(text);
        let shown: Vec<_> = found.iter().map(|one| (one.key.as_str(), one.line)).collect();
        assert_eq!(shown, [("x\"", 2), ("z", 5), ("a", 5), ("a", 5)]);
        assert_eq!(duplicate_keys(b"{\"a\": {\"a\": 1}, \"b\": [{\"a\": 1}, {\"a\": 2}]}"), []);
    }
}
