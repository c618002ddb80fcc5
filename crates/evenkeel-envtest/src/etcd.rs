//! The drop-in etcd: serves health checks and stores nothing.
//!
//! envtest starts etcd, waits for its `/health` endpoint and passes its address to the API server.
//! The Evenkeel API server has its own storage and never connects to etcd.

use std::net::{SocketAddr, ToSocketAddrs as _};

use evenkeel_apiserver::listen::{ListenOptions, Listener, tls::Tls};
use evenkeel_pki::certificates::KeyedCertificate;
use http::Uri;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    flags::{self, Flag, Flags, Style},
    process::{self, BoxError, StopSignals},
    static_responses::{StaticResponse, StaticResponses},
};

/// The etcd version that Kubernetes 1.36 ships with.
const VERSION: &str = "3.6.8";

const FLAGS: &[Flag] = &[
    Flag::switch("help", "Print this help and exit."),
    Flag::switch("version", "Print the version and exit."),
    Flag::value("listen-client-urls", "urls", "URLs to serve health checks on."),
    Flag::value("cert-file", "file", "TLS certificate for https client URLs."),
    Flag::value("key-file", "file", "TLS private key for https client URLs."),
    Flag::switch("evenkeel-allow-non-loopback", "Allow client URLs that other machines can reach."),
    // envtest passes this flag only if the help lists it.
    Flag::switch("unsafe-no-fsync", "Ignored; nothing is written to disk."),
    Flag::value("advertise-client-urls", "urls", "Ignored."),
    Flag::value("listen-peer-urls", "urls", "Ignored."),
    Flag::value("data-dir", "dir", "Ignored; nothing is stored."),
];

const RESPONSES: StaticResponses = StaticResponses(&[
    StaticResponse {
        path: "/health",
        content_type: "application/json",
        body: r#"{"health":"true","reason":""}"#,
    },
    StaticResponse {
        path: "/version",
        content_type: "application/json",
        body: r#"{"etcdserver":"3.6.8","etcdcluster":"3.6.0","storage":"3.6.0"}"#,
    },
]);

/// An invalid client URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not of the form `scheme://host:port`.
    #[error("URL address does not have the form \"host:port\": {0}")]
    Form(String),
    /// The scheme is neither `http` nor `https`.
    #[error("URL scheme must be http or https: {0}")]
    Scheme(String),
    /// The host does not resolve to an address.
    #[error("URL host cannot be resolved: {0}")]
    Host(String),
}

#[derive(Debug, PartialEq, Eq)]
struct ClientUrl {
    secure: bool,
    address: SocketAddr,
}

/// Runs the command line: prints help or version, or serves until SIGTERM or SIGINT.
pub async fn main(arguments: Vec<String>) -> Result<(), BoxError> {
    let flags = Flags::parse(FLAGS, Style::Etcd, arguments)?;
    if flags.switch("help", false)? {
        process::print(&format!(
            "Usage:\n\n  etcd [flags]\n    Serves health checks in place of an etcd server. \
             All flags of etcd are accepted.\n\n{}",
            flags::help(FLAGS)
        ));
        return Ok(());
    }
    if flags.switch("version", false)? {
        process::print(&format!("etcd Version: {VERSION}\nGit SHA: evenkeel\n"));
        return Ok(());
    }
    for flag in flags.ignored() {
        process::log(&format!("etcd: ignoring --{flag}: not supported by Evenkeel"));
    }
    serve(&flags).await
}

async fn serve(flags: &Flags) -> Result<(), BoxError> {
    let mut signals = StopSignals::install()?;
    let mut options = ListenOptions::default();
    options.allow_non_loopback = flags.switch("evenkeel-allow-non-loopback", false)?;
    let mut urls = flags.list("listen-client-urls");
    if urls.is_empty() {
        urls.push("http://localhost:2379".to_owned());
    }

    let (stop, stopping) = watch::channel(false);
    let mut servers = JoinSet::new();
    for url in urls {
        let ClientUrl { secure, address } = parse_url(&url)?;
        let listener = if secure {
            Listener::bind(address, tls(flags)?, options.clone())?
        } else {
            Listener::bind_plain(address, options.clone())?
        };
        process::log(&format!("etcd: serving client traffic on {}", listener.local_addr()));
        let mut stopping = stopping.clone();
        servers.spawn(listener.serve(RESPONSES, async move {
            // An error means that the sender was dropped: stop as well.
            let _ = stopping.wait_for(|stop| *stop).await;
        }));
    }
    signals.received().await;
    stop.send_replace(true);
    servers.join_all().await;
    Ok(())
}

fn tls(flags: &Flags) -> Result<Tls, BoxError> {
    let (Some(certificate), Some(key)) = (flags.text("cert-file"), flags.text("key-file")) else {
        return Err("an https client URL needs --cert-file and --key-file".into());
    };
    let serving = KeyedCertificate::load(certificate.as_ref(), key.as_ref())?;
    Ok(Tls::new(&serving, &[], process::now_unix)?)
}

fn parse_url(text: &str) -> Result<ClientUrl, UrlError> {
    let form = || UrlError::Form(text.to_owned());
    let url: Uri = text.parse().map_err(|_| form())?;
    let secure = match url.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(_) => return Err(UrlError::Scheme(text.to_owned())),
        None => return Err(form()),
    };
    let authority = url.authority().filter(|authority| authority.port_u16().is_some());
    let authority = authority.ok_or_else(form)?;
    let addresses = authority.as_str().to_socket_addrs();
    // Go prefers IPv4 for names with both, for example `localhost`.
    let address = addresses.ok().and_then(|all| all.min_by_key(SocketAddr::is_ipv6));
    let address = address.ok_or_else(|| UrlError::Host(text.to_owned()))?;
    Ok(ClientUrl { secure, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_urls_parse_to_scheme_and_address() {
        for (text, secure, address) in [
            ("http://127.0.0.1:2379", false, "127.0.0.1:2379"),
            ("https://[::1]:0/", true, "[::1]:0"),
            ("http://localhost:1", false, "127.0.0.1:1"),
        ] {
            let expected = ClientUrl { secure, address: address.parse().unwrap() };
            assert_eq!(parse_url(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn urls_without_port_or_with_other_schemes_are_rejected() {
        for text in ["http://127.0.0.1", "127.0.0.1:2379", "", "http://"] {
            assert_eq!(parse_url(text), Err(UrlError::Form(text.to_owned())));
        }
        let unix = "unix://localhost:m0";
        assert!(parse_url(unix).is_err());
        let ftp = "ftp://127.0.0.1:21";
        assert_eq!(parse_url(ftp), Err(UrlError::Scheme(ftp.to_owned())));
    }
}
