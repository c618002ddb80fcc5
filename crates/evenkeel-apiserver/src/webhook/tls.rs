//! TLS to a webhook, whose certificate is verified by the `caBundle` of its configuration.

use std::sync::Arc;

use evenkeel_pki::x509;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_rustls::TlsConnector;

/// Accepts certificates of the authorities in a bundle, and those in the bundle itself: envtest
/// configures the serving certificate of a webhook as its own authority, which Go accepts.
#[derive(Debug)]
struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    /// `None` if the bundle contains no authority.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

/// Returns a connector that trusts the certificates in `ca_bundle` (PEM). Without one no certificate
/// is accepted: the server does not use the authorities of its machine.
pub(super) fn connector(ca_bundle: &[u8]) -> Result<TlsConnector, String> {
    let bundle: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle)
        .collect::<Result<_, _>>()
        .map_err(|_| "unable to load root certificates: unable to parse bytes as PEM block")?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    let provider = Arc::new(ring::default_provider());
    let authorities =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build().ok();
    let verifier = Verifier { bundle, authorities, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundle.iter().any(|trusted| trusted.as_ref() == certificate.as_ref()) {
            let validity = x509::validity(certificate)
                .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if now.as_secs() < *validity.start() {
                return Err(CertificateError::NotValidYet.into());
            }
            if now.as_secs() > *validity.end() {
                return Err(CertificateError::Expired.into());
            }
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(verifier) => {
                verifier.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
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

/// Returns the reason of a failed handshake, in Go's words where it has them.
pub(super) fn handshake_error(error: &std::io::Error) -> String {
    let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
    match source {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "tls: failed to verify certificate: x509: certificate signed by unknown authority"
                .to_owned()
        }
        Some(Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {why}")
        }
        Some(other) => format!("tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}
