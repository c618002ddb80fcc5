//! Making the cluster know a custom resource.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::Client;
use super::error::{Error, RequestInfo, Target};
use crate::key::Key;
use crate::kind::Kind;

/// How often the server is asked whether it serves the type by now.
const PAUSE: Duration = Duration::from_millis(50);

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Installs the definition of `K`, or brings the one that is there up to date, and waits until
    /// the type is served. It must be before anything watches the type.
    ///
    /// # Errors
    /// When the API server refuses the definition, or does not serve it in time.
    pub async fn install_crd<K: CustomResourceExt>(&self) -> Result<(), Error> {
        self.install_crd_from(&K::crd()).await
    }

    /// As [`install_crd`](Client::install_crd), for a definition that is not made from a type.
    ///
    /// # Errors
    /// As [`install_crd`](Client::install_crd).
    pub async fn install_crd_from(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<(), Error> {
        let key = Key::of(definition);
        let applied = self.apply(definition).force().await?;
        let mut state = state(&applied);
        let established = async {
            loop {
                match state {
                    State::Established => return Ok(()),
                    State::Refused(reason) => return Err(refused(&key, reason)),
                    State::Pending => tokio::time::sleep(PAUSE).await,
                }
                let present = self.live().get::<CustomResourceDefinition>(&key).await?;
                state = match &present {
                    Some(present) => self::state(present),
                    None => State::Refused("it has been deleted meanwhile".to_owned()),
                };
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, established).await;
        in_time.unwrap_or_else(|_| Err(refused(&key, format!("not served after {PATIENCE:?}"))))
    }
}

enum State {
    Pending,
    Established,
    Refused(String),
}

fn state(definition: &CustomResourceDefinition) -> State {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut state = State::Pending;
    for condition in conditions {
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Established", "True") => state = State::Established,
            ("NamesAccepted", "False") => {
                let message = condition.message.clone().unwrap_or_default();
                return State::Refused(format!("its names are not accepted: {message}"));
            }
            _ => {}
        }
    }
    state
}

fn refused(key: &Key, reason: String) -> Error {
    let kind = Kind::of::<CustomResourceDefinition>();
    let target = Target::Object(key.clone());
    Error::NotSent {
        request_info: RequestInfo { verb: "install", kind, subresource: None, target },
        reason,
    }
}
