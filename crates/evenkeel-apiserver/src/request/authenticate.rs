//! Stage 2: authentication by client certificate or bearer token, or as the anonymous user.

use http::header::AUTHORIZATION;
use http::request::Parts;

use super::Routed;
use crate::identity::Identity;
use crate::identity::token_file::TokenFile;
use crate::listen::{Peer, PeerIdentity};
use crate::status::Status;

/// A request with the identity of its sender, which may be anonymous.
pub(crate) struct Authenticated {
    pub(super) routed: Routed,
    pub(crate) identity: Identity,
}

/// Authenticates a request. Invalid credentials are rejected; without credentials the request is
/// anonymous.
pub(crate) fn authenticate(
    authenticator: &Authenticator,
    mut routed: Routed,
) -> Result<Authenticated, Status> {
    let identity = authenticator.authenticate(&routed.parts).map_err(|why| {
        tracing::debug!(%why, path = routed.parts.uri.path(), "credentials refused");
        Status::unauthorized()
    })?;
    // Later stages must not see credentials.
    routed.parts.headers.remove(AUTHORIZATION);
    Ok(Authenticated { routed, identity })
}

/// The accepted kinds of credentials.
pub(crate) struct Authenticator {
    pub(crate) tokens: Option<TokenFile>,
    /// Whether requests without credentials continue as the anonymous user.
    pub(crate) anonymous: bool,
}

/// Why a request is not authenticated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticateError {
    #[error("the client certificate is not trusted: {0}")]
    Certificate(String),
    #[error("the bearer token is unknown")]
    Token,
    #[error("there are no credentials")]
    Anonymous,
}

impl Authenticator {
    /// Returns the identity that the in-process service or the listener has established, or the one
    /// of the `Authorization` header.
    pub(crate) fn authenticate(&self, parts: &Parts) -> Result<Identity, AuthenticateError> {
        if let Some(identity) = parts.extensions.get::<Identity>() {
            return Ok(identity.clone());
        }
        let peer = parts.extensions.get::<Peer>().map(Peer::identity);
        if let Some(PeerIdentity::Verified(identity)) = peer.as_deref() {
            return Ok(identity.clone());
        }
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if let Some(token) = bearer.filter(|token| !token.is_empty()) {
            return self.authenticate_token(token).ok_or(AuthenticateError::Token);
        }
        match peer.as_deref() {
            Some(PeerIdentity::Unverifiable(why)) => {
                Err(AuthenticateError::Certificate(why.clone()))
            }
            _ if self.anonymous => Ok(Identity::anonymous()),
            _ => Err(AuthenticateError::Anonymous),
        }
    }

    /// Returns the identity a bearer token belongs to.
    pub(crate) fn authenticate_token(&self, token: &str) -> Option<Identity> {
        self.tokens.as_ref()?.identity(token).cloned()
    }
}
