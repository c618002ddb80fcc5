//! The requests of an elector: read, create and update the Lease.
//!
//! They have a short timeout and are never retried here, so that the deadlines of the elector hold.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::coordination::v1;

use super::lease::Lease;
use crate::client::{ApiRequest, Client, Error};
use crate::clock::MonotonicClock;
use crate::error::chain;
use crate::key::Key;
use crate::kind::Kind;

/// The Lease on the server.
pub(super) struct Lock {
    pub(super) client: Client,
    pub(super) clock: MonotonicClock,
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) timeout: Duration,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum LockError {
    Client(Error),
    Timeout(Duration),
    Malformed(serde_json::Error),
}

impl LockError {
    /// Returns whether the Lease has changed, was deleted or exists already.
    pub(super) fn is_race(&self) -> bool {
        match self {
            Self::Client(error) => {
                error.is_conflict() || error.is_already_exists() || error.is_not_found()
            }
            Self::Timeout(_) | Self::Malformed(_) => false,
        }
    }

    pub(super) fn message(&self) -> Arc<str> {
        match self {
            Self::Client(error) => chain(error).into(),
            Self::Timeout(limit) => format!("no response within {limit:?}").into(),
            Self::Malformed(error) => format!("cannot decode the Lease: {error}").into(),
        }
    }
}

impl Lock {
    pub(super) fn new(client: Client, clock: MonotonicClock, key: Key, timeout: Duration) -> Self {
        Self { client, clock, kind: Kind::of::<v1::Lease>(), key, timeout }
    }

    /// Reads the Lease; `None` if it does not exist.
    pub(super) async fn get(&self) -> Result<Option<Lease>, LockError> {
        match self.send(ApiRequest::object("get", Method::GET, &self.kind, &self.key)).await {
            Ok(lease) => Ok(Some(lease)),
            // Not if the server does not serve Leases.
            Err(LockError::Client(error))
                if error.is_not_found()
                    && error.status().is_some_and(|status| !status.reason.is_empty()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(&self, lease: &Lease) -> Result<Lease, LockError> {
        let request = ApiRequest::create("create", &self.kind, &self.key);
        self.send(request.body("application/json", lease.to_json())).await
    }

    /// Updates the version of the Lease that was read.
    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, LockError> {
        let request = ApiRequest::object("update", Method::PUT, &self.kind, &self.key);
        self.send(request.body("application/json", lease.to_json())).await
    }

    async fn send(&self, request: ApiRequest) -> Result<Lease, LockError> {
        match self.clock.timeout(self.timeout, request.send(&self.client)).await {
            Some(Ok(body)) => Lease::parse(&body).map_err(LockError::Malformed),
            Some(Err(error)) => Err(LockError::Client(error)),
            None => Err(LockError::Timeout(self.timeout)),
        }
    }
}
