//! What is served: built-in resources and those that CustomResourceDefinitions declare.
//!
//! Readers take a [`Snapshot`]; a change of a definition replaces it as a whole, so a request
//! sees one consistent set of resources and discovery changes at once, never piecemeal.

pub(crate) mod builtin;

pub(crate) mod resource;

pub(crate) mod custom;

pub(crate) mod discovery;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use self::resource::Resource;
use crate::openapi::Published;
use crate::storage::Store;

/// The served resources, replaceable as a whole.
pub(crate) struct Registry {
    builtin: Vec<Arc<Resource>>,
    current: RwLock<Arc<Snapshot>>,
}

/// All resources served at one moment.
pub(crate) struct Snapshot {
    groups: Vec<Group>,
    by_group: HashMap<Box<str>, usize>,
    documents: discovery::Documents,
    openapi: Published,
    /// No longer served, but documented.
    withdrawn: Vec<Arc<Resource>>,
}

/// One API group, its versions best first.
pub(crate) struct Group {
    pub(crate) name: Box<str>,
    pub(crate) versions: Vec<GroupVersion>,
}

/// The resources of one version of a group, in discovery's order.
pub(crate) struct GroupVersion {
    pub(crate) version: Box<str>,
    pub(crate) resources: Vec<Arc<Resource>>,
    by_plural: HashMap<Box<str>, usize>,
}

impl Registry {
    pub(crate) fn new(store: &Store) -> Self {
        let builtin: Vec<Arc<Resource>> =
            builtin::ROWS.iter().map(|row| Arc::new(Resource::builtin(row, store))).collect();
        let current = RwLock::new(Arc::new(Snapshot::new(&builtin, &[], Vec::new())));
        Self { builtin, current }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves `custom` beside the built-in resources from now on; `withdrawn` is only documented.
    pub(crate) fn replace_custom(&self, custom: &[Arc<Resource>], withdrawn: Vec<Arc<Resource>>) {
        let snapshot = Arc::new(Snapshot::new(&self.builtin, custom, withdrawn));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

impl Snapshot {
    fn new(
        builtin: &[Arc<Resource>],
        custom: &[Arc<Resource>],
        withdrawn: Vec<Arc<Resource>>,
    ) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for resource in builtin {
            group_version(&mut groups, resource).resources.push(resource.clone());
        }
        let first_custom = groups.len();
        for resource in custom {
            group_version(&mut groups, resource).resources.push(resource.clone());
        }
        // Built-in groups keep the table's order; the others follow by name, as upstream's
        // priorities have it.
        groups[first_custom..].sort_by(|a, b| a.name.cmp(&b.name));
        for group in &mut groups[first_custom..] {
            group.versions.sort_by_key(|v| std::cmp::Reverse(version_rank(&v.version)));
            for version in &mut group.versions {
                version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
        for version in groups.iter_mut().flat_map(|group| &mut group.versions) {
            version.by_plural = (0..)
                .zip(&version.resources)
                .map(|(at, resource)| (Box::from(&*resource.plural), at))
                .collect();
        }
        let by_group = (0..).zip(&groups).map(|(at, group)| (group.name.clone(), at)).collect();
        Self {
            groups,
            by_group,
            documents: discovery::Documents::default(),
            openapi: Published::default(),
            withdrawn,
        }
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn documents(&self) -> &discovery::Documents {
        &self.documents
    }

    pub(crate) fn openapi(&self) -> &Published {
        &self.openapi
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.by_group.get(name).map(|at| &self.groups[*at])
    }

    /// Whether the group is one of the server's own.
    pub(crate) fn is_builtin(&self, group: &str) -> bool {
        let versions = self.group(group).into_iter().flat_map(|group| &group.versions);
        versions.flat_map(|version| &version.resources).any(|resource| !resource.is_custom())
    }

    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.group(group)?.versions.iter().find(|v| &*v.version == version)
    }

    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<Resource>> {
        self.group_version(group, version)?.resource(plural)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.iter().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }

    /// What v3 documents describe: also versions a definition has withdrawn, which upstream forgets
    /// only with the definition.
    pub(crate) fn documented(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources().chain(&self.withdrawn)
    }
}

impl GroupVersion {
    pub(crate) fn resource(&self, plural: &str) -> Option<&Arc<Resource>> {
        self.by_plural.get(plural).map(|at| &self.resources[*at])
    }
}

fn group_version<'a>(groups: &'a mut Vec<Group>, resource: &Resource) -> &'a mut GroupVersion {
    let at = match groups.iter().position(|group| *group.name == *resource.group) {
        Some(at) => at,
        None => {
            groups.push(Group { name: Box::from(&*resource.group), versions: Vec::new() });
            groups.len() - 1
        }
    };
    let versions = &mut groups[at].versions;
    let at = match versions.iter().position(|v| *v.version == *resource.version) {
        Some(at) => at,
        None => {
            versions.push(GroupVersion {
                version: Box::from(&*resource.version),
                resources: Vec::new(),
                by_plural: HashMap::new(),
            });
            versions.len() - 1
        }
    };
    &mut versions[at]
}

/// Orders versions as Kubernetes does: `v2` > `v1` > `v1beta2` > `v1alpha1` > anything else.
pub(crate) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = || (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let Ok(major) = major.parse::<u64>() else { return other() };
    let rank = |stage: u8, minor: u64| (stage, major, minor, std::cmp::Reverse(String::new()));
    if stage.is_empty() {
        return rank(3, 0);
    }
    for (name, value) in [("beta", 2), ("alpha", 1)] {
        if let Some(Ok(minor)) = stage.strip_prefix(name).map(str::parse::<u64>) {
            return rank(value, minor);
        }
    }
    other()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rank_by_stability_then_number() {
        let mut versions =
            ["v1alpha1", "foo", "v10", "v2", "v1beta2", "v1beta10", "v11alpha2", "bar", "v1"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v11alpha2", "v1alpha1", "bar", "foo"]
        );
    }

    #[test]
    fn the_table_is_what_a_default_kubernetes_serves() {
        let versions: std::collections::BTreeSet<_> =
            builtin::ROWS.iter().map(|row| (row.group, row.version)).collect();
        let subresources: usize = builtin::ROWS.iter().map(|row| row.subresources.len()).sum();
        assert_eq!((versions.len(), builtin::ROWS.len(), subresources), (22, 68, 45));
    }
}
