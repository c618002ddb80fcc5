//! Names of Rust types, fields and variants for names in a schema.

/// Returns a field name in snake_case.
pub(super) fn field(name: &str) -> String {
    let mut field = String::with_capacity(name.len() + 4);
    let mut previous = None::<char>;
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        if !c.is_ascii_alphanumeric() {
            field.push('_');
        } else {
            let after_lower =
                previous.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
            let before_lower = previous.is_some_and(|it| it.is_ascii_uppercase())
                && characters.peek().is_some_and(char::is_ascii_lowercase);
            if c.is_ascii_uppercase() && (after_lower || before_lower) && !field.ends_with('_') {
                field.push('_');
            }
            field.push(c.to_ascii_lowercase());
        }
        previous = Some(c);
    }
    if field.starts_with(|c: char| c.is_ascii_digit()) || field.is_empty() {
        field.insert(0, '_');
    }
    field
}

/// Returns the field as it is written in Rust: keywords become raw identifiers.
pub(super) fn identifier(field: &str) -> String {
    /// Keywords that cannot be raw identifiers.
    const NEVER_RAW: &[&str] = &["crate", "self", "super"];
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
        "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
        "return", "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe",
        "unsized", "use", "virtual", "where", "while", "yield",
    ];
    match field {
        _ if NEVER_RAW.contains(&field) => format!("{field}_"),
        _ if KEYWORDS.contains(&field) => format!("r#{field}"),
        _ => field.to_owned(),
    }
}

/// Returns the name that serde's `rename_all = "camelCase"` gives a field.
pub(super) fn camel_case(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut upper = false;
    for c in field.chars() {
        if c == '_' {
            upper = true;
        } else if upper {
            name.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            name.push(c);
        }
    }
    name
}

/// Returns a type or variant name in CamelCase.
pub(super) fn type_name(name: &str) -> String {
    let mut result = String::with_capacity(name.len());
    let mut upper = true;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            upper = true;
        } else if upper {
            result.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            result.push(c);
        }
    }
    match result.chars().next() {
        None => "Empty".to_owned(),
        Some(c) if c.is_ascii_digit() => format!("V{result}"),
        Some(_) if result == "Self" => "Self_".to_owned(),
        Some(_) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_in_rust_and_map_back() {
        for (name, expected) in [
            ("replicas", "replicas"),
            ("secretName", "secret_name"),
            ("podCIDR", "pod_cidr"),
            ("HTTPRoute", "http_route"),
            ("x-kubernetes", "x_kubernetes"),
            ("ipv4Address", "ipv4_address"),
            ("1st", "_1st"),
        ] {
            assert_eq!(field(name), expected);
        }
        assert_eq!(camel_case("secret_name"), "secretName");
        assert_eq!(identifier("type"), "r#type");
        assert_eq!(identifier("self"), "self_");
        for (name, expected) in
            [("RSA", "RSA"), ("pre-stop", "PreStop"), ("2x", "V2x"), ("", "Empty")]
        {
            assert_eq!(type_name(name), expected);
        }
    }
}
