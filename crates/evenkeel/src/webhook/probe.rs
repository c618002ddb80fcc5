//! Connects to the webhook server itself, for readiness.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::tls::{ServingCertificate, client_config};
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::chain;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Completes a TLS handshake with the server at `address`; the error is the reason.
pub(super) async fn connect(
    address: SocketAddr,
    certificate: &Arc<ServingCertificate>,
) -> Result<(), String> {
    if certificate.current().is_none() {
        return Err("there is no serving certificate yet".to_owned());
    }
    let own = certificate.clone();
    let config = client_config(move |presented| match own.current() {
        Some(own) if own == *presented.certificate => Ok(()),
        _ => Err(CertificateError::ApplicationVerificationFailure.into()),
    });
    let config = config.map_err(|error| chain(&error))?;
    let connector = TlsConnector::from(Arc::new(config));
    let target = reachable(address);
    let dial = async {
        let stream = TcpStream::connect(target).await?;
        connector.connect(ServerName::IpAddress(target.ip().into()), stream).await
    };
    match tokio::time::timeout(TIMEOUT, dial).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("webhook server is not reachable: {error}")),
        Err(_) => Err(format!("webhook server did not respond within {TIMEOUT:?}")),
    }
}

/// Returns the address to connect to: loopback if the server listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}
