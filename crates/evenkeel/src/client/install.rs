//! Installs CRDs.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::Client;
use super::error::{Error, ErrorKind};
use crate::key::Key;
use crate::kind::Kind;
use crate::request_info::{RequestInfo, Target};

/// The interval of polling the CRD.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long to wait for the CRD to be established.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    /// Creates or updates the CRD of `K` and waits until it is established. Call it before the type
    /// is watched.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    /// # struct Widget;
    /// # impl CustomResourceExt for Widget {
    /// #     fn crd() -> CustomResourceDefinition { unimplemented!() }
    /// #     fn crd_name() -> &'static str { unimplemented!() }
    /// #     fn api_resource() -> evenkeel::kube::core::ApiResource { unimplemented!() }
    /// #     fn shortnames() -> &'static [&'static str] { &[] }
    /// # }
    /// # async fn example(client: &evenkeel::client::Client) -> Result<()> {
    /// client.install_crd::<Widget>().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the API server rejects the CRD, or it is not established within a minute.
    pub async fn install_crd<K: CustomResourceExt>(&self) -> Result<(), Error> {
        self.install_crd_from(&K::crd()).await
    }

    /// Same as [`install_crd`](Client::install_crd), for a CRD without a Rust type.
    ///
    /// # Errors
    /// Same as [`install_crd`](Client::install_crd).
    pub async fn install_crd_from(&self, crd: &CustomResourceDefinition) -> Result<(), Error> {
        let key = Key::of(crd);
        let applied = self.apply(crd).force().await?;
        let mut state = state(&applied);
        let established = async {
            loop {
                match state {
                    State::Established => return Ok(()),
                    State::Rejected(reason) => return Err(not_installed(&key, reason)),
                    // Polled: CRDs are in no cache of most operators, and few may watch them.
                    State::Pending => tokio::time::sleep(POLL_INTERVAL).await,
                }
                let present = self.live().get::<CustomResourceDefinition>(&key).await?;
                state = match &present {
                    Some(present) => self::state(present),
                    None => State::Rejected("it was deleted".to_owned()),
                };
            }
        };
        let result = tokio::time::timeout(TIMEOUT, established).await;
        result.unwrap_or_else(|_| {
            Err(not_installed(&key, format!("not established after {TIMEOUT:?}")))
        })
    }
}

enum State {
    Pending,
    Established,
    Rejected(String),
}

fn state(crd: &CustomResourceDefinition) -> State {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut state = State::Pending;
    for condition in conditions {
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Established", "True") => state = State::Established,
            ("NamesAccepted", "False") => {
                let message = condition.message.clone().unwrap_or_default();
                return State::Rejected(format!("its names are not accepted: {message}"));
            }
            _ => {}
        }
    }
    state
}

fn not_installed(key: &Key, reason: String) -> Error {
    let kind = Kind::of::<CustomResourceDefinition>();
    let target = Target::Object(key.clone());
    let request_info = RequestInfo { verb: "install", kind, subresource: None, target };
    ErrorKind::NotSent { request_info, reason }.into()
}
