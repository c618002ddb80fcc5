//! TLS to a webhook, whose certificate is verified by the `caBundle` of its configuration.

use std::sync::Arc;

use evenkeel_pki::tls::{Presented, client_config, provider};
use evenkeel_pki::x509;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use tokio_rustls::TlsConnector;

/// Returns a connector that trusts the certificates in `ca_bundle` (PEM). Without one no certificate
/// is accepted: the server does not use the authorities of its machine.
///
/// Certificates in the bundle itself are accepted, too: envtest configures the serving certificate of
/// a webhook as its own authority, which Go accepts.
pub(super) fn connector(ca_bundle: &[u8]) -> Result<TlsConnector, String> {
    let bundle: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle)
        .collect::<Result<_, _>>()
        .map_err(|_| "unable to load root certificates: unable to parse bytes as PEM block")?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    // None if the bundle contains no authority.
    let authorities =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider()).build().ok();
    let config = client_config(move |presented| {
        if bundle.contains(presented.certificate) {
            return verify_itself(presented);
        }
        let Presented { certificate, intermediates, name, ocsp, now, .. } = *presented;
        let authorities = authorities.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        authorities.verify_server_cert(certificate, intermediates, name, ocsp, now).map(drop)
    });
    Ok(Arc::new(config.map_err(|why| why.to_string())?).into())
}

/// Verifies the validity and the name of a trusted certificate.
fn verify_itself(presented: &Presented<'_>) -> Result<(), Error> {
    let validity = x509::validity(presented.certificate)
        .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    if presented.now.as_secs() < *validity.start() {
        return Err(CertificateError::NotValidYet.into());
    }
    if presented.now.as_secs() > *validity.end() {
        return Err(CertificateError::Expired.into());
    }
    verify_server_name(&ParsedCertificate::try_from(presented.certificate)?, presented.name)
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
