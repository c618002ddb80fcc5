//! The registry of served resources: built-in ones and those of CustomResourceDefinitions.
//!
//! Readers use a [`Snapshot`]; a change of a CRD replaces it, so a request sees one consistent set
//! of resources, and discovery changes atomically.

pub(crate) mod builtin;

pub(crate) mod resource;

mod rules;

pub(crate) mod custom;

pub(crate) mod discovery;

mod runtime_config;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;

use self::resource::Resource;
pub(crate) use self::runtime_config::RuntimeConfig;
use crate::storage::Store;

/// The current snapshot of served resources.
pub(crate) struct Registry {
    current: RwLock<Arc<Snapshot>>,
}

/// All resources served at one time. Unchanged groups are shared with the previous snapshot, so the
/// cost of a change depends on its own group only.
pub(crate) struct Snapshot {
    /// Built-in groups in table order, then the others by name, like upstream's priorities.
    groups: Vec<Arc<Group>>,
    /// The index of each built-in group.
    builtin: Arc<HashMap<&'static str, usize>>,
    documents: discovery::Documents,
    openapi: discovery::OpenApiDocuments,
    /// Resources that are no longer served but still documented, by group.
    withdrawn: Arc<BTreeMap<Box<str>, Vec<Arc<Resource>>>>,
}

/// An API group, its versions by priority.
pub(crate) struct Group {
    pub(crate) name: Box<str>,
    pub(crate) versions: Vec<GroupVersion>,
}

/// The resources of one version of a group, in discovery order.
pub(crate) struct GroupVersion {
    pub(crate) version: Box<str>,
    pub(crate) resources: Vec<Arc<Resource>>,
    by_plural: HashMap<Arc<str>, usize>,
}

impl Registry {
    pub(crate) fn new(store: &Store, config: &RuntimeConfig) -> Self {
        let mut builtin = HashMap::new();
        let mut by_group: Vec<Vec<Arc<Resource>>> = Vec::new();
        for row in builtin::ROWS.iter().filter(|row| config.serves(row)) {
            let at = *builtin.entry(row.group).or_insert(by_group.len());
            if at == by_group.len() {
                by_group.push(Vec::new());
            }
            by_group[at].push(Arc::new(Resource::builtin(row, store)));
        }
        let groups = by_group.into_iter().map(|resources| Arc::new(Group::new(&resources, &[])));
        let current = Snapshot {
            groups: groups.collect(),
            builtin: Arc::new(builtin),
            documents: discovery::Documents::default(),
            openapi: discovery::OpenApiDocuments::default(),
            withdrawn: Arc::default(),
        };
        Self { current: RwLock::new(Arc::new(current)) }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().clone()
    }

    /// Replaces the custom resources of `group`; `withdrawn` ones are only documented. Callers must
    /// not run concurrently.
    pub(crate) fn replace_custom(
        &self,
        group: &str,
        custom: &[Arc<Resource>],
        withdrawn: Vec<Arc<Resource>>,
    ) {
        let snapshot = Arc::new(self.snapshot().with_custom(group, custom, withdrawn));
        *self.current.write() = snapshot;
    }
}

impl Snapshot {
    fn with_custom(
        &self,
        group: &str,
        custom: &[Arc<Resource>],
        withdrawn: Vec<Arc<Resource>>,
    ) -> Self {
        let mut groups = self.groups.clone();
        match self.position(group) {
            Ok(at) if at < self.builtin.len() => {
                let versions = groups[at].versions.iter();
                let own = versions.flat_map(|version| &version.resources);
                let own: Vec<_> = own.filter(|resource| !resource.is_custom()).cloned().collect();
                groups[at] = Arc::new(Group::new(&own, custom));
            }
            Ok(at) if custom.is_empty() => drop(groups.remove(at)),
            Ok(at) => groups[at] = Arc::new(Group::new(&[], custom)),
            Err(_) if custom.is_empty() => {}
            Err(at) => groups.insert(at, Arc::new(Group::new(&[], custom))),
        }
        let mut all_withdrawn = self.withdrawn.clone();
        if !withdrawn.is_empty() {
            Arc::make_mut(&mut all_withdrawn).insert(group.into(), withdrawn);
        } else if all_withdrawn.contains_key(group) {
            Arc::make_mut(&mut all_withdrawn).remove(group);
        }
        Self {
            groups,
            builtin: self.builtin.clone(),
            documents: discovery::Documents::default(),
            openapi: discovery::OpenApiDocuments::default(),
            withdrawn: all_withdrawn,
        }
    }

