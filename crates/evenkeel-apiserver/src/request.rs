//! The request side: from a path and headers to an authorized request with a body.
//!
//! `route → authenticate → impersonate → authorize → receive`. Each stage consumes the output of the
//! one before it, so a stage cannot be left out.

pub(crate) mod route;

pub(crate) mod query;

pub(crate) mod delete_options;

pub(crate) mod negotiate;

pub(crate) mod authenticate;

pub(crate) mod impersonate;

pub(crate) mod authorize;

pub(crate) mod receive;

pub(crate) mod record;

use http::request::Parts;

use self::query::Query;
use self::route::Route;

/// A request whose path has been parsed.
pub(crate) struct Routed {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) route: Route,
}
