//! What every namespace gets: the service account `default`, and the authority to verify the API
//! server with.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evenkeel::client::Error;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::options::ClusterOptions;

/// As `kube-controller-manager` calls the controller of service accounts.
pub(crate) const ACCOUNTS: &str = "serviceaccount-controller";
/// As `kube-controller-manager` calls the publisher of the authority.
pub(crate) const AUTHORITY: &str = "root-ca-certificate-publisher-controller";

const DEFAULT: &str = "default";
const CONFIG_MAP: &str = "kube-root-ca.crt";

/// What is published when nobody said which authority signs for the API server: it has no socket, or
/// one whose certificate came later. Pods are simulated, so nobody verifies anything with it.
const NO_AUTHORITY: &str = "# No certificate authority: this API server is reached in-process.\n";

/// Has the controller of service accounts run with the manager.
pub(crate) fn register_accounts(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(Accounts)
        .named(ACCOUNTS)
        .watches::<ServiceAccount>(|account, _| of_namespace(&account.metadata, DEFAULT))
        .register()?;
    Ok(())
}

/// Has the publisher of the authority run with the manager.
pub(crate) fn register_authority(
    manager: &Manager,
    options: &ClusterOptions,
) -> Result<(), BoxError> {
    let certificate = options.root_ca.clone().unwrap_or_else(|| NO_AUTHORITY.to_owned());
    manager
        .controller(Authority { certificate })
        .named(AUTHORITY)
        .watches::<ConfigMap>(|map, _| of_namespace(&map.metadata, CONFIG_MAP))
        .register()?;
    Ok(())
}

/// The namespace of an object, if it is the one of that name.
fn of_namespace(meta: &ObjectMeta, name: &str) -> Vec<Key> {
    let wanted = meta.name.as_deref() == Some(name);
    meta.namespace.iter().filter(|_| wanted).map(|namespace| Key::cluster(namespace)).collect()
}

/// Whether things can still be made in the namespace.
fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}

/// Somebody else was faster, or the namespace goes: both are fine.
fn tolerated<T>(answer: Result<T, Error>) -> Result<()> {
    match answer {
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
        if cx.get::<ServiceAccount>(&key).await?.is_none() {
            let account = ServiceAccount {
                metadata: ObjectMeta {
                    name: Some(DEFAULT.to_owned()),
                    namespace: namespace.metadata.name.clone(),
                    ..ObjectMeta::default()
                },
                ..ServiceAccount::default()
            };
            tolerated(cx.create(&account).await)?;
        }
        Ok(Action::done())
    }
}

struct Authority {
    certificate: String,
}

impl Reconciler for Authority {
    type Object = Namespace;

    async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
        let Some(namespace) = cx.object().filter(|namespace| is_active(namespace)) else {
            return Ok(Action::done());
        };
        let key = Key::namespaced(cx.key().name(), CONFIG_MAP);
        let data = BTreeMap::from([("ca.crt".to_owned(), self.certificate.clone())]);
        match cx.get::<ConfigMap>(&key).await? {
            Some(map) if map.data.as_ref() == Some(&data) => {}
            Some(map) => {
                let map = ConfigMap { data: Some(data), ..(*map).clone() };
                tolerated(cx.update(&map).await)?;
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
                tolerated(cx.create(&map).await)?;
            }
        }
        Ok(Action::done())
    }
}
