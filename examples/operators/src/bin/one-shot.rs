//! Runs a task once: a `LabelMigration` renames a label.
//!
//! Completion is recorded in the object's status, so it survives a restart. The task is idempotent:
//! an operator that stops halfway starts over and finds fewer objects to change. To change or
//! repeat a migration, create another object.
//!
//! `cargo run -p operators --bin one-shot -- --kubeconfig FILE`

use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Expression;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Renames a label of all ConfigMaps in its namespace, once.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "batch.example.com", version = "v1", kind = "LabelMigration", namespaced)]
#[kube(status = "LabelMigrationStatus")]
struct LabelMigrationSpec {
    /// The old label name.
    from: String,
    /// The new label name.
    to: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
struct LabelMigrationStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
}

struct LabelMigrations;

impl Reconciler for LabelMigrations {
    type Object = LabelMigration;

    async fn reconcile(&self, cx: &Context<LabelMigration>) -> Result<Action> {
        let Some(migration) = cx.object() else { return Ok(Action::done()) };
        let status = migration.status.as_ref();
        if status.is_some_and(|status| status.conditions.is_true("Complete")) {
            return Ok(Action::done());
        }
        let LabelMigrationSpec { from, to } = &migration.spec;
        let namespace = cx.key().namespace().unwrap_or_default();
        let old = Expression::Exists(from.clone());
        let maps = cx.client().list::<ConfigMap>().in_namespace(namespace).matching(old).await?;
        for map in &maps {
            // The resourceVersion makes the patch fail with a conflict if the object changed.
            let labels = json!({ from: null, to: map.labels().get(from) });
            let version = map.resource_version();
            let patch = json!({"metadata": {"labels": labels, "resourceVersion": version}});
            cx.client().patch::<ConfigMap>(&Key::of(&**map), &Patch::Merge(patch)).await?;
        }
        // Not how many: an operator that was stopped halfway would count the rest only.
        let message = format!("renamed label {from} to {to}");
        let complete = Condition::new("Complete", true, "Migrated", &message);
        cx.status(&migration).condition(complete).write().await?;
        cx.event("Complete", &message);
        Ok(Action::done())
    }
}

fn register(manager: &Manager) -> Result<(), RegisterError> {
    manager.controller(LabelMigrations).reads::<ConfigMap>().register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("one-shot").await?;
    manager.client().install_crd::<LabelMigration>().await?;
    register(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::TestCluster;

    use super::*;

    fn labelled(cluster: &TestCluster, name: &str, label: &str) -> ConfigMap {
        cluster.parse(&format!("metadata: {{name: {name}, labels: {{{label}: shop}}}}"))
    }

    #[tokio::test]
    async fn migration_runs_once() {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<LabelMigration>().await.unwrap();
        let client = cluster.client();
        for name in ["a", "b"] {
            client.create(&labelled(&cluster, name, "owner")).await.unwrap();
        }
        client.create(&labelled(&cluster, "c", "other")).await.unwrap();
        let migration = cluster
            .parse::<LabelMigration>("metadata: {name: rename}\nspec: {from: owner, to: team}");
        client.create(&migration).await.unwrap();
        let manager = cluster.manager("one-shot");
        register(&manager).unwrap();
        cluster.run(&manager);

        let key = Key::of(&migration);
        let done = cluster
            .eventually::<LabelMigration>(&key, |migration| {
                migration.status.as_ref().is_some_and(|it| it.conditions.is_true("Complete"))
            })
            .await;
        let conditions = &done.status.as_ref().unwrap().conditions;
        assert_eq!(conditions.get("Complete").unwrap().message, "renamed label owner to team");
        for name in ["a", "b"] {
            let renamed = |map: &ConfigMap| {
                map.labels().get("team").is_some_and(|team| team == "shop")
                    && !map.labels().contains_key("owner")
            };
            cluster.eventually::<ConfigMap>(&key.sibling(name), renamed).await;
        }

        // A new ConfigMap and a changed spec do not restart the migration.
        let client = cluster.client();
        client.create(&labelled(&cluster, "late", "owner")).await.unwrap();
        let change = Patch::Merge(json!({"spec": {"from": "other"}}));
        client.patch::<LabelMigration>(&key, &change).await.unwrap();
        let (late, other) = (key.sibling("late"), key.sibling("c"));
        let kept = |map: &ConfigMap| !map.labels().contains_key("team");
        cluster.consistently::<ConfigMap>(&late, Duration::from_secs(2), kept).await;
        cluster.eventually::<ConfigMap>(&other, kept).await;
        cluster.stop().await;
    }

    #[test]
    fn one_shot_survives_faults() {
        let map = |name: &str| {
            format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, \
                 labels: {{owner: shop}}}}}}"
            )
        };
        evenkeel_sim::operator("one-shot", register)
            .install::<LabelMigration>()
            .existing(&map("a"))
            .existing(&map("b"))
            .sample(
                "{apiVersion: batch.example.com/v1, kind: LabelMigration, \
                 metadata: {name: rename}, spec: {from: owner, to: team}}",
            )
            .check();
    }
}
