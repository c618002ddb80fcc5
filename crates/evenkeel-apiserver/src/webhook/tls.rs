//! TLS to a webhook, whose certificate is verified by the `caBundle` of its configuration.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Returns a connector that accepts certificates of the authorities in `ca_bundle` (PEM). Without
/// one no certificate is accepted: the server does not use the authorities of its machine.
pub(super) fn connector(ca_bundle: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_bundle) {
        let certificate = certificate
            .map_err(|_| "unable to load root certificates: unable to parse bytes as PEM block")?;
        // Others may be valid, as in Go.
        let _ = roots.add(certificate);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// Returns the reason of a failed handshake, in Go's words where it has them.
pub(super) fn handshake_error(error: &std::io::Error) -> String {
    use rustls::{CertificateError, Error};

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
