//! TLS: what the server shows, and what it makes of the client's certificate.
//!
//! A handshake never fails because of *who* the client is. Like kube-apiserver, the server asks for
//! a certificate, makes the client prove that it holds the key, and judges the chain afterwards: a
//! certificate nobody vouches for becomes a 401 that the client can read, or is overruled by a
//! bearer token, where a TLS alert would leave it guessing.

use std::{
    fmt, io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring},
    pki_types::{CertificateDer, UnixTime},
    server::{
        VerifierBuilderError, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    time_provider::TimeProvider,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{PeerIdentity, certificates::KeyedCertificate};
use crate::identity::x509;

/// The serving certificate and the authorities that vouch for clients.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    clock: Arc<Clock>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The certificate and key do not fit each other, or are of no supported kind.
    #[error("unable to serve with this certificate and key")]
    Serving(#[source] rustls::Error),
    /// None of the certificates in the bundle can serve as a trust anchor.
    #[error("no usable certificate authority among the {0} given for clients")]
    NoClientAuthority(usize),
    /// The trust anchors cannot be used to verify clients.
    #[error("unable to verify clients")]
    ClientVerifier(#[source] VerifierBuilderError),
}

/// The protocol agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Seconds since the epoch, from wherever the server takes its time.
struct Clock(Box<dyn Fn() -> u64 + Send + Sync>);

/// Checks that the client holds its certificate's key, and leaves the chain to [`Tls::verify_at`].
#[derive(Debug)]
struct OptionalClientAuth {
    verifier: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificates a client has presented, judged as time goes on.
///
/// Verifying a chain takes longer than most requests, so a verdict is kept until the validity of
/// one of the certificates begins or ends.
pub(super) struct ClientCertificate {
    tls: Tls,
    chain: Vec<CertificateDer<'static>>,
    /// The seconds at which the verdict may change, in order.
    validity_changes: Vec<u64>,
    cached: Mutex<CachedIdentity>,
}

struct CachedIdentity {
    /// From when on, and until when.
    valid: Range<u64>,
    identity: Arc<PeerIdentity>,
}

// === impl Tls ===

impl Tls {
    /// Serves with `serving`; clients are asked for a certificate by one of `client_authorities`,
    /// or for none at all if there are none. `now_unix` tells the wall clock in seconds, against
    /// which the validity of client certificates is checked.
    pub fn new(
        serving: &KeyedCertificate,
        client_authorities: &[CertificateDer<'static>],
        now_unix: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        // Handed down explicitly: a library must not depend on, or set, a process-wide default.
        let provider = Arc::new(ring::default_provider());
        let clock = Arc::new(Clock(Box::new(now_unix)));
        let clients = client_verifier(&provider, client_authorities)?;
        let algorithms = provider.signature_verification_algorithms;

        let builder = ServerConfig::builder_with_details(provider, clock.clone())
            .with_safe_default_protocol_versions()
            .map_err(Error::Serving)?;
        let builder = match &clients {
            Some(verifier) => builder.with_client_cert_verifier(Arc::new(OptionalClientAuth {
                verifier: verifier.clone(),
                algorithms,
            })),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(serving.chain.clone(), serving.key.clone_key())
            .map_err(Error::Serving)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: Arc::new(config).into(), clients, clock })
    }

    /// Shakes hands; returns the client's certificates, if it has any, and what it wants to speak.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificate>, Protocol)> {
        let stream = self.acceptor.accept(stream).await?;
        let (_, connection) = stream.get_ref();
        let protocol = match connection.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        let chain = connection.peer_certificates().unwrap_or_default();
        let certificate = ClientCertificate::new(self, chain);
        Ok((stream, certificate, protocol))
    }

    fn verify(&self, certificates: &[CertificateDer<'_>], now: UnixTime) -> PeerIdentity {
        let (Some(verifier), [own, intermediates @ ..]) = (&self.clients, certificates) else {
            return PeerIdentity::Absent;
        };
        if let Err(error) = verifier.verify_client_cert(own, intermediates, now) {
            return PeerIdentity::Unverifiable(format!("verifying certificate failed: {error}"));
        }
        match x509::identity(own) {
            Ok(Some(identity)) => PeerIdentity::Verified(identity),
            Ok(None) => PeerIdentity::Absent,
            Err(error) => PeerIdentity::Unverifiable(error.to_string()),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("requests_client_certificates", &self.clients.is_some())
            .finish_non_exhaustive()
    }
}

fn client_verifier(
    provider: &Arc<CryptoProvider>,
    authorities: &[CertificateDer<'static>],
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Error> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    let (usable, ignored) = roots.add_parsable_certificates(authorities.iter().cloned());
    if usable == 0 {
        return Err(Error::NoClientAuthority(authorities.len()));
    }
    if ignored > 0 {
        tracing::warn!(ignored, usable, "some client certificate authorities are unusable");
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map(Some)
        .map_err(Error::ClientVerifier)
}

// === impl Presented ===

impl ClientCertificate {
    /// `None` if there are no certificates, or no authority that could have issued them.
    fn new(tls: &Tls, chain: &[CertificateDer<'_>]) -> Option<Self> {
        if chain.is_empty() || tls.clients.is_none() {
            return None;
        }
        let chain: Vec<_> =
            chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let mut validity_changes: Vec<u64> = chain
            .iter()
            .filter_map(|certificate| x509::validity(certificate))
            // The last second is a valid one.
            .flat_map(|validity| [*validity.start(), validity.end().saturating_add(1)])
            .collect();
        validity_changes.sort_unstable();
        let now = tls.clock.now();
        let cached = Mutex::new(verify_at(tls, &chain, &validity_changes, now));
        Some(Self { tls: tls.clone(), chain, validity_changes, cached })
    }

    /// Who the certificates speak for at this time.
    pub(super) fn identity(&self) -> Arc<PeerIdentity> {
        let now = self.tls.clock.now();
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if !cached.valid.contains(&now.as_secs()) {
            *cached = verify_at(&self.tls, &self.chain, &self.validity_changes, now);
        }
        cached.identity.clone()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificates", &self.chain.len())
            .finish_non_exhaustive()
    }
}

fn verify_at(
    tls: &Tls,
    chain: &[CertificateDer<'_>],
    validity_changes: &[u64],
    now: UnixTime,
) -> CachedIdentity {
    let identity = Arc::new(tls.verify(chain, now));
    let next = validity_changes.partition_point(|change| *change <= now.as_secs());
    let from = next.checked_sub(1).map_or(0, |last| validity_changes[last]);
    let until = validity_changes.get(next).copied().unwrap_or(u64::MAX);
    CachedIdentity { valid: from..until, identity }
}

// === impl Clock ===

impl Clock {
    fn now(&self) -> UnixTime {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs((self.0)()))
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

// === impl Asking ===

impl OptionalClientAuth {
    /// Verifies a signature by the key in `certificate`, whatever else that says. For certificates
    /// that the verifier does not read at all: they identify no user, so the request gets 401.
    fn verify_by_key(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let bad = |error: rustls::CertificateError| rustls::Error::InvalidCertificate(error);
        let key = x509::public_key(certificate)
            .map_err(|_| bad(rustls::CertificateError::BadEncoding))?;
        let scheme = self.algorithms.mapping.iter().find(|(name, _)| *name == signature.scheme);
        let algorithms = scheme.map_or(&[][..], |(_, algorithms)| algorithms);
        let verified = algorithms
            .iter()
            .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == key.algorithm)
            .any(|algorithm| {
                algorithm.verify_signature(key.bits, message, signature.signature()).is_ok()
            });
        if verified {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(bad(rustls::CertificateError::BadSignature))
        }
    }
}

impl ClientCertVerifier for OptionalClientAuth {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if x509::is_version_1(certificate) {
            return self.verify_by_key(message, certificate, signature);
        }
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if x509::is_version_1(certificate) {
            return self.verify_by_key(message, certificate, signature);
        }
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
