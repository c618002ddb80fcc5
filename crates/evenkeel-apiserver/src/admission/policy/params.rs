//! The parameters of a policy: objects that a binding refers to.

use std::sync::Arc;

use evenkeel_types::Gvk;
use serde_json::Value;

use crate::codec;
use crate::context::Core;
use crate::conversion;
use crate::registry::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::Status;
use crate::storage::{Key, Range, Record};

/// The kind of the parameters of a policy.
pub(super) struct ParamKind {
    api_version: String,
    kind: String,
}

/// What a binding refers to.
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// Whether requests are denied if nothing is found.
    required: bool,
}

impl ParamKind {
    pub(super) fn parse(kind: &Value) -> Option<Self> {
        let text = |field: &str| kind[field].as_str().unwrap_or("").to_owned();
        (!kind.is_null()).then(|| Self { api_version: text("apiVersion"), kind: text("kind") })
    }

    /// Returns the resource of the kind.
    pub(super) fn resource(&self, core: &Core) -> Result<Arc<Resource>, String> {
        let gvk = Gvk::from_api_version(&self.api_version, &self.kind);
        let snapshot = core.registry.snapshot();
        let found = snapshot.resources().find(|resource| resource.gvk() == gvk);
        found.cloned().ok_or_else(|| {
            format!(
                "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
                gvk.group, gvk.version, gvk.kind
            )
        })
    }
}

impl ParamRef {
    pub(super) fn parse(reference: &Value) -> Option<Self> {
        let text = |field: &str| reference[field].as_str().unwrap_or("").to_owned();
        let selector = &reference["selector"];
        (!reference.is_null()).then(|| Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: (!selector.is_null()).then(|| LabelSelector::from_object(selector)),
            required: reference["parameterNotFoundAction"] == "Deny",
        })
    }

    /// Returns the objects that the binding refers to. Without a namespace of their own, they are in
    /// that of the request.
    async fn find(
        &self,
        core: &Core,
        resource: &Resource,
        namespace: &str,
    ) -> Result<Vec<Value>, String> {
        let namespace = match (resource.namespaced, &*self.namespace, namespace) {
            (true, "", "") => {
                return Err("cannot use namespaced paramRef in policy binding that matches \
                            cluster-scoped resources"
                    .to_owned());
            }
            (true, "", of_request) => of_request,
            (true, own, _) => own,
            (false, "", _) => "",
            (false, _, _) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped \
                            `paramKind`"
                    .to_owned());
            }
        };
        let message = |status: Status| status.message().to_owned();
        let mut params = Vec::new();
        for record in self.records(resource, namespace)? {
            let record = conversion::record(core, resource, record).await.map_err(message)?;
            params.push(codec::value(resource, &record).map_err(message)?);
        }
        if params.is_empty() && self.required {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
            );
        }
        Ok(params)
    }

    fn records(&self, resource: &Resource, namespace: &str) -> Result<Vec<Arc<Record>>, String> {
        let Some(selector) = &self.selector else {
            let found = resource.table.get(&Key::new(namespace, &self.name));
            return Ok(found.into_iter().collect());
        };
        let selector = selector.as_ref().map_err(Clone::clone)?;
        let namespace = resource.namespaced.then_some(namespace);
        let range = Range { namespace, after: None, limit: None };
        let page = resource.table.list(range, None).map_err(|error| error.to_string())?;
        let mut records = page.items;
        records.retain(|record| selector.matches(&record.labels));
        Ok(records)
    }
}

/// Returns the parameters that a policy is evaluated with, once for each: one evaluation without
/// parameters if the policy or the binding has none.
pub(super) async fn collect(
    core: &Core,
    resource: Option<&Resource>,
    reference: Option<&ParamRef>,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    match (resource, reference) {
        (Some(resource), Some(reference)) => {
            let params = reference.find(core, resource, namespace).await?;
            Ok(params.into_iter().map(Some).collect())
        }
        _ => Ok(vec![None]),
    }
}
