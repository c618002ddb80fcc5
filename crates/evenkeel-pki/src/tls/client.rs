//! TLS of clients with their own rule for which certificate of a server they accept.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Error, provider};

/// What a server presents in a handshake.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Presented<'a> {
    /// The certificate of the server.
    pub certificate: &'a CertificateDer<'a>,
    /// The certificates between it and its authority.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The name that the client connects to.
    pub name: &'a ServerName<'a>,
    /// The stapled OCSP response, if any.
    pub ocsp: &'a [u8],
    /// The current time.
    pub now: UnixTime,
}

/// Returns the configuration of a client that accepts the certificates which `accept` accepts. That
/// the server has the key of its certificate is always verified.
///
/// # Errors
///
/// If the cryptography does not support TLS 1.2 and 1.3.
pub fn client_config(
    accept: impl Fn(&Presented<'_>) -> Result<(), rustls::Error> + Send + Sync + 'static,
) -> Result<ClientConfig, Error> {
    let verifier = Verifier { accept, provider: provider() };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::Client)?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

struct Verifier<F> {
    accept: F,
    provider: Arc<CryptoProvider>,
}

impl<F> fmt::Debug for Verifier<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl<F> ServerCertVerifier for Verifier<F>
where
    F: Fn(&Presented<'_>) -> Result<(), rustls::Error> + Send + Sync,
{
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        (self.accept)(&Presented { certificate, intermediates, name, ocsp, now })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
