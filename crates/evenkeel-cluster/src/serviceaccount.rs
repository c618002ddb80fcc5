//! Defaults of every namespace: the ServiceAccount `default`, and the ConfigMap with the
//! certificate authority of the API server.

pub(crate) mod tokens;

pub(crate) mod cleaner;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evenkeel::client::Error;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::options::ClusterOptions;

/// The name of the ServiceAccount controller in `kube-controller-manager`.
pub(crate) const ACCOUNTS: &str = "serviceaccount-controller";
/// The name of the root CA publisher in `kube-controller-manager`.
pub(crate) const ROOT_CA: &str = "root-ca-certificate-publisher-controller";

const DEFAULT: &str = "default";
const CONFIG_MAP: &str = "kube-root-ca.crt";

/// Published when no certificate authority is configured: the API server has no socket, or its
/// certificate was issued later. Pods are simulated, so no client verifies anything with it.
const NO_ROOT_CA: &str = "# No certificate authority: this API server is reached in-process.\n";

/// Registers the ServiceAccount controller.
pub(crate) fn register_accounts(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(Accounts)
        .named(ACCOUNTS)
        .watches::<ServiceAccount>(|account, _| of_namespace(&account.metadata, DEFAULT))
        .register()?;
    Ok(())
}

/// Registers the root CA publisher.
pub(crate) fn register_root_ca(
    manager: &Manager,
    options: &ClusterOptions,
) -> Result<(), BoxError> {
    let certificate = options.root_ca.clone().unwrap_or_else(|| NO_ROOT_CA.to_owned());
    manager
        .controller(RootCaPublisher { certificate })
        .named(ROOT_CA)
        .watches::<ConfigMap>(|map, _| of_namespace(&map.metadata, CONFIG_MAP))
        .register()?;
    Ok(())
}

/// Returns the namespace of an object if the object has this name.
fn of_namespace(meta: &ObjectMeta, name: &str) -> Vec<Key> {
    let wanted = meta.name.as_deref() == Some(name);
    meta.namespace.iter().filter(|_| wanted).map(|namespace| Key::cluster(namespace)).collect()
}

/// Whether objects can still be created in the namespace.
fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}

/// Ignores errors that mean another client was faster or the namespace is terminating.
fn ignore_expected<T>(result: Result<T, Error>) -> Result<()> {
    match result {
        Err(error)
            if !error.is_already_exists() && !error.is_not_found() && !error.is_forbidden() =>
        {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

struct Accounts;

impl Reconciler for Accounts {
    type Object = Namespace;

    async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
        let Some(namespace) = cx.object().filter(|namespace| is_active(namespace)) else {
            return Ok(Action::done());
        };
        let key = Key::namespaced(cx.key().name(), DEFAULT);
        if cx.client().get::<ServiceAccount>(&key).await?.is_none() {
            let account = ServiceAccount {
                metadata: ObjectMeta {
                    name: Some(DEFAULT.to_owned()),
                    namespace: namespace.metadata.name.clone(),
                    ..ObjectMeta::default()
                },
                ..ServiceAccount::default()
            };
            ignore_expected(cx.client().create(&account).await)?;
        }
        Ok(Action::done())
    }
}

struct RootCaPublisher {
    certificate: String,
}

impl Reconciler for RootCaPublisher {
    type Object = Namespace;

    async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
        let Some(namespace) = cx.object().filter(|namespace| is_active(namespace)) else {
            return Ok(Action::done());
        };
        let key = Key::namespaced(cx.key().name(), CONFIG_MAP);
        let data = BTreeMap::from([("ca.crt".to_owned(), self.certificate.clone())]);
        match cx.client().get::<ConfigMap>(&key).await? {
            Some(map) if map.data.as_ref() == Some(&data) => {}
            Some(map) => {
                let map = ConfigMap { data: Some(data), ..(*map).clone() };
                ignore_expected(cx.client().update(&map).await)?;
            }
            None => {
                let note = "The certificate authority of the API server, for clients that reach it \
                            from inside of the cluster.";
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(CONFIG_MAP.to_owned()),
                        namespace: namespace.metadata.name.clone(),
                        annotations: Some(BTreeMap::from([(
                            "kubernetes.io/description".to_owned(),
                            note.to_owned(),
                        )])),
                        ..ObjectMeta::default()
                    },
                    data: Some(data),
                    ..ConfigMap::default()
                };
                ignore_expected(cx.client().create(&map).await)?;
            }
        }
        Ok(Action::done())
    }
}
