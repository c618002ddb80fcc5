//! The peer of a connection: what the listener has found about it, and what the service reports back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::serve::connections::TrackedConnection;
use super::tls::ClientCertificate;
use crate::identity::Identity;

/// The peer of the connection a request arrived on, found in the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    connection: Arc<Connection>,
    /// Set once the request is known to be long-running.
    long_running: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Connection {
    address: SocketAddr,
    /// `None` without a client certificate.
    certificate: Option<ClientCertificate>,
    tracked: Arc<TrackedConnection>,
}

/// In the extensions of a response: no response is sent. The connection is closed, or with HTTP/2
/// the stream is reset.
#[derive(Clone, Copy, Debug)]
pub struct Abort;

/// The identity in the client certificate of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// No certificate was sent or requested, or it has no identity: other authenticators decide.
    Absent,
    /// The certificate was issued by a client authority.
    Verified(Identity),
    /// A certificate was sent that is not valid. The request is unauthorized unless another
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

    /// Returns the same peer for another request; `long_running` is set if that is long-running.
    pub(super) fn with_request(&self, long_running: Arc<AtomicBool>) -> Self {
        Self { connection: self.connection.clone(), long_running }
    }

    /// Returns the remote address of the connection.
    pub fn address(&self) -> SocketAddr {
        self.connection.address
    }

    /// Returns the identity in the client certificate, verified at the current time: it may have
    /// expired since the last request.
    pub fn identity(&self) -> Arc<PeerIdentity> {
        match &self.connection.certificate {
            Some(certificate) => certificate.identity(),
            None => Arc::new(PeerIdentity::Absent),
        }
    }

    /// Reports that credentials on this connection were accepted. The connection is then accounted
    /// to `user` and may stay idle; anonymous connections may not.
    pub fn authenticated(&self, user: &Arc<str>) {
        self.connection.tracked.assign_user(user);
    }

    /// Closes the connection after its current requests.
    pub fn drain(&self) {
        self.connection.tracked.drain();
    }

    /// Reports that the request is long-running, so that no timeout applies to it.
    pub fn long_running(&self) {
        self.long_running.store(true, Ordering::Relaxed);
    }
}
