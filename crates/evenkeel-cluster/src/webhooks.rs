//! Webhooks of an operator in the same process: called without a socket or a certificate.

use evenkeel::webhook::WebhookConfigurations;
use evenkeel::{BoxError, Manager};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::Cluster;

/// Why the webhooks of a manager cannot be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// A configuration is not valid.
    #[error("cannot install {name}: {reason}")]
    Refused {
        /// The object.
        name: String,
        /// The status and the reason of the server.
        reason: String,
    },
    /// A configuration cannot be sent.
    #[error("cannot install the webhooks")]
    NotSent(#[source] BoxError),
}

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

impl Cluster {
    /// Calls the webhooks of `manager` from now on: installs their configurations and the conversion
    /// stanza of CRDs that exist, and calls them in process.
    ///
    /// The manager needs no port and no certificate:
    /// [`WebhookOptions::in_process`](evenkeel::webhook::WebhookOptions::in_process). Without a data
    /// directory this completes without waiting.
    ///
    /// # Errors
    /// When a configuration is not valid.
    pub async fn serve_webhooks(&self, manager: &Manager) -> Result<(), WebhookError> {
        let service = manager.webhook_service();
        let Some((namespace, name, port)) = service.service() else { return Ok(()) };
        let crds = service.converted_crds();
        self.server().register_webhook_service(&namespace, &name, port, service);
        let WebhookConfigurations { mutating, validating, .. } = manager.webhook_configurations();
        if let Some(mutating) = mutating {
            let name = mutating.metadata.name.clone().unwrap_or_default();
            let path = format!("{REGISTRATION}/mutatingwebhookconfigurations/{name}");
            self.apply(&path, &serde_json::to_value(mutating).map_err(not_sent)?).await?;
        }
        if let Some(validating) = validating {
            let name = validating.metadata.name.clone().unwrap_or_default();
            let path = format!("{REGISTRATION}/validatingwebhookconfigurations/{name}");
            self.apply(&path, &serde_json::to_value(validating).map_err(not_sent)?).await?;
        }
        for name in crds {
            let mut crd = CustomResourceDefinition::default();
            manager.set_conversion_webhook(&mut crd);
            let stanza = json!({"spec": {"conversion": crd.spec.conversion}});
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            self.patch(&path, "application/merge-patch+json", &stanza, true).await?;
        }
        Ok(())
    }

    async fn apply(&self, path: &str, object: &Value) -> Result<(), WebhookError> {
        let path = format!("{path}?fieldManager=evenkeel&force=true");
        self.patch(&path, "application/apply-patch+yaml", object, false).await
    }

    async fn patch(
        &self,
        path: &str,
        content_type: &str,
        patch: &Value,
        may_be_absent: bool,
    ) -> Result<(), WebhookError> {
        let request = Request::patch(path)
            .header(CONTENT_TYPE, content_type)
            .body(patch.to_string())
            .map_err(not_sent)?;
        let Ok(response) = self.server().service().call(request).await;
        match response.status().as_u16() {
            200 | 201 => Ok(()),
            404 if may_be_absent => Ok(()),
            _ => {
                let status = response.status();
                let body = response.into_body().collect().await.map_err(not_sent)?.to_bytes();
                let reason = format!("{status}: {}", String::from_utf8_lossy(&body));
                Err(WebhookError::Refused { name: path.to_owned(), reason })
            }
        }
    }
}

fn not_sent(error: impl Into<BoxError>) -> WebhookError {
    WebhookError::NotSent(error.into())
}
