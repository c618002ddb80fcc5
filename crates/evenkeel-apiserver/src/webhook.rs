//! Calls to webhooks: where they are, and how they are reached.
//!
//! Admission and conversion send their reviews here. A webhook is a service or listener that is
//! registered in process, or an address that is reached over TLS. Calls hold no lock, follow no
//! redirects, and are limited in time and size.

mod client;

mod connection;

mod error;

mod registered;

mod resolve;

mod review;

mod target;

mod tls;

pub(crate) use client::{Call, Client, Reach};
pub(crate) use review::decode_review;
pub(crate) use target::Target;
