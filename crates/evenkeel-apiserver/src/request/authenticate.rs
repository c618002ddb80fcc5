//! Authentication by client certificate or bearer token, or as the anonymous user.

use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;

use super::Routed;
use crate::identity::Identity;
use crate::identity::token_file::TokenFile;
use crate::listen::{Peer, PeerIdentity};
use crate::status::Status;
use crate::storage::Store;
use crate::tokens::{Accepted, Tokens, intersection};

/// A request with the identity of its sender, which may be anonymous.
pub(crate) struct Authenticated {
    pub(super) routed: Routed,
    pub(crate) identity: Identity,
    /// The verb that allowed an impersonation; empty for legacy impersonation.
    pub(super) impersonated_by: Option<String>,
    /// A warning about the credentials.
    pub(super) warning: Option<&'static str>,
}

impl Authenticated {
    /// Returns the warning about the credentials.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    pub(crate) fn routed(&self) -> &Routed {
        &self.routed
    }

    /// Returns the verb that allowed an impersonation, empty for legacy impersonation; `None`
    /// without impersonation.
    pub(crate) fn impersonated_by(&self) -> Option<&str> {
        self.impersonated_by.as_deref()
    }
}

/// Authenticates a request. Invalid credentials are rejected; without credentials the request is
/// anonymous.
pub(crate) fn authenticate(
    authenticator: &Authenticator,
    state: State<'_>,
    mut routed: Routed,
) -> Result<Authenticated, Status> {
    let (identity, warning) = authenticator.authenticate(state, &routed.parts).map_err(|why| {
        tracing::debug!(%why, path = routed.parts.uri.path(), "credentials refused");
        Status::unauthorized()
    })?;
    // Later stages must not see credentials.
    routed.parts.headers.remove(AUTHORIZATION);
    Ok(Authenticated { routed, identity, impersonated_by: None, warning })
}

/// What service account tokens are checked against: the objects they name, and the time.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now: Timestamp,
}

/// The accepted kinds of credentials.
pub(crate) struct Authenticator {
    pub(crate) token_file: Option<TokenFile>,
    pub(crate) service_accounts: Tokens,
    /// Whether requests without credentials continue as the anonymous user.
    pub(crate) anonymous: bool,
}

/// Why a request is not authenticated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticateError {
    #[error("the client certificate is not trusted: {0}")]
    Certificate(String),
    #[error("{0}")]
    Token(String),
    #[error("there are no credentials")]
    Anonymous,
}

impl Authenticator {
    /// Returns the identity that the in-process service or the listener has established, or the one
    /// of the `Authorization` header, and a warning about the credentials.
    fn authenticate(
        &self,
        state: State<'_>,
        parts: &Parts,
    ) -> Result<(Identity, Option<&'static str>), AuthenticateError> {
        if let Some(identity) = parts.extensions.get::<Identity>() {
            return Ok((identity.clone(), None));
        }
        let peer = parts.extensions.get::<Peer>().map(Peer::identity);
        if let Some(PeerIdentity::Verified(identity)) = peer.as_deref() {
            return Ok((identity.clone(), None));
        }
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        if let Some(token) = bearer.filter(|token| !token.is_empty()) {
            let audiences = &self.service_accounts.audiences;
            let accepted = self.authenticate_token(state, token, audiences);
            let accepted = accepted.map_err(AuthenticateError::Token)?;
            return Ok((accepted.identity, accepted.warning));
        }
        match peer.as_deref() {
            Some(PeerIdentity::Unverifiable(why)) => {
                Err(AuthenticateError::Certificate(why.clone()))
            }
            _ if self.anonymous => Ok((Identity::anonymous(), None)),
            _ => Err(AuthenticateError::Anonymous),
        }
    }

    /// Returns the name of the sender; `None` if the request is not authenticated.
    pub(crate) fn user(&self, state: State<'_>, parts: &Parts) -> Option<String> {
        Some(self.authenticate(state, parts).ok()?.0.user)
    }

    /// Returns the identity a bearer token belongs to, if it is for one of `audiences`. The error is
    /// that of a TokenReview.
    pub(crate) fn authenticate_token(
        &self,
        State { store, now }: State<'_>,
        token: &str,
        audiences: &[String],
    ) -> Result<Accepted, String> {
        let in_file = self.token_file.as_ref().and_then(|file| file.identity(token));
        if let Some(identity) = in_file {
            // Tokens of the file are for the API server.
            let audiences = intersection(&self.service_accounts.audiences, audiences);
            if !audiences.is_empty() {
                let identity = identity.clone();
                return Ok(Accepted { identity, audiences, warning: None });
            }
        }
        match self.service_accounts.authenticate(store, now, token, audiences) {
            Ok(Some(accepted)) => Ok(accepted),
            Ok(None) => Err("invalid bearer token".to_owned()),
            Err(why) => Err(format!("[invalid bearer token, {why}]")),
        }
    }
}