    /// Returns the index of the group, or where to insert it.
    fn position(&self, group: &str) -> Result<usize, usize> {
        if let Some(at) = self.builtin.get(group) {
            return Ok(*at);
        }
        let first = self.builtin.len();
        match self.groups[first..].binary_search_by(|found| (*found.name).cmp(group)) {
            Ok(at) => Ok(first + at),
            Err(at) => Err(first + at),
        }
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|group| &**group)
    }

    pub(crate) fn documents(&self) -> &discovery::Documents {
        &self.documents
    }

    pub(crate) fn openapi(&self) -> &discovery::OpenApiDocuments {
        &self.openapi
    }

    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.position(name).ok().map(|at| &*self.groups[at])
    }

    /// Returns whether the group is built in.
    pub(crate) fn is_builtin(&self, group: &str) -> bool {
        self.builtin.contains_key(group)
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
        self.groups().flat_map(|g| &g.versions).flat_map(|v| &v.resources)
    }

    /// Iterates over the resources of v3 documents. They include versions that a CRD no longer
    /// serves, which upstream documents until the CRD is deleted.
    pub(crate) fn documented(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources().chain(self.withdrawn.values().flatten())
    }

    /// Iterates over the resources of the v3 documents of one group.
    pub(crate) fn documented_in(&self, group: &str) -> impl Iterator<Item = &Arc<Resource>> {
        let versions = self.group(group).into_iter().flat_map(|group| &group.versions);
        let withdrawn = self.withdrawn.get(group).into_iter().flatten();
        versions.flat_map(|version| &version.resources).chain(withdrawn)
    }
}

impl Group {
    /// Creates a group of built-in resources, in their order, and custom resources.
    fn new(builtin: &[Arc<Resource>], custom: &[Arc<Resource>]) -> Self {
        let first = builtin.first().or(custom.first());
        let mut versions: Vec<GroupVersion> = Vec::new();
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for resource in builtin.iter().chain(custom) {
            let at = *by_name.entry(&*resource.version).or_insert(versions.len());
            if at == versions.len() {
                let version = Box::from(&*resource.version);
                let (resources, by_plural) = (Vec::new(), HashMap::new());
                versions.push(GroupVersion { version, resources, by_plural });
            }
            versions[at].resources.push(resource.clone());
        }
        if builtin.is_empty() {
            versions.sort_by_cached_key(|v| std::cmp::Reverse(version_rank(&v.version)));
            for version in &mut versions {
                version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
            }
        }
        for version in &mut versions {
            version.by_plural = (0..)
                .zip(&version.resources)
                .map(|(at, resource)| (resource.plural.clone(), at))
                .collect();
        }
        Self { name: first.map_or_else(Box::default, |first| Box::from(&*first.group)), versions }
    }
}

impl GroupVersion {
    pub(crate) fn resource(&self, plural: &str) -> Option<&Arc<Resource>> {
        self.by_plural.get(plural).map(|at| &self.resources[*at])
    }
}

/// Returns the priority of a version: `v2` > `v1` > `v1beta2` > `v1alpha1` > anything else. Mirrors
/// upstream's `CompareKubeAwareVersionStrings`.
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
    fn builtin_table_matches_a_default_kubernetes() {
        let config = RuntimeConfig::default();
        let rows: Vec<_> = builtin::ROWS.iter().filter(|row| config.serves(row)).collect();
        let versions: std::collections::BTreeSet<_> =
            rows.iter().map(|row| (row.group, row.version)).collect();
        let subresources: usize = rows.iter().map(|row| row.subresources.len()).sum();
        assert_eq!((versions.len(), rows.len(), subresources), (22, 68, 45));
    }
}
