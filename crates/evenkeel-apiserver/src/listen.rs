//! The listener: TLS and connections.
//!
//! Passes requests on to the service with a [`Peer`] attached, and reads no path, header or body.
//! It guarantees that a [`PeerIdentity::Verified`] caller holds the key of a certificate issued by
//! a client authority, and that no task of a connection outlives [`Listener::serve`].

mod files;
mod peer;
mod serve;
#[cfg(test)]
mod test_support;
pub mod tls;

pub use self::{
    files::raise_open_files_limit,
    peer::{Abort, Peer, PeerIdentity},
    serve::{BindError, ListenOptions, Listener, Stopped},
};
