//! Connects to the webhook server itself, for readiness.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::tls::{ServingCertificate, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Completes a TLS handshake with the server at `address`; the error is the reason.
pub(super) async fn connect(
    address: SocketAddr,
    certificate: &Arc<ServingCertificate>,
) -> Result<(), String> {
    if certificate.current().is_none() {
        return Err("there is no serving certificate yet".to_owned());
    }
    let verifier = Verifier { certificate: certificate.clone(), provider: provider() };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let target = reachable(address);
    let dial = async {
        let stream = TcpStream::connect(target).await?;
        connector.connect(ServerName::IpAddress(target.ip().into()), stream).await
    };
    match tokio::time::timeout(TIMEOUT, dial).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("webhook server is not reachable: {error}")),
        Err(_) => Err(format!("webhook server did not answer within {TIMEOUT:?}")),
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

/// Accepts only the certificate that the server is to use.
#[derive(Debug)]
struct Verifier {
    certificate: Arc<ServingCertificate>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.certificate.current() {
            Some(own) if own.as_ref() == certificate.as_ref() => {
                Ok(ServerCertVerified::assertion())
            }
            _ => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
