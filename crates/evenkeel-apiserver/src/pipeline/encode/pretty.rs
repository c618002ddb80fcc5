//! Indented JSON with two spaces, as Go writes it.

/// Indents compact JSON. Considers structure only, so it cannot fail.
pub(crate) fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let newline = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + depth * 2, b' ');
    };
    let mut bytes = compact.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                let close = if byte == b'{' { b'}' } else { b']' };
                if bytes.next_if_eq(&close).is_some() {
                    out.push(close);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b' ' | b'\n' | b'\r' | b'\t' => {}
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_is_indented_and_strings_are_unchanged() {
        let compact = br#"{"a":[],"b":{"c":"x{,}:\"y"},"d":[1,2]}"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x{,}:\\\"y\"\n  },\n  \"d\": [\n    1,\n    2\n  ]\n}";
        assert_eq!(String::from_utf8(indent(compact)).unwrap(), expected);
    }
}
