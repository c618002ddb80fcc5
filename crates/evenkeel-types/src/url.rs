//! URLs, parsed and printed as Go's `net/url` does, with its error messages.

use std::fmt;

use crate::go;
use crate::netip::Addr;

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme in lower case.
    pub scheme: String,
    /// What follows the scheme, if it does not start with a slash.
    pub opaque: String,
    /// User and password, escaped.
    pub user: Option<String>,
    /// Host and port, unescaped.
    pub host: String,
    /// The path, escaped.
    pub path: String,
    /// The query without its question mark, as written.
    pub query: String,
    /// The fragment without its hash sign, escaped.
    pub fragment: String,
    /// Whether an empty query has a question mark.
    force_query: bool,
    /// Whether a path follows the scheme without an authority.
    omit_host: bool,
}

impl Url {
    /// Parses a URL, absolute or relative (`url.Parse`). The error is Go's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (body, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse(body, false).map_err(|what| failed(body, &what))?;
        url.fragment = normalize(fragment, Mode::Fragment).map_err(|what| failed(text, &what))?;
        Ok(url)
    }

    /// Parses an absolute URL or path without a fragment (`url.ParseRequestURI`). The error is Go's
    /// text.
    pub fn parse_request_uri(text: &str) -> Result<Self, String> {
        parse(text, true).map_err(|what| failed(text, &what))
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> &str {
        let host = self.split_host().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port; empty if there is none.
    pub fn port(&self) -> &str {
        self.split_host().1
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.rfind(':') {
            Some(colon) if is_optional_port(&self.host[colon..]) => {
                (&self.host[..colon], &self.host[colon + 1..])
            }
            _ => (&self.host, ""),
        }
    }

    /// Keys and values of the query, unescaped, in order. Malformed ones are left out.
    pub fn query_pairs(&self) -> Vec<(String, String)> {
        const MOST: usize = 10_000;
        if self.query.matches('&').count() + 1 > MOST {
            return Vec::new();
        }
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                let text = |part| Some(lossy(unescape(part, Mode::Query).ok()?));
                Some((text(key)?, text(value)?))
            })
            .collect()
    }
}

/// As `URL.String`.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || !self.scheme.is_empty() && !self.omit_host {
                if has_authority || !self.path.is_empty() {
                    f.write_str("//")?;
                }
                if let Some(user) = &self.user {
                    write!(f, "{user}@")?;
                }
                f.write_str(&escape(self.host.as_bytes(), Mode::Host))?;
            } else if self.scheme.is_empty()
                && self.path.split('/').next().is_some_and(|segment| segment.contains(':'))
            {
                f.write_str("./")?;
            }
            f.write_str(&self.path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if self.force_query || !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

fn failed(text: &str, what: &str) -> String {
    format!("parse {}: {what}", go::quote(text))
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url { path: "*".to_owned(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(text)?;
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    url.force_query = query.is_empty() && text.ends_with('?');
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let authority = rest
        .strip_prefix("//")
        .filter(|_| !scheme.is_empty() || !request && !rest.starts_with("///"));
    if let Some(authority) = authority {
        let end = authority.find('/').unwrap_or(authority.len());
        rest = &authority[end..];
        let (user, host) = match authority[..end].rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, &authority[..end]),
        };
        url.host = parse_host(&url.scheme, host)?;
        url.user = user.map(parse_user).transpose()?;
    } else {
        url.omit_host = !scheme.is_empty() && rest.starts_with('/');
    }
    url.path = normalize(rest, Mode::Path)?;
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

fn parse_user(user: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
    if !user.bytes().all(legal) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let escaped = |part| unescape(part, Mode::User).map(|part| escape(&part, Mode::User));
    Ok(match user.split_once(':') {
        Some((name, password)) => format!("{}:{}", escaped(name)?, escaped(password)?),
        None => escaped(user)?,
    })
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    let port_of = |at: usize| {
        let port = &host[at..];
        match is_optional_port(port) {
            true => Ok(port),
            false => Err(format!("invalid port {} after host", go::quote(port))),
        }
    };
    match host.rfind('[') {
        None => {
            let colon = match scheme {
                "http" | "https" => host.find(':'),
                _ => host.rfind(':'),
            };
            colon.map(port_of).transpose()?;
            unescape(host, Mode::Host).map(lossy)
        }
        Some(0) => {
            let Some(end) = host.rfind(']') else {
                return Err("missing ']' in host".to_owned());
            };
            let port = lossy(unescape(port_of(end + 1)?, Mode::Host)?);
            let address = &host[1..end];
            let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
            let address =
                lossy(unescape(address, Mode::Host)?) + &lossy(unescape(zone, Mode::Zone)?);
            match Addr::parse(&address) {
                Err(error) => Err(format!("invalid host: {error}")),
                Ok(parsed) if parsed.is_v4() => Err("invalid IP-literal".to_owned()),
                Ok(_) => Ok(format!("[{address}]{port}")),
            }
        }
        Some(_) => Err("invalid IP-literal".to_owned()),
    }
}

fn is_optional_port(port: &str) -> bool {
    port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The part of a URL that decides which characters are escaped.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Path,
    User,
    Host,
    Zone,
    Query,
    Fragment,
}

fn must_escape(b: u8, mode: Mode) -> bool {
    match b {
        b'-' | b'_' | b'.' | b'~' => false,
        b if b.is_ascii_alphanumeric() => false,
        b'$' | b'&' | b'+' | b',' | b';' | b'=' | b':' | b'/' | b'?' | b'@' => match mode {
            Mode::Path => b == b'?',
            Mode::User => matches!(b, b'@' | b'/' | b'?' | b':'),
            Mode::Host | Mode::Zone => matches!(b, b'/' | b'?' | b'@'),
            Mode::Query => true,
            Mode::Fragment => false,
        },
        b'!' | b'(' | b')' | b'*' => !matches!(mode, Mode::Fragment | Mode::Host | Mode::Zone),
        b'\'' | b'[' | b']' | b'<' | b'>' | b'"' => !matches!(mode, Mode::Host | Mode::Zone),
        _ => true,
    }
}

fn escape(bytes: &[u8], mode: Mode) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &b in bytes {
        if must_escape(b, mode) {
            out.push_str(&format!("%{b:02X}"));
        } else {
            out.push(char::from(b));
        }
    }
    out
}

fn unescape(text: &str, mode: Mode) -> Result<Vec<u8>, String> {
    let invalid = |at: usize| {
        let shown = String::from_utf8_lossy(&text.as_bytes()[at..text.len().min(at + 3)]);
        format!("invalid URL escape {}", go::quote(&shown))
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, b)) = bytes.next() {
        match b {
            b'%' => {
                let hex = text
                    .get(at + 1..at + 3)
                    .filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
                let value = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let Some(value) = value else { return Err(invalid(at)) };
                let refused = match mode {
                    Mode::Host => value < 0x80 && value != b'%',
                    Mode::Zone => value != b'%' && value != b' ' && must_escape(value, Mode::Host),
                    _ => false,
                };
                if refused {
                    return Err(invalid(at));
                }
                out.push(value);
                bytes.nth(1);
            }
            b'+' if mode == Mode::Query => out.push(b' '),
            b if b.is_ascii()
                && matches!(mode, Mode::Host | Mode::Zone)
                && must_escape(b, mode) =>
            {
                let shown = go::quote(&char::from(b).to_string());
                return Err(format!("invalid character {shown} in host name"));
            }
            b => out.push(b),
        }
    }
    Ok(out)
}

