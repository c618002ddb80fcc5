//! Authentication and authorization by the API server: TokenReview, then SubjectAccessReview on the
//! method and the path, as the metrics server of controller-runtime does.
//!
//! There is no access without a positive review: a request without a token is refused without a
//! request to the API server, and so is every request whose reviews time out or are not served.
//! Decisions are cached, up to a bound, and few reviews run at a time, so that clients with invented
//! tokens do not become a load on the API server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::error::{Result, chain};
use crate::kind::{Kind, Object};

/// How long the result of a TokenReview is used; a failure for less, since a token may become valid.
const AUTHENTICATED: Duration = Duration::from_secs(60);
const NOT_AUTHENTICATED: Duration = Duration::from_secs(10);

/// How long the result of a SubjectAccessReview is used.
const ALLOWED: Duration = Duration::from_secs(300);
const DENIED: Duration = Duration::from_secs(30);

/// The number of cached decisions of each kind.
const CACHED_MAX: usize = 1024;

/// The number of reviews that run at a time.
const CONCURRENT_MAX: usize = 4;

/// The timeout of a review, the wait for others included.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No valid token.
    Unauthenticated,
    /// The user may not do this.
    Forbidden,
}

/// Authenticates and authorizes requests by reviews of the API server.
pub(crate) struct Authorizer {
    client: Client,
    /// The user by token; `None` for tokens that are not valid.
    users: Mutex<Decisions<Option<Arc<UserInfo>>>>,
    /// Whether a user may send a request, by user, verb and path.
    allowed: Mutex<Decisions<bool>>,
    reviews: Semaphore,
}

impl Authorizer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            users: Mutex::default(),
            allowed: Mutex::default(),
            reviews: Semaphore::new(CONCURRENT_MAX),
        }
    }

    /// Checks that the sender of a request may use `method` on `path`.
    pub(crate) async fn check(
        &self,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
    ) -> Result<(), Refusal> {
        let token = bearer_token(headers).ok_or(Refusal::Unauthenticated)?;
        let user = self.authenticate(token).await.ok_or(Refusal::Unauthenticated)?;
        let verb = method.as_str().to_ascii_lowercase();
        match self.authorize(&user, &verb, path).await {
            true => Ok(()),
            false => Err(Refusal::Forbidden),
        }
    }

    async fn authenticate(&self, token: &str) -> Option<Arc<UserInfo>> {
        if let Some(known) = self.users.lock().get(token) {
            return known;
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..<_>::default() };
        let review: Option<TokenReview> =
            self.review(&TokenReview { spec, ..TokenReview::default() }).await;
        // Without a response nothing is cached.
        let status = review?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).map(Arc::new);
        let lifetime = if user.is_some() { AUTHENTICATED } else { NOT_AUTHENTICATED };
        self.users.lock().insert(token.to_owned(), user.clone(), lifetime);
        user
    }

    async fn authorize(&self, user: &UserInfo, verb: &str, path: &str) -> bool {
        let UserInfo { username, uid, groups, extra } = user.clone();
        let attributes =
            NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: username,
            uid,
            groups,
            extra,
            non_resource_attributes: Some(attributes),
            resource_attributes: None,
        };
        let Ok(key) = serde_json::to_string(&spec) else { return false };
        if let Some(known) = self.allowed.lock().get(&key) {
            return known;
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review: Option<SubjectAccessReview> = self.review(&review).await;
        let Some(status) = review.and_then(|review| review.status) else { return false };
        let allowed = status.allowed && status.denied != Some(true);
        let lifetime = if allowed { ALLOWED } else { DENIED };
        self.allowed.lock().insert(key, allowed, lifetime);
        allowed
    }

    /// Sends a review; `None` without a response.
    async fn review<K: Object + Serialize + DeserializeOwned>(&self, review: &K) -> Option<K> {
        let exchange = async {
            let _permit = self.reviews.acquire().await?;
            let body = serde_json::to_vec(review)?;
            let kind = Kind::of::<K>();
            let response = self.client.review(&kind, body).await?;
            Result::<K>::Ok(serde_json::from_slice(&response)?)
        };
        match timeout(REVIEW_TIMEOUT, exchange).await {
            Ok(Ok(review)) => Some(review),
            Ok(Err(error)) => {
                let error = chain(&*error);
                tracing::warn!(error, "request for metrics refused: the review failed");
                None
            }
            Err(_) => {
                tracing::warn!("request for metrics refused: the review timed out");
                None
            }
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Decisions with a lifetime, at most [`CACHED_MAX`] of them.
struct Decisions<V>(HashMap<String, (Instant, V)>);

impl<V> Default for Decisions<V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<V: Clone> Decisions<V> {
    fn get(&self, key: &str) -> Option<V> {
        let (end, value) = self.0.get(key)?;
        (Instant::now() < *end).then(|| value.clone())
    }

    fn insert(&mut self, key: String, value: V, lifetime: Duration) {
        let now = Instant::now();
        if self.0.len() >= CACHED_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, (end, _)| now < *end);
        }
        if self.0.len() >= CACHED_MAX && !self.0.contains_key(&key) {
            let first = self.0.iter().min_by_key(|(_, (end, _))| *end);
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                self.0.remove(&first);
            }
        }
        self.0.insert(key, (now + lifetime, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_count() {
        let token = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer_token(&headers).map(str::to_owned)
        };
        assert_eq!(token("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token("bearer  abc ").as_deref(), Some("abc"));
        for other in ["Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(token(other), None, "{other}");
        }
        assert_eq!(bearer_token(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_expire_and_are_bounded() {
        let mut decisions = Decisions::default();
        decisions.insert("a".to_owned(), 1, Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(decisions.get("a"), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(decisions.get("a"), None);
        for number in 0..3 * CACHED_MAX {
            decisions.insert(number.to_string(), number, Duration::from_secs(60));
            tokio::time::advance(Duration::from_nanos(1)).await;
        }
        assert_eq!(decisions.0.len(), CACHED_MAX);
        let last = 3 * CACHED_MAX - 1;
        assert_eq!(decisions.get(&last.to_string()), Some(last));
        assert_eq!(decisions.get("0"), None);
    }
}
