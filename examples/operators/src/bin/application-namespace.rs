//! Adopts existing objects: an `ApplicationNamespace` adopts the Namespace it names, or creates it.
//!
//! Both are cluster-scoped, so that one can own the other. The adopted Namespace is garbage
//! collected with its owner, unless `onDelete: Orphan` removes the owner reference first.
//! Namespaces that another controller owns, and system namespaces, are not adopted.
//!
//! `cargo run -p operators --bin application-namespace -- --kubeconfig FILE`

use evenkeel::AdoptError;
use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::Namespace;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const FINALIZER: &str = "platform.example.com/orphan";
const TEAM: &str = "platform.example.com/team";
/// The requeue interval while another object owns the Namespace, because its owner is not watched.
const OWNED_RETRY: Duration = Duration::from_secs(60);

/// A Namespace of an application, and the team responsible for it.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, Serialize)]
#[kube(group = "platform.example.com", version = "v1", kind = "ApplicationNamespace")]
#[kube(status = "ApplicationNamespaceStatus")]
#[serde(rename_all = "camelCase")]
struct ApplicationNamespaceSpec {
    /// The name of the Namespace, which may exist already. Another name would leave the former
    /// Namespace and all it contains behind, or delete it.
    #[x_kube(validation = ("self == oldSelf", "namespaceName is immutable"))]
    namespace_name: String,
    /// The team, set as a label on the Namespace.
    team: String,
    /// What happens to the Namespace when this object is deleted.
    #[serde(default)]
    on_delete: OnDelete,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
enum OnDelete {
    /// It is deleted too.
    #[default]
    Delete,
    /// It stays, without an owner reference.
    Orphan,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApplicationNamespaceStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
}

struct ApplicationNamespaces;

impl Reconciler for ApplicationNamespaces {
    type Object = ApplicationNamespace;

