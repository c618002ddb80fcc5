//! Validates objects against CRDs, on an embedded API server that stores nothing.

use anyhow::Context as _;
use evenkeel::kube::Api;
use evenkeel::kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use evenkeel::kube::discovery::Scope;
use evenkeel_apiserver::ApiServer;
use evenkeel_cluster::Cluster;
use serde_json::{Value, json};

use super::Finding;
use crate::target::Connection;
use crate::{apply, output};

/// An API server with the next version of the CRDs.
pub(super) struct Validator {
    connection: Connection,
    _cluster: Cluster,
}

impl Validator {
    /// Starts the server and installs the CRDs.
    ///
    /// # Errors
    /// If a CRD is invalid; the error names the reason.
    pub(super) async fn start(crds: &[Value]) -> anyhow::Result<Self> {
        let server = ApiServer::builder().build().await.context("cannot start an API server")?;
        let cluster = Cluster::api_only(server);
        let connection = Connection {
            client: cluster.client(),
            namespace: "default".to_owned(),
            context: "embedded".to_owned(),
            url: String::new(),
        };
        apply::apply_quietly(&connection, crds).await?;
        Ok(Self { connection, _cluster: cluster })
    }

    /// Validates an object as if it were created.
    pub(super) async fn validate(&self, place: &str, object: &Value) -> Option<Finding> {
        self.create(object).await.err().map(|error| Finding::breaking(place, error))
    }

    /// Validates an object that a person wrote. Fields that the schema does not have are errors:
    /// they are mostly misspelled.
    pub(super) async fn validate_strictly(&self, place: &str, object: &Value) -> Option<Finding> {
        let parameters = PatchParams::apply("evenkeel").dry_run().validation_strict();
        let applied = async {
            let (api, object) = self.prepare(object).await?;
            let name = object.metadata.name.clone().unwrap_or_default();
            let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
            applied.map(drop).map_err(|error| output::error(&error.into()))
        };
        applied.await.err().map(|error| Finding::breaking(place, error))
    }

    async fn create(&self, object: &Value) -> Result<(), String> {
        let (api, object) = self.prepare(object).await?;
        let parameters = PostParams { dry_run: true, field_manager: None };
        let created = api.create(&parameters, &object).await;
        created.map(drop).map_err(|error| output::error(&error.into()))
    }

    async fn prepare(&self, object: &Value) -> Result<(Api<DynamicObject>, DynamicObject), String> {
        let (resource, scope) = apply::resource(&self.connection, object)
            .await
            .map_err(|error| output::error(&error))?;
        let client = self.connection.client.clone();
        let api = match scope {
            Scope::Cluster => Api::<DynamicObject>::all_with(client, &resource),
            Scope::Namespaced => Api::namespaced_with(client, "default", &resource),
        };
        let mut object = object.clone();
        if scope == Scope::Namespaced {
            // Namespaces of the other cluster do not exist here.
            object["metadata"]["namespace"] = "default".into();
        }
        let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
        Ok((api, object))
    }
}

/// Returns the objects of CRDs in a cluster, in their storage version.
///
/// # Errors
/// If they cannot be listed.
pub(super) async fn stored(
    connection: &Connection,
    crds: &[Value],
) -> anyhow::Result<Vec<(String, Value)>> {
    let mut stored = Vec::new();
    for crd in crds {
        let versions = crd["spec"]["versions"].as_array();
        let mut versions = versions.into_iter().flatten();
        let Some(version) = versions.find(|it| it["storage"] == true && it["served"] == true)
        else {
            continue;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, version) = (text(&crd["spec"]["group"]), text(&version["name"]));
        let kind = text(&crd["spec"]["names"]["kind"]);
        let types = json!({"apiVersion": format!("{group}/{version}"), "kind": kind});
        let (resource, _) = apply::resource(connection, &types).await?;
        let api = Api::<DynamicObject>::all_with(connection.client.clone(), &resource);
        let found = api.list(&ListParams::default()).await;
        for object in found.with_context(|| format!("cannot list {kind}"))? {
            let meta = &object.metadata;
            let name = meta.name.clone().unwrap_or_default();
            let place = match &meta.namespace {
                Some(namespace) => format!("{kind} {namespace}/{name}"),
                None => format!("{kind} {name}"),
            };
            let mut value = types.clone();
            value["metadata"] = json!({"name": name});
            for (field, content) in object.data.as_object().into_iter().flatten() {
                if field != "status" {
                    value[field] = content.clone();
                }
            }
            stored.push((place, value));
        }
    }
    Ok(stored)
}
