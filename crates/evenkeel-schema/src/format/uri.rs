//! URL parsing with the rules of Go's `net/url`, limited to the parts that validation needs.

use evenkeel_types::go;

/// The parts of a URL. Nothing is unescaped; of the fragment only its presence is recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Url<'a> {
    pub(crate) scheme: String,
    pub(crate) user: Option<&'a str>,
    pub(crate) host: &'a str,
    pub(crate) query: &'a str,
    pub(crate) fragment: &'a str,
}

/// Parses like Go's `url.ParseRequestURI`: absolute, without a fragment.
pub(crate) fn parse_request_uri(text: &str) -> Option<Url<'_>> {
    parse(text, true).ok()
}

/// Parses like Go's `url.Parse`. The error is Go's text.
pub(crate) fn parse_url(text: &str) -> Result<Url<'_>, String> {
    let failed = |what: String| format!("parse {}: {what}", go::quote(text));
    let (body, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = parse(body, false).map_err(failed)?;
    check_escapes(fragment).map_err(failed)?;
    url.fragment = fragment;
    Ok(url)
}

fn parse(text: &str, request: bool) -> Result<Url<'_>, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url::default());
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), query, ..Url::default() };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            // Opaque URL, for example `mailto:x`.
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(authority) = rest.strip_prefix("//")
        && (!scheme.is_empty() || (!request && !rest.starts_with("///")))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        path = &authority[end..];
        let authority = &authority[..end];
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user {
            let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            if !user.bytes().all(legal) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            check_escapes(user)?;
        }
        check_host(host)?;
        url.user = user;
        url.host = host;
    }
    check_escapes(path)?;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let Some(end) = host.rfind(']') else {
            return Err("missing ']' in host".to_owned());
        };
        &host[end + 1..]
    } else {
        match host.rfind(':') {
            Some(at) => &host[at..],
            None => "",
        }
    };
    let valid_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if !valid_port {
        return Err(format!("invalid port {} after host", go::quote(port)));
    }
    let legal = |c: char| {
        c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c) || !c.is_ascii()
    };
    if let Some(c) = host.chars().find(|c| !legal(*c)) {
        return Err(format!("invalid character {} in host name", go::quote(&c.to_string())));
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, b) in bytes.iter().enumerate() {
        if *b == b'%' {
            let hex = bytes.get(at + 1..at + 3);
            if !hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
                let shown: String = text[at..].chars().take(3).collect();
                return Err(format!("invalid URL escape {}", go::quote(&shown)));
            }
        }
    }
    Ok(())
}
