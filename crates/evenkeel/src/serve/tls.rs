//! TLS of a [`Server`](super::Server).

use std::sync::Arc;

use evenkeel_pki::tls::{Error, SelfSigned, ServingCertificate, WallClock};
use evenkeel_pki::tls::{client_verifier, server_config};
use rustls::pki_types::CertificateDer;
use rustls::server::ResolvesServerCert;
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;

/// HTTP/2 is not offered.
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// The certificate to serve with, and optionally the authorities of clients.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    /// Serves with a certificate that can be replaced. If there are `client_authorities`, clients
    /// must have a certificate of one of them.
    ///
    /// # Errors
    /// When none of the authorities can be used.
    pub(crate) fn new(
        certificate: Arc<ServingCertificate>,
        client_authorities: &[CertificateDer<'static>],
        clock: &Clock,
    ) -> Result<Self, Error> {
        Self::with(certificate, client_authorities, wall_clock(clock))
    }

    /// Serves with a self-signed certificate for `names`, which is renewed before it expires.
    ///
    /// # Errors
    /// Never in practice; see [`new`](Self::new).
    pub(crate) fn self_signed(names: &[&str], clock: &Clock) -> Result<Self, Error> {
        let names = names.iter().map(|name| (*name).to_owned());
        let clock = wall_clock(clock);
        Self::with(SelfSigned::new(names, clock.clone()), &[], clock)
    }

    fn with(
        certificates: Arc<dyn ResolvesServerCert>,
        client_authorities: &[CertificateDer<'static>],
        clock: Arc<WallClock>,
    ) -> Result<Self, Error> {
        let clients = match client_authorities {
            [] => None,
            authorities => Some(client_verifier(authorities)?),
        };
        let config = server_config(certificates, clients, clock, PROTOCOLS)?;
        Ok(Self(Arc::new(config).into()))
    }

    pub(super) fn into_acceptor(self) -> TlsAcceptor {
        self.0
    }
}

fn wall_clock(clock: &Clock) -> Arc<WallClock> {
    let clock = clock.clone();
    WallClock::new(move || u64::try_from(clock.now().as_second()).unwrap_or_default())
}
