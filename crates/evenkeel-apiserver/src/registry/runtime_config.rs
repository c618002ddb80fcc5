//! Which built-in APIs are served: `--runtime-config` of kube-apiserver.
//!
//! By default those of stable versions. An entry names a group and version, a resource of one, or
//! all versions of a stability: the more precise entry decides, whatever their order.

use super::builtin::Row;

/// The entries of `--runtime-config`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuntimeConfig {
    entries: Vec<(String, bool)>,
}

impl RuntimeConfig {
    pub(crate) fn set(&mut self, api: &str, enabled: bool) {
        self.entries.push((api.to_owned(), enabled));
    }

    /// Returns whether the resource is served.
    pub(super) fn serves(&self, row: &Row) -> bool {
        let stability = stability(row.version);
        let group = if row.group.is_empty() { "api" } else { row.group };
        let version = format!("{group}/{}", row.version);
        let resource = format!("{version}/{}", row.plural);
        let keys = ["api/all", stability, &version, &resource];
        let decided = keys.iter().rev().find_map(|key| {
            let mut entries = self.entries.iter().rev();
            entries.find(|(api, _)| api == key).map(|(_, enabled)| *enabled)
        });
        decided.unwrap_or(stability == "api/ga")
    }
}

/// Returns the key of all versions that are as stable as this one.
fn stability(version: &str) -> &'static str {
    if version.contains("alpha") {
        "api/alpha"
    } else if version.contains("beta") {
        "api/beta"
    } else {
        "api/ga"
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::ROWS;
    use super::*;

    fn served(entries: &[(&str, bool)], group: &str, plural: &str) -> bool {
        let mut config = RuntimeConfig::default();
        for (api, enabled) in entries {
            config.set(api, *enabled);
        }
        let row = ROWS.iter().find(|row| row.group == group && row.plural == plural);
        config.serves(row.unwrap())
    }

    #[test]
    fn the_most_precise_entry_decides() {
        let migrations =
            |entries| served(entries, "storagemigration.k8s.io", "storageversionmigrations");
        assert!(!migrations(&[]));
        assert!(migrations(&[("storagemigration.k8s.io/v1beta1", true)]));
        assert!(migrations(&[("api/beta", true)]));
        assert!(migrations(&[("api/beta", true), ("api/all", false)]));
        assert!(!migrations(&[("storagemigration.k8s.io/v1beta1", false), ("api/beta", true)]));
        let resource = "storagemigration.k8s.io/v1beta1/storageversionmigrations";
        assert!(migrations(&[(resource, true), ("api/beta", false)]));
        assert!(served(&[], "", "pods"));
        assert!(!served(&[("api/v1/pods", false)], "", "pods"));
        assert!(!served(&[("apps/v1", true), ("apps/v1", false)], "apps", "deployments"));
    }
}
