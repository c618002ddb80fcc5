//! The `clientConfig` of a webhook: a URL or a service, and the authority of its certificate.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use super::connection::Connection;

/// Idle connections kept for one webhook.
const MAX_IDLE: usize = 16;

/// A webhook to call. Keeps its idle connections, so it lives as long as its configuration.
pub(crate) struct Target {
    pub(super) place: Place,
    /// The path of requests, with a leading slash.
    path: String,
    pub(super) ca_bundle: Vec<u8>,
    pub(super) connector: OnceLock<Result<TlsConnector, String>>,
    idle: Mutex<Vec<Connection>>,
}

/// Where a webhook is.
pub(super) enum Place {
    Url { host: String, port: u16, authority: String },
    Service { namespace: String, name: String, port: u16 },
}

impl Target {
    /// Parses a `clientConfig`. The error is the reason only.
    pub(crate) fn parse(config: &Value) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let (place, path) = match (&config["service"], config["url"].as_str()) {
            (service @ Value::Object(_), _) => {
                let port = service["port"].as_i64().and_then(|port| u16::try_from(port).ok());
                let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
                let place = Place::Service { namespace, name, port: port.unwrap_or(443) };
                (place, text(&service["path"]))
            }
            (_, Some(url)) => parse_url(url)?,
            _ => return Err("webhook configuration must have either service or URL".to_owned()),
        };
        let ca_bundle = config["caBundle"].as_str().unwrap_or("");
        let ca_bundle = STANDARD.decode(ca_bundle).map_err(|why| why.to_string())?;
        Ok(Self {
            place,
            path: clean(&path),
            ca_bundle,
            connector: OnceLock::new(),
            idle: Mutex::default(),
        })
    }

    /// Returns the host and port of requests, as in their URL.
    pub(super) fn authority(&self) -> String {
        match &self.place {
            Place::Url { authority, .. } => authority.clone(),
            Place::Service { namespace, name, port } => format!("{name}.{namespace}.svc:{port}"),
        }
    }

    /// Returns the name that the certificate must have.
    pub(super) fn server_name(&self) -> String {
        match &self.place {
            Place::Url { host, .. } => host.clone(),
            Place::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    /// Returns the path and query of a request.
    pub(super) fn path_and_query(&self, timeout_seconds: u64) -> String {
        let timeout = match (timeout_seconds / 60, timeout_seconds % 60) {
            (0, seconds) => format!("{seconds}s"),
            (minutes, seconds) => format!("{minutes}m{seconds}s"),
        };
        format!("{}?timeout={timeout}", self.path)
    }

    /// Takes an idle connection that the webhook has not closed.
    pub(super) fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.lock().pop()?;
            if connection.is_open() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next call.
    pub(super) fn keep_idle(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }
}

/// Returns the shortest equivalent path, as upstream's client does: envtest writes `//path`.
fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

fn parse_url(url: &str) -> Result<(Place, String), String> {
    let unparsable = |why: String| format!("Unparsable URL: {why}");
    let uri: Uri = url.parse().map_err(|why: http::uri::InvalidUri| unparsable(why.to_string()))?;
    let authority = uri.authority().ok_or_else(|| unparsable(format!("{url} has no host")))?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("the scheme of {url} is not https"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(443);
    Ok((Place::Url { host, port, authority: authority.to_string() }, uri.path().to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_and_services_have_a_host_and_a_path() {
        let config = json!({"url": "https://[::1]:8443/validate", "caBundle": "Zm9v"});
        let target = Target::parse(&config).unwrap();
        assert_eq!(target.authority(), "[::1]:8443");
        assert_eq!(target.server_name(), "::1");
        assert_eq!(target.path_and_query(70), "/validate?timeout=1m10s");
        assert_eq!(target.ca_bundle, b"foo");

        let service = json!({"namespace": "prod", "name": "hooks", "path": "mutate"});
        let target = Target::parse(&json!({ "service": service })).unwrap();
        assert_eq!(target.authority(), "hooks.prod.svc:443");
        assert_eq!(target.server_name(), "hooks.prod.svc");
        assert_eq!(target.path_and_query(10), "/mutate?timeout=10s");
    }

    #[test]
    fn paths_are_cleaned() {
        for (path, cleaned) in
            [("", "/"), ("//a", "/a"), ("/a/", "/a"), ("/a/./b/../c", "/a/c"), ("/../a", "/a")]
        {
            let url = format!("https://127.0.0.1:1{path}");
            let target = Target::parse(&json!({ "url": url })).unwrap();
            assert_eq!(target.path_and_query(1), format!("{cleaned}?timeout=1s"), "{path}");
        }
    }

    #[test]
    fn only_https_is_called() {
        for url in ["http://127.0.0.1/", "https:///path", "x"] {
            assert!(Target::parse(&json!({ "url": url })).is_err(), "{url}");
        }
        assert!(Target::parse(&json!({})).is_err());
    }
}
