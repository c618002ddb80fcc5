//! The server's door: certificates, TLS, connections, and the kubeconfig that leads here.
//!
//! Bytes come in, requests go on to the service with a [`Peer`] attached; nothing in here looks at
//! a path, a header or a body. What the listener promises the rest of the server is that a
//! [`PeerIdentity::Verified`] caller has proven to hold the key of a certificate that the client
//! authorities vouch for, and that no task of a connection outlives [`Listener::serve`].

pub mod certificates;
mod files;
pub mod kubeconfig;
mod peer;
mod serve;
#[cfg(test)]
mod test_support;
pub mod tls;

pub use self::{
    files::raise_open_files_limit,
    peer::{Peer, PeerIdentity},
    serve::{BindError, Listener, Options, Stopped},
};
