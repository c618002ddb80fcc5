//! What the listener knows about the other end of a connection.

use std::{net::SocketAddr, sync::Arc};

use crate::identity::Identity;

/// The other end of the connection a request came in on, found in the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: SocketAddr,
    identity: PeerIdentity,
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
    pub(super) fn new(address: SocketAddr, identity: PeerIdentity) -> Self {
        Self(Arc::new(Inner { address, identity }))
    }

    /// Where the connection comes from.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Who the connection's client certificate says is calling.
    pub fn identity(&self) -> &PeerIdentity {
        &self.0.identity
    }
}