/// The escaped form of a path or fragment: as written where that is valid.
fn normalize(text: &str, mode: Mode) -> Result<String, String> {
    let unescaped = unescape(text, mode)?;
    let valid = |b: u8| b"!$&'()*+,;=:@[]%".contains(&b) || !must_escape(b, mode);
    Ok(if text.bytes().all(valid) { text.to_owned() } else { escape(&unescaped, mode) })
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Url::parse_request_uri(text).expect_err(text)
    }

    #[test]
    fn parts_are_those_of_go() {
        let url = Url::parse("HTTPS://us%40er:p@[::1]:80/a b/%2F?k=v+w&k=%41&;x&=#f g").unwrap();
        assert_eq!(url.scheme, "https");
        assert_eq!(url.user.as_deref(), Some("us%40er:p"));
        assert_eq!((url.hostname(), url.port()), ("::1", "80"));
        assert_eq!(url.path, "/a%20b//");
        let pairs = [("k", "v w"), ("k", "A"), ("", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(url.query_pairs(), pairs);
        assert_eq!(url.to_string(), "https://us%40er:p@[::1]:80/a%20b//?k=v+w&k=%41&;x&=#f%20g");
    }

    #[test]
    fn printing_keeps_what_was_parsed() {
        for text in ["mailto:a@b", "/a", "//h/p", "x:/y", "x:///y", "*", "", "h?", "http://h/?"] {
            assert_eq!(Url::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Url::parse("http://").unwrap().to_string(), "http:");
    }

    #[test]
    fn errors_are_those_of_go() {
        assert_eq!(error("a/b"), "parse \"a/b\": invalid URI for request");
        assert_eq!(error("http://h:p/"), "parse \"http://h:p/\": invalid port \":p\" after host");
        assert_eq!(error("http://a[b]/"), "parse \"http://a[b]/\": invalid IP-literal");
        assert_eq!(error("/%zz"), "parse \"/%zz\": invalid URL escape \"%zz\"");
        assert_eq!(
            error("http://[1]/"),
            "parse \"http://[1]/\": invalid host: ParseAddr(\"1\"): unable to parse IP"
        );
    }
}
