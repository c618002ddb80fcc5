//! Webhooks without a controller: a `Tenant` gets a default tier, and its owner cannot be changed.
//!
//! `evenkeel dev --bin tenant` serves them on this machine, with a certificate of its own.

use evenkeel::BoxError;
use evenkeel::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A customer.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Tenant", namespaced)]
struct TenantSpec {
    /// The mail address of the owner.
    owner: String,
    /// What the tenant may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
}

/// Sets the tier of a new tenant.
fn default(tenant: &mut Tenant, _: &AdmissionRequest) -> Result<()> {
    tenant.spec.tier.get_or_insert_with(|| "free".to_owned());
    Ok(())
}

/// Rejects another owner.
fn validate(tenant: &Tenant, request: &AdmissionRequest) -> Result<Warnings> {
    let mut invalid = Invalid::of::<Tenant>(&request.name);
    let old = request.old_object::<Tenant>()?;
    if old.is_some_and(|old| old.spec.owner != tenant.spec.owner) {
        invalid.forbidden("spec.owner", "it cannot be changed");
    }
    invalid.into_result()?;
    Ok(Warnings::new())
}

fn register(manager: &Manager) -> Result<(), BoxError> {
    manager.webhook::<Tenant>().defaulter(default).validator(validate).register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::builder("tenants").crd::<Tenant>().connect_with_args().await?;
    register(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::TestCluster;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn tier_is_set_and_the_owner_is_kept() {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<Tenant>().await.unwrap();
        let manager = cluster.manager("tenants");
        register(&manager).unwrap();
        cluster.run(&manager);

        let tenant = "metadata: {name: acme}\nspec: {owner: ada@example.com}";
        let tenant = cluster.parse::<Tenant>(tenant);
        let created = cluster.client().create(&tenant).await.unwrap();
        assert_eq!(created.spec.tier.as_deref(), Some("free"));
        let patch = Patch::Merge(json!({"spec": {"owner": "bob@example.com"}}));
        let error = cluster.client().patch::<Tenant>(&Key::of(&tenant), &patch).await.unwrap_err();
        assert!(error.to_string().contains("it cannot be changed"), "{error}");
        cluster.stop().await;
    }

    #[test]
    fn tenant_survives_faults() {
        evenkeel_sim::operator("tenant", register)
            .install::<Tenant>()
            .sample(
                "{apiVersion: example.com/v1, kind: Tenant, metadata: {name: acme}, \
                 spec: {owner: ada@example.com}}",
            )
            .patch::<Tenant>("acme", json!({"spec": {"tier": "gold"}}))
            .patch::<Tenant>("acme", json!({"spec": {"owner": "bob@example.com"}}))
            .check();
    }
}
