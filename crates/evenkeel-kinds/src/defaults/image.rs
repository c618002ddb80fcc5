//! Default image pull policy, which depends on the tag of the image.

/// Returns `Always` for images without a tag or digest or with the tag `latest`, else
/// `IfNotPresent`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    match parse(image) {
        Some(
            Reference { tag: Some("latest"), .. } | Reference { tag: None, has_digest: false },
        ) => "Always",
        // Like upstream, treats a malformed image name as one with a tag.
        _ => "IfNotPresent",
    }
}

struct Reference<'a> {
    tag: Option<&'a str>,
    has_digest: bool,
}

/// Parses `[host[:port]/]path[:tag][@algorithm:digest]`.
fn parse(image: &str) -> Option<Reference<'_>> {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return None;
    }
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    if !digest.is_none_or(is_digest) {
        return None;
    }
    let (host, rest) = match name.split_once('/') {
        Some((host, rest)) if is_host(host) => (Some(host), rest),
        _ => (None, name),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let valid = host.is_none_or(is_domain)
        && tag.is_none_or(is_tag)
        && path.split('/').all(is_path_component)
        && path.len() + host.map_or(0, |host| host.len() + 1) <= 255;
    valid.then_some(Reference { tag, has_digest: digest.is_some() })
}

/// Returns whether the part before the first slash is a registry host and not a path component.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':') {
                return false;
            }
            (None, port)
        }
        None => {
            let end = host.find(':').unwrap_or(host.len());
            (Some(&host[..end]), &host[end..])
        }
    };
    let port_is_valid = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    port_is_valid
        && name.is_none_or(|name| {
            name.split('.').all(|label| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            })
        })
}

/// Accepts lower-case words joined by one dot, one or two underscores, or any number of dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !is_word(*first) || !is_word(*last) {
        return false;
    }
    bytes.split(|byte| is_word(*byte)).all(|separator| {
        matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::pull_policy;

    #[test]
    fn images_without_a_tag_are_always_pulled() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("localhost/nginx", "Always"),
            ("registry.example.com:5000/team/nginx", "Always"),
            ("registry.example.com:5000/team/nginx:latest", "Always"),
            ("registry.example.com:5000/team/nginx:v1", "IfNotPresent"),
            ("[::1]:5000/nginx", "Always"),
            (&format!("nginx@{digest}"), "IfNotPresent"),
            (&format!("nginx:latest@{digest}"), "Always"),
            ("nginx:latest@sha256:short", "IfNotPresent"),
            ("a__b/c--d.e", "Always"),
            ("", "IfNotPresent"),
            ("Nginx", "IfNotPresent"),
            ("a___b", "IfNotPresent"),
            ("a/:latest", "IfNotPresent"),
            (&"a".repeat(64), "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
