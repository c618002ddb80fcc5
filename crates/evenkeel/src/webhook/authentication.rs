//! The webhook token authenticator: TokenReviews.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::controller::message;
use crate::error::{Result, chain};

/// The largest token review.
pub(super) const LIMIT: usize = 1 << 20;

const VERSIONS: [&str; 2] = ["authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"];

/// Authenticates bearer tokens, for an API server with `--authentication-token-webhook-config-file`.
///
/// ```no_run
/// use std::collections::BTreeMap;
///
/// use evenkeel::k8s_openapi::api::authentication::v1::UserInfo;
/// use evenkeel::prelude::*;
/// use evenkeel::webhook::{AuthenticatedUser, TokenAuthenticator};
///
/// struct Tokens(BTreeMap<String, String>);
///
/// impl TokenAuthenticator for Tokens {
///     async fn authenticate(
///         &self,
///         token: &str,
///         _audiences: &[String],
///     ) -> Result<Option<AuthenticatedUser>> {
///         let username = self.0.get(token).cloned();
///         let user = |username| UserInfo { username: Some(username), ..UserInfo::default() };
///         Ok(username.map(|name| AuthenticatedUser::new(user(name))))
///     }
/// }
///
/// # fn example(manager: &Manager) -> Result<()> {
/// manager.token_authenticator("/authenticate", Tokens(BTreeMap::new()))?;
/// # Ok(())
/// # }
/// ```
pub trait TokenAuthenticator: Send + Sync + 'static {
    /// Returns the user of a token, or `None` if the token is not valid. `audiences` are those that
    /// the token must be for; empty if any will do.
    ///
    /// An error rejects the token, and its text is returned to the API server.
    fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<Option<AuthenticatedUser>>> + Send;
}

/// The user of a token.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuthenticatedUser {
    /// Name, uid, groups and extra fields.
    pub user: UserInfo,
    /// Those of the requested audiences that the token is for.
    pub audiences: Vec<String>,
}

impl AuthenticatedUser {
    /// Creates the user of a token that is for the API server alone.
    #[must_use]
    pub fn new(user: UserInfo) -> Self {
        Self { user, audiences: Vec::new() }
    }
}

type Authentication<'a> =
    Pin<Box<dyn Future<Output = Result<Option<AuthenticatedUser>>> + Send + 'a>>;

/// An authenticator behind a path.
pub(super) type Authenticate =
    Arc<dyn for<'a> Fn(&'a str, &'a [String]) -> Authentication<'a> + Send + Sync>;

pub(super) fn authenticator(authenticator: impl TokenAuthenticator) -> Authenticate {
    let authenticator = Arc::new(authenticator);
    Arc::new(move |token, audiences| {
        let authenticator = authenticator.clone();
        Box::pin(async move { authenticator.authenticate(token, audiences).await })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    token: String,
    #[serde(default)]
    audiences: Vec<String>,
}

/// Responds to the review in `body`.
pub(super) async fn respond(authenticate: &Authenticate, body: &[u8]) -> Bytes {
    let review: Review = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return refused(&error.to_string()),
    };
    let known = VERSIONS.into_iter().find(|version| *version == review.api_version);
    let Some(version) = known.filter(|_| review.kind == "TokenReview") else {
        let Review { kind, api_version, .. } = review;
        return refused(&format!("no kind {kind:?} is registered for {api_version:?}"));
    };
    let Spec { token, audiences } = review.spec;
    if token.is_empty() {
        return encode(version, rejected("token is empty"));
    }
    let result = AssertUnwindSafe(async { authenticate(&token, &audiences).await });
    match result.catch_unwind().await {
        Ok(Ok(Some(AuthenticatedUser { user, audiences }))) => {
            let mut status = json!({"authenticated": true, "user": user});
            if !audiences.is_empty() {
                status["audiences"] = json!(audiences);
            }
            encode(version, status)
        }
        Ok(Ok(None)) => encode(version, json!({"authenticated": false})),
        Ok(Err(error)) => encode(version, rejected(&chain(&*error))),
        Err(panic) => {
            let panic = message(&*panic);
            tracing::error!(panic, "token authenticator panicked");
            encode(version, rejected(&format!("panic: {panic} [recovered]")))
        }
    }
}

/// Rejects a review that is not passed to the authenticator.
pub(super) fn refused(message: &str) -> Bytes {
    encode(VERSIONS[0], rejected(message))
}

fn rejected(error: &str) -> Value {
    json!({"authenticated": false, "error": error})
}

#[expect(clippy::needless_pass_by_value, reason = "moved into the review")]
fn encode(version: &str, status: Value) -> Bytes {
    let review = json!({"kind": "TokenReview", "apiVersion": version, "status": status});
    review.to_string().into()
}