    async fn reconcile(&self, cx: &Context<ApplicationNamespace>) -> Result<Action> {
        let clean_up = async |app: Arc<ApplicationNamespace>| orphan_if_requested(cx, &app).await;
        let Some(app) = cx.finalize(FINALIZER, clean_up).await? else { return Ok(Action::done()) };
        let name = &app.spec.namespace_name;
        if name == "default" || name.starts_with("kube-") {
            let message = format!("{name} is a system namespace");
            let rejected = Condition::new("Ready", false, "Protected", &message);
            cx.status(&app).condition(rejected).write().await?;
            return Err(terminal(message));
        }

        let found = cx.client().get::<Namespace>(&Key::cluster(name)).await?;
        if let Some(found) = found.filter(|found| !is_controller(&*app, &**found)) {
            match cx.client().adopt(&*app, &*found).await {
                Ok(_) => cx.event("Adopted", &format!("adopted Namespace {name}")),
                Err(AdoptError::Owner(owned)) => {
                    cx.warning_event("NotAdopted", &owned.to_string());
                    let rejected =
                        Condition::new("Ready", false, "OwnedByAnother", &owned.to_string());
                    cx.status(&app).condition(rejected).write().await?;
                    return Ok(Action::requeue_after(OWNED_RETRY));
                }
                Err(error) => return Err(error.into()),
            }
        }
        cx.apply_owned(namespace_for(&app)).force().await?;
        let message = format!("Namespace {name} is owned by team {}", app.spec.team);
        let ready = Condition::new("Ready", true, "Owned", &message);
        cx.status(&app).condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Removes the owner reference before the owner is deleted if `onDelete` is `Orphan`, so that the
/// garbage collector keeps the Namespace.
async fn orphan_if_requested(
    cx: &Context<ApplicationNamespace>,
    app: &ApplicationNamespace,
) -> Result<()> {
    if app.spec.on_delete == OnDelete::Orphan
        && let Some(owned) =
            cx.client().get::<Namespace>(&Key::cluster(&app.spec.namespace_name)).await?
        && is_controller(app, &*owned)
    {
        cx.client().orphan(app, &*owned).await?;
    }
    Ok(())
}

fn namespace_for(app: &ApplicationNamespace) -> Namespace {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(app.spec.namespace_name.clone());
    namespace.metadata.labels = Some([(TEAM.to_owned(), app.spec.team.clone())].into());
    namespace
}

fn register(manager: &Manager) -> Result<(), RegisterError> {
    manager.controller(ApplicationNamespaces).owns::<Namespace>().register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("application-namespace").await?;
    manager.client().install_crd::<ApplicationNamespace>().await?;
    register(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::TestCluster;

    use super::*;

    async fn cluster() -> TestCluster {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<ApplicationNamespace>().await.unwrap();
        let manager = cluster.manager("application-namespace");
        register(&manager).unwrap();
        cluster.run(&manager);
        cluster
    }

    async fn create_app(
        cluster: &TestCluster,
        name: &str,
        namespace: &str,
        on_delete: OnDelete,
    ) -> Arc<ApplicationNamespace> {
        let (namespace_name, team) = (namespace.to_owned(), "shop".to_owned());
        let spec = ApplicationNamespaceSpec { namespace_name, team, on_delete };
        let app = ApplicationNamespace::new(&cluster.unique_name(name), spec);
        cluster.client().create(&app).await.unwrap()
    }

    async fn create_namespace(cluster: &TestCluster, name: &str) -> Arc<Namespace> {
        let namespace = cluster.parse::<Namespace>(&format!("metadata: {{name: {name}}}"));
        cluster.client().create(&namespace).await.unwrap()
    }

    async fn wait_for_reason(cluster: &TestCluster, app: &ApplicationNamespace, reason: &str) {
        let has_reason = |app: &ApplicationNamespace| {
            let ready = app.status.as_ref().and_then(|status| status.conditions.get("Ready"));
            ready.is_some_and(|ready| ready.reason == reason)
        };
        cluster.eventually::<ApplicationNamespace>(&Key::of(app), has_reason).await;
    }

    async fn delete<K: evenkeel::Object>(cluster: &TestCluster, object: &K) {
        cluster.client().delete(object).await.unwrap();
        if cluster.runs_controllers() {
            cluster.eventually_gone::<K>(&Key::of(object)).await;
        }
    }

    #[tokio::test]
    async fn missing_namespace_is_created_and_deleted_with_its_owner() {
        let cluster = cluster().await;
        let name = cluster.unique_name("new");
        let app = create_app(&cluster, "app", &name, OnDelete::Delete).await;
        let owned = |namespace: &Namespace| is_controller(&*app, namespace);
        let created = cluster.eventually::<Namespace>(&Key::cluster(&name), owned).await;
        assert_eq!(created.labels()[TEAM], "shop");
        delete(&cluster, &*app).await;
        if cluster.runs_controllers() {
            cluster.eventually_gone::<Namespace>(&Key::cluster(&name)).await;
        }
        cluster.stop().await;
    }

    #[tokio::test]
    async fn existing_namespace_is_adopted_and_orphaned_on_request() {
        let cluster = cluster().await;
        let name = cluster.unique_name("old");
        let before = create_namespace(&cluster, &name).await;
        let app = create_app(&cluster, "app", &name, OnDelete::Orphan).await;
        let owned = |namespace: &Namespace| {
            is_controller(&*app, namespace) && namespace.labels().contains_key(TEAM)
        };
        let key = Key::cluster(&name);
        let adopted = cluster.eventually::<Namespace>(&key, owned).await;
        assert_eq!(adopted.uid(), before.uid());
        wait_for_reason(&cluster, &app, "Owned").await;
        delete(&cluster, &*app).await;
        let orphaned = |namespace: &Namespace| {
            namespace.owner_references().is_empty() && namespace.uid() == before.uid()
        };
        cluster.eventually::<Namespace>(&key, orphaned).await;
        cluster.consistently::<Namespace>(&key, Duration::from_secs(2), orphaned).await;
        delete(&cluster, &*before).await;
        cluster.stop().await;
    }

    #[tokio::test]
    async fn owned_and_protected_namespaces_are_not_adopted() {
        let cluster = cluster().await;
        let name = cluster.unique_name("shared");
        create_namespace(&cluster, &name).await;
        let first = create_app(&cluster, "first", &name, OnDelete::Delete).await;
        wait_for_reason(&cluster, &first, "Owned").await;
        let second = create_app(&cluster, "second", &name, OnDelete::Delete).await;
        wait_for_reason(&cluster, &second, "OwnedByAnother").await;
        let protected = create_app(&cluster, "protected", "kube-system", OnDelete::Delete).await;
        wait_for_reason(&cluster, &protected, "Protected").await;
        let first_owns = |namespace: &Namespace| is_controller(&*first, namespace);
        cluster.eventually::<Namespace>(&Key::cluster(&name), first_owns).await;
        let orphaned = |namespace: &Namespace| namespace.owner_references().is_empty();
        cluster.eventually::<Namespace>(&Key::cluster("kube-system"), orphaned).await;
        for app in [&protected, &second, &first] {
            delete(&cluster, &**app).await;
        }
        cluster.stop().await;
    }

    #[test]
    fn application_namespace_survives_faults() {
        let patch = serde_json::json!({"spec": {"team": "checkout"}});
        evenkeel_sim::operator("application-namespace", register)
            .install::<ApplicationNamespace>()
            .existing("{apiVersion: v1, kind: Namespace, metadata: {name: legacy}}")
            .sample(
                "{apiVersion: platform.example.com/v1, kind: ApplicationNamespace, \
                 metadata: {name: shop}, spec: {namespaceName: shop, team: shop}}",
            )
            .sample(
                "{apiVersion: platform.example.com/v1, kind: ApplicationNamespace, \
                 metadata: {name: legacy}, \
                 spec: {namespaceName: legacy, team: archive, onDelete: Orphan}}",
            )
            .patch::<ApplicationNamespace>("shop", patch)
            .without_fault(evenkeel_sim::Effect::TakeName(0), "it adopts namespaces that exist")
            .check();
    }
}
