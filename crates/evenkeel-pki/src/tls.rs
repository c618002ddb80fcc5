//! TLS of servers: certificates that are replaced while the server runs, and verification of client
//! certificates; and of clients with their own rule for certificates of servers.
//!
//! All of it uses *ring* and TLS 1.2 or 1.3. The provider is passed explicitly: a library
//! must not depend on, or set, a process-wide default.

mod client;

mod self_signed;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::certificates::KeyedCertificate;

pub use self::client::{Presented, client_config};
pub use self::self_signed::SelfSigned;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The certificate does not match the key, or is not supported.
    #[error("unable to serve with this certificate and key")]
    Serving(#[source] rustls::Error),
    /// None of the certificates in the bundle can serve as a trust anchor.
    #[error("no usable certificate authority among the {0} given for clients")]
    NoClientAuthority(usize),
    /// The trust anchors cannot be used to verify clients.
    #[error("unable to verify clients")]
    ClientVerifier(#[source] VerifierBuilderError),
    /// A client cannot be set up.
    #[error("unable to connect with TLS")]
    Client(#[source] rustls::Error),
}

/// The wall clock that TLS checks validity with.
pub struct WallClock(Box<dyn Fn() -> u64 + Send + Sync>);

/// A serving certificate that can be replaced. Handshakes after a replacement use the new one;
/// without one they fail. Connections are not affected.
#[derive(Debug, Default)]
pub struct ServingCertificate(RwLock<Option<Arc<CertifiedKey>>>);

// === impl WallClock ===

impl WallClock {
    /// Creates a clock; `now_unix` returns the seconds since the Unix epoch.
    pub fn new(now_unix: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self(Box::new(now_unix)))
    }

    /// Returns the current time.
    pub fn now(&self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs((self.0)()))
    }
}

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

// === impl ServingCertificate ===

impl ServingCertificate {
    /// Serves with `certificate` from now on.
    ///
    /// # Errors
    ///
    /// If the certificate does not match the key; the previous one stays in use.
    pub fn set(&self, certificate: &KeyedCertificate) -> Result<(), Error> {
        let certified = certified_key(certificate)?;
        *self.0.write() = Some(certified);
        Ok(())
    }

    /// Returns the certificate in use, in DER form.
    pub fn current(&self) -> Option<CertificateDer<'static>> {
        let current = self.0.read();
        current.as_ref().and_then(|certified| certified.cert.first().cloned())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// Returns the configuration of a server. Clients are requested to send a certificate if there is a
/// verifier, which decides whether they must. `protocols` are those of ALPN.
///
/// # Errors
///
/// If the cryptography does not support TLS 1.2 and 1.3.
pub fn server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    clock: Arc<WallClock>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_details(provider(), clock)
        .with_safe_default_protocol_versions()
        .map_err(Error::Serving)?;
    let builder = match clients {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Returns a verifier that requires a client certificate of one of `authorities`.
///
/// # Errors
///
/// If none of them can be used.
pub fn client_verifier(
    authorities: &[CertificateDer<'static>],
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    let (usable, ignored) = roots.add_parsable_certificates(authorities.iter().cloned());
    if usable == 0 {
        return Err(Error::NoClientAuthority(authorities.len()));
    }
    if ignored > 0 {
        tracing::warn!(ignored, usable, "some client certificate authorities are unusable");
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(Error::ClientVerifier)
}

/// Returns the cryptography of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certified_key(certificate: &KeyedCertificate) -> Result<Arc<CertifiedKey>, Error> {
    let chain = certificate.chain().to_vec();
    CertifiedKey::from_der(chain, certificate.key().clone_key(), &provider())
        .map(Arc::new)
        .map_err(Error::Serving)
}
