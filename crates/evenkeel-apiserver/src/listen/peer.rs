//! What the listener knows about the other end of a connection, and learns from the service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::serve::connections::TrackedConnection;
use super::tls::ClientCertificate;
use crate::identity::Identity;

/// The other end of the connection a request came in on, found in the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    connection: Arc<Connection>,
    /// Set once the request is known to have no end of its own.
    long_running: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Connection {
    address: SocketAddr,
    /// `None` without a client certificate.
    certificate: Option<ClientCertificate>,
    tracked: Arc<TrackedConnection>,
}

/// What the client certificate of a connection says about the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// No certificate was sent or asked for, or it names nobody: other authenticators decide.
    Absent,
    /// The client authorities vouch for this caller.
    Verified(Identity),
    /// A certificate was sent that does not hold up. The request is unauthorized unless another
    /// authenticator accepts it; it must not pass as anonymous.
    Unverifiable(String),
}

impl Peer {
    pub(super) fn new(
        address: SocketAddr,
        certificate: Option<ClientCertificate>,
        tracked: Arc<TrackedConnection>,
    ) -> Self {
        let connection = Arc::new(Connection { address, certificate, tracked });
        Self { connection, long_running: Arc::default() }
    }

    /// The same peer, for a request whose length `long_running` is to tell.
    pub(super) fn with_request(&self, long_running: Arc<AtomicBool>) -> Self {
        Self { connection: self.connection.clone(), long_running }
    }

    /// Where the connection comes from.
    pub fn address(&self) -> SocketAddr {
        self.connection.address
    }

    /// Who the connection's client certificate says is calling, now: it may have expired since the
    /// last request.
    pub fn identity(&self) -> Arc<PeerIdentity> {
        match &self.connection.certificate {
            Some(certificate) => certificate.identity(),
            None => Arc::new(PeerIdentity::Absent),
        }
    }

    /// Reports that credentials on this connection were accepted. It then counts as `user`'s and
    /// may stay idle; connections without credentials may not.
    pub fn authenticated(&self, user: &Arc<str>) {
        self.connection.tracked.assign_user(user);
    }

    /// Lets the connection end with the requests it has.
    pub fn drain(&self) {
        self.connection.tracked.drain();
    }

    /// Reports that the request has no end of its own, so that no deadline applies to it.
    pub fn long_running(&self) {
        self.long_running.store(true, Ordering::Relaxed);
    }
}
