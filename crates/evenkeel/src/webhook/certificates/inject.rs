//! Writes the `caBundle` into webhook configurations and CRDs.
//!
//! Only entries that refer to the operator's own Service or URL are changed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use serde_json::Value;

use crate::client::{Client, Error};
use crate::key::Key;
use crate::kind::Kind;
use crate::webhook::endpoint::Endpoint;

/// An object with a `caBundle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::webhook) struct Target {
    pub(in crate::webhook) kind: Kind,
    pub(in crate::webhook) name: String,
    pub(in crate::webhook) endpoint: Endpoint,
}

impl Target {
    pub(in crate::webhook) fn mutating(name: String, endpoint: Endpoint) -> Self {
        Self { kind: Kind::of::<MutatingWebhookConfiguration>(), name, endpoint }
    }

    pub(in crate::webhook) fn validating(name: String, endpoint: Endpoint) -> Self {
        Self { kind: Kind::of::<ValidatingWebhookConfiguration>(), name, endpoint }
    }

    pub(in crate::webhook) fn crd(name: String, endpoint: Endpoint) -> Self {
        Self { kind: Kind::of::<CustomResourceDefinition>(), name, endpoint }
    }

    /// Reads the object; `None` if it does not exist.
    pub(super) async fn read(&self, client: &Client) -> Result<Option<DynamicObject>, Error> {
        client.dynamic(&self.kind).live().get(&Key::cluster(&self.name)).await
    }

    /// Sets `bundle` in the object; returns whether that changed it.
    pub(super) fn set(&self, object: &mut DynamicObject, bundle: &str) -> bool {
        let bundle = Value::String(STANDARD.encode(bundle));
        let mut changed = false;
        for client in client_configs(&mut object.data) {
            if self.endpoint.is_in(client) && client["caBundle"] != bundle {
                client["caBundle"] = bundle.clone();
                changed = true;
            }
        }
        changed
    }

    /// Replaces the object in the version that was read.
    pub(super) async fn write(&self, client: &Client, object: &DynamicObject) -> Result<(), Error> {
        client.dynamic(&self.kind).update(object).await.map(drop)
    }
}

/// Returns every `clientConfig` of a webhook configuration or a CRD.
fn client_configs(data: &mut Value) -> Vec<&mut Value> {
    if data["webhooks"].is_array() {
        let webhooks = data["webhooks"].as_array_mut();
        return webhooks.into_iter().flatten().map(|one| &mut one["clientConfig"]).collect();
    }
    let config = data.pointer_mut("/spec/conversion/webhook/clientConfig");
    config.into_iter().collect()
}
