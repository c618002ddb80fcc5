//! TLS: the serving certificate, and verification of client certificates.
//!
//! A handshake never fails because of the client's identity. Like kube-apiserver, the server
//! requests a certificate, requires proof that the client has the key, and verifies the chain
//! afterwards: a certificate of an unknown authority results in a 401 response, or is ignored in
//! favour of a bearer token, where a TLS alert would not explain the cause.

use std::{fmt, io, ops::Range, sync::Arc};

use parking_lot::Mutex;
use rustls::{
    DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::WebPkiSupportedAlgorithms,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use evenkeel_pki::certificates::KeyedCertificate;
use evenkeel_pki::tls::{ServingCertificate, WallClock, client_verifier, provider, server_config};
use evenkeel_pki::x509;

pub use evenkeel_pki::tls::Error;

use super::PeerIdentity;
use crate::identity;

/// The serving certificate and the authorities of client certificates.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    clock: Arc<WallClock>,
}

/// The protocol agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A verifier that checks whether the client has the key of its certificate, and leaves the chain to
/// [`Tls::verify`].
#[derive(Debug)]
struct OptionalClientAuth {
    verifier: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificate chain of a client, verified at the time of each request.
///
/// Verifying a chain takes longer than most requests, so the result is cached until the validity of
/// one of the certificates begins or ends.
pub(super) struct ClientCertificate {
    tls: Tls,
    chain: Vec<CertificateDer<'static>>,
    /// The seconds at which the result may change, in order.
    validity_changes: Vec<u64>,
    cached: Mutex<CachedIdentity>,
}

struct CachedIdentity {
    /// When the cached identity is valid.
    valid: Range<u64>,
    identity: Arc<PeerIdentity>,
}

// === impl Tls ===

impl Tls {
    /// Serves with `serving`. Clients are requested to send a certificate of one of
    /// `client_authorities`, if there are any. `now_unix` returns the wall clock in seconds, to
    /// check the validity of client certificates.
    pub fn new(
        serving: &KeyedCertificate,
        client_authorities: &[CertificateDer<'static>],
        now_unix: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let clock = WallClock::new(now_unix);
        let clients = match client_authorities {
            [] => None,
            authorities => Some(client_verifier(authorities)?),
        };
        let optional = clients.clone().map(|verifier| -> Arc<dyn ClientCertVerifier> {
            let algorithms = provider().signature_verification_algorithms;
            Arc::new(OptionalClientAuth { verifier, algorithms })
        });
        let certificate = Arc::new(ServingCertificate::default());
        certificate.set(serving)?;
        let config = server_config(certificate, optional, clock.clone(), &[b"h2", b"http/1.1"])?;
        Ok(Self { acceptor: Arc::new(config).into(), clients, clock })
    }

    /// Performs the handshake; returns the client's certificate, if any, and the negotiated
    /// protocol.
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
        match identity::x509::identity(own) {
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

// === impl ClientCertificate ===

impl ClientCertificate {
    /// Returns `None` without certificates or without client authorities.
    fn new(tls: &Tls, chain: &[CertificateDer<'_>]) -> Option<Self> {
        if chain.is_empty() || tls.clients.is_none() {
            return None;
        }
        let chain: Vec<_> =
            chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let mut validity_changes: Vec<u64> = chain
            .iter()
            .filter_map(|certificate| x509::validity(certificate))
            // The last second is still valid.
            .flat_map(|validity| [*validity.start(), validity.end().saturating_add(1)])
            .collect();
        validity_changes.sort_unstable();
        let now = tls.clock.now();
        let cached = Mutex::new(verify_at(tls, &chain, &validity_changes, now));
        Some(Self { tls: tls.clone(), chain, validity_changes, cached })
    }

    /// Returns the identity at the current time.
    pub(super) fn identity(&self) -> Arc<PeerIdentity> {
        let now = self.tls.clock.now();
        let mut cached = self.cached.lock();
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

// === impl OptionalClientAuth ===

impl OptionalClientAuth {
    /// Verifies a signature with the key in `certificate` only. For certificates that the verifier
    /// cannot parse: they have no identity, so the request gets 401.
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
