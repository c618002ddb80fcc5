//! Discovery of the resource types that the API server serves, in two requests, or in two for each
//! group of some resources.
//!
//! The garbage collector and the namespace controller handle every type, custom resources included.
//! [`Types`] is a snapshot; callers that need a newer one discover again.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::{BoxError, Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;

/// Aggregated discovery: all groups, versions and resources in one response.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The types of a server, each in the server's preferred version.
#[derive(Debug, Default)]
pub(crate) struct Types {
    all: Vec<Type>,
    /// Index into `all` by group and kind.
    kinds: BTreeMap<(String, String), usize>,
    /// Group versions that the server reports as stale.
    pub(crate) stale: Vec<String>,
}

/// One type.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    verbs: Vec<String>,
}

impl Type {
    /// Whether the type supports all of `verbs`.
    pub(crate) fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|known| known == verb))
    }
}

impl Types {
    /// Fetches the types from the server.
    pub(crate) async fn discover(client: &kube::Client) -> Result<Self, BoxError> {
        let mut types = Self::default();
        for group in groups(client).await? {
            types.add(group);
        }
        Ok(types)
    }

    /// Fetches the types of some resources, given as `deployments.apps`. If they are few, this costs
    /// less than all types.
    pub(crate) async fn discover_only(
        client: &kube::Client,
        resources: &BTreeSet<String>,
    ) -> Result<Self, BoxError> {
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for resource in resources {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            wanted.entry(group).or_default().insert(plural);
        }
        let mut types = Self::default();
        for (group, mut plurals) in wanted {
            for version in versions(client, group).await? {
                if plurals.is_empty() {
                    break;
                }
                let list = match group {
                    "" => client.list_core_api_resources(&version).await?,
                    _ => client.list_api_group_resources(&format!("{group}/{version}")).await?,
                };
                for found in list.resources {
                    if plurals.remove(&*found.name) {
                        let gvk = GroupVersionKind::gvk(group, &version, &found.kind);
                        types.push(&gvk, &found.name, found.namespaced, found.verbs);
                    }
                }
            }
        }
        Ok(types)
    }

    fn push(&mut self, gvk: &GroupVersionKind, plural: &str, namespaced: bool, verbs: Vec<String>) {
        let api = ApiResource::from_gvk_with_plural(gvk, plural);
        self.kinds.entry((gvk.group.clone(), gvk.kind.clone())).or_insert(self.all.len());
        self.all.push(Type { kind: Kind::dynamic(&api, namespaced), verbs });
    }

    fn add(&mut self, group: Group) {
        let name = group.metadata.name;
        let mut known: Vec<String> = Vec::new();
        for version in group.versions {
            if version.freshness == "Stale" {
                self.stale.push(format!("{name}/{}", version.version));
            }
            for resource in version.resources {
                // Versions are in the order of preference: the first that serves a resource is
                // used.
                if known.contains(&resource.resource) {
                    continue;
                }
                let kind = &resource.response_kind.kind;
                let gvk = GroupVersionKind::gvk(&name, &version.version, kind);
                let namespaced = resource.scope == "Namespaced";
                self.push(&gvk, &resource.resource, namespaced, resource.verbs);
                known.push(resource.resource);
            }
        }
    }

    /// Returns all types in the server's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Type> {
        self.all.iter()
    }

    /// Returns the type of a resource.
    pub(crate) fn find_resource(&self, group: &str, plural: &str) -> Option<&Type> {
        self.all.iter().find(|found| found.kind.group() == group && found.kind.plural() == plural)
    }

    /// Returns the type that an owner reference names.
    pub(crate) fn find(&self, group: &str, kind: &str) -> Option<&Kind> {
        let at = self.kinds.get(&(group.to_owned(), kind.to_owned()))?;
        Some(&self.all[*at].kind)
    }
}

/// A resource in one of its versions.
pub(crate) struct Served {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
}

/// Fetches all resources in all versions, in the server's order.
pub(crate) async fn served(client: &kube::Client) -> Result<Vec<Served>, BoxError> {
    let mut all = Vec::new();
    for group in groups(client).await? {
        for version in group.versions {
            all.extend(version.resources.into_iter().map(|resource| Served {
                group: group.metadata.name.clone(),
                version: version.version.clone(),
                plural: resource.resource,
                singular: resource.singular_resource,
                kind: resource.response_kind.kind,
            }));
        }
    }
    Ok(all)
}

/// Returns the versions of a group in the order of preference; none if it is not served.
async fn versions(client: &kube::Client, group: &str) -> Result<Vec<String>, BoxError> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let request = http::Request::get(format!("/apis/{group}")).body(Vec::new())?;
    match client.request::<APIGroup>(request).await {
        Ok(found) => Ok(found.versions.into_iter().map(|it| it.version).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

async fn groups(client: &kube::Client) -> Result<Vec<Group>, BoxError> {
    let mut all = Vec::new();
    for path in ["/api", "/apis"] {
        let request =
            http::Request::get(path).header(http::header::ACCEPT, ACCEPT).body(Vec::new())?;
        all.extend(client.request::<Groups>(request).await?.items);
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default)]
    singular_resource: String,
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

#[cfg(test)]
mod tests {
    use evenkeel_apiserver::ApiServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_types_are_the_same_as_among_all() {
        let server = ApiServer::builder().build().await.unwrap();
        let client = kube::Client::new(server.service(), "default");
        let resources =
            ["pods", "deployments.apps", "leases.coordination.k8s.io", "absent.example"];
        let resources: BTreeSet<String> = resources.map(str::to_owned).into();
        let some = Types::discover_only(&client, &resources).await.unwrap();
        let all = Types::discover(&client).await.unwrap();
        assert_eq!(some.iter().count(), 3);
        for found in some.iter() {
            let kind = &found.kind;
            let same = all.find_resource(kind.group(), kind.plural()).unwrap();
            assert_eq!((kind, &found.verbs), (&same.kind, &same.verbs));
            assert_eq!(some.find(kind.group(), kind.kind()), Some(kind));
        }
    }
}
