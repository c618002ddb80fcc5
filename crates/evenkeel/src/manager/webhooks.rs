//! The webhooks of a manager.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::Manager;
use crate::kind::Object;
use crate::lifecycle::{Group, Pending, Stopping};
use crate::webhook::{
    self, AdmissionHandler, Conversion, RegisterError, TokenAuthenticator, WebhookBuilder,
    WebhookConfigurations, WebhookRules, WebhookService,
};

/// So that one function can register webhooks and controllers.
impl From<RegisterError> for super::RegisterError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Stopping => Self::Stopping,
            error => Self::Webhook(error.into()),
        }
    }
}

impl Manager {
    /// Returns a builder of the admission webhooks of a type: its defaulters and validators.
    ///
    /// ```no_run
    /// use evenkeel::prelude::*;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// fn validate(map: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
    ///     match &map.data {
    ///         Some(_) => Ok(Warnings::new()),
    ///         None => Err("data is required".into()),
    ///     }
    /// }
    ///
    /// # fn example(manager: &Manager) -> Result<()> {
    /// manager.webhook::<ConfigMap>().validator(validate).register()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn webhook<K: Object>(&self) -> WebhookBuilder<'_, K> {
        WebhookBuilder::new(&self.0.webhooks, || self.start_webhooks())
    }

    /// Adds an admission handler at a path of its own. It is not part of
    /// [`webhook_configurations`](Self::webhook_configurations).
    ///
    /// # Errors
    /// When the path is taken, or the manager is stopping.
    pub fn admission_handler(
        &self,
        path: &str,
        handler: impl AdmissionHandler,
    ) -> Result<(), RegisterError> {
        self.0.webhooks.add_admission(path, handler)?;
        self.start_webhooks()
    }

    /// Adds a webhook token authenticator at a path of its own.
    ///
    /// # Errors
    /// When the path is taken, or the manager is stopping.
    pub fn token_authenticator(
        &self,
        path: &str,
        authenticator: impl TokenAuthenticator,
    ) -> Result<(), RegisterError> {
        self.0.webhooks.add_authenticator(path, authenticator)?;
        self.start_webhooks()
    }

    /// Serves the conversion of a custom resource at `/convert`.
    ///
    /// # Errors
    /// When the versions do not fit together, the resource has a conversion already, or the manager
    /// is stopping.
    pub fn conversion<Hub: Object + CustomResourceExt>(
        &self,
        conversion: Conversion<Hub>,
    ) -> Result<(), RegisterError> {
        self.0.webhooks.add_conversion(conversion)?;
        self.start_webhooks()
    }

    /// Returns the configurations of the admission webhooks that are registered so far, to be
    /// installed in the cluster. They have no `caBundle`: the manager sets it if it manages its own
    /// certificates, otherwise cert-manager's CA injector does.
    ///
    /// The webhooks do not match objects in the namespace of the operator, unless
    /// [`in_own_namespace`](WebhookBuilder::in_own_namespace) is set.
    #[must_use]
    pub fn webhook_configurations(&self) -> WebhookConfigurations {
        self.0.webhooks.configurations()
    }

    /// Sets the conversion stanza of a CRD, such as that of [`Conversion::crd`], to the webhook of
    /// this manager.
    pub fn set_conversion_webhook(&self, crd: &mut CustomResourceDefinition) {
        self.0.webhooks.set_conversion(crd);
    }

    /// Returns the permissions that the certificates of webhooks need, restricted by
    /// `resourceNames`.
    #[must_use]
    pub fn webhook_rules(&self) -> WebhookRules {
        self.0.webhooks.rules()
    }

    /// Returns the webhooks as a tower service, to be called by an API server in the same process.
    /// `evenkeel_test` does this for managers under test.
    #[must_use]
    pub fn webhook_service(&self) -> WebhookService {
        WebhookService(self.0.webhooks.clone())
    }

    /// Starts the server with the first webhook, if there is to be one.
    fn start_webhooks(&self) -> Result<(), RegisterError> {
        if !self.0.webhooks.starts_server() {
            return Ok(());
        }
        let (webhooks, environment) = (Arc::clone(&self.0.webhooks), &self.0.environment);
        let (client, clock) = (environment.client.clone(), environment.clock.clone());
        let random = environment.random();
        let server = Pending::new(Group::Servers, "webhook server", move |stop| {
            webhook::run(webhooks, client, clock, random, stop)
        });
        environment.lifecycle.push(server).map_err(|Stopping| RegisterError::Stopping)
    }
}
