//! Checks which names of a CRD are free in its group.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::object::Metadata as _;

/// The accepted names of a CRD, and the conflict of the others.
pub(crate) struct NameCheck {
    pub(crate) accepted: Value,
    /// Reason and message of the last conflict, which is the one upstream reports.
    pub(crate) conflict: Option<(&'static str, String)>,
}

/// The accepted names of the CRDs of one group.
#[derive(Default)]
pub(crate) struct AcceptedNames {
    by_crd: HashMap<Box<str>, Names>,
    /// The number of CRDs with each resource name and each kind.
    resources: HashMap<Box<str>, usize>,
    kinds: HashMap<Box<str>, usize>,
}

#[derive(Default)]
struct Names {
    resources: HashSet<Box<str>>,
    kinds: HashSet<Box<str>>,
    /// Whether all requested names are accepted.
    accepted: bool,
}

impl AcceptedNames {
    /// Records the accepted names of a CRD.
    pub(crate) fn record(&mut self, crd: &Value) {
        let name = crd.meta_str("name");
        self.forget(name);
        let accepted_names = &crd["status"]["acceptedNames"];
        let text = |field: &str| accepted_names[field].as_str();
        let short = accepted_names["shortNames"].as_array().into_iter().flatten();
        let resources = [text("plural"), text("singular")].into_iter().flatten();
        let resources = resources.chain(short.filter_map(Value::as_str));
        let kinds = [text("kind"), text("listKind")].into_iter().flatten();
        let named = |names: &mut dyn Iterator<Item = &str>| -> HashSet<Box<str>> {
            names.filter(|name| !name.is_empty()).map(Box::from).collect()
        };
        let names = Names {
            resources: named(&mut { resources }),
            kinds: named(&mut { kinds }),
            accepted: super::is_true(crd, "NamesAccepted"),
        };
        for resource in &names.resources {
            *self.resources.entry(resource.clone()).or_default() += 1;
        }
        for kind in &names.kinds {
            *self.kinds.entry(kind.clone()).or_default() += 1;
        }
        self.by_crd.insert(name.into(), names);
    }

    /// Releases the names of a deleted CRD.
    pub(crate) fn forget(&mut self, crd: &str) {
        let Some(names) = self.by_crd.remove(crd) else { return };
        let counts = [(names.resources, &mut self.resources), (names.kinds, &mut self.kinds)];
        for (names, counts) in counts {
            for name in names {
                if let Some(count) = counts.get_mut(&name) {
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(&name);
                    }
                }
            }
        }
    }

    /// Returns the CRDs whose names are not all accepted.
    pub(crate) fn pending(&self) -> Vec<Box<str>> {
        let pending = self.by_crd.iter().filter(|(_, names)| !names.accepted);
        let mut pending: Vec<Box<str>> = pending.map(|(name, _)| name.clone()).collect();
        pending.sort_unstable();
        pending
    }

    /// Returns whether a CRD other than `own` has this resource name.
    fn has_resource(&self, own: Option<&Names>, name: &str) -> bool {
        let own = own.is_some_and(|own| own.resources.contains(name));
        self.resources.get(name).copied().unwrap_or_default() > usize::from(own)
    }

    /// Returns whether a CRD other than `own` has this kind.
    fn has_kind(&self, own: Option<&Names>, name: &str) -> bool {
        let own = own.is_some_and(|own| own.kinds.contains(name));
        self.kinds.get(name).copied().unwrap_or_default() > usize::from(own)
    }
}

/// Checks the requested names against the accepted names of the other CRDs in the group. Mirrors
/// `calculateNamesAndConditions` of upstream's naming controller.
pub(crate) fn check(crd: &Value, accepted_names: &AcceptedNames) -> NameCheck {
    let own = accepted_names.by_crd.get(crd.meta_str("name"));
    let is_taken_resource = |name: &str| !name.is_empty() && accepted_names.has_resource(own, name);
    let is_taken_kind = |name: &str| !name.is_empty() && accepted_names.has_kind(own, name);
    let requested = &crd["spec"]["names"];
    let mut accepted = crd["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({"plural": "", "kind": ""});
    }
    let mut conflict: Option<(&'static str, String)> = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict = Some((reason, format!("{name:?} is already in use")));
    };
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        let name = requested[field].as_str().unwrap_or("");
        if is_taken_resource(name) {
            refuse(reason, name);
        } else {
            accepted[field] = name.into();
        }
    }
    let short: Vec<&str> = requested["shortNames"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match short.iter().find(|name| is_taken_resource(name)) {
        Some(name) => refuse("ShortNamesConflict", name),
        None if short.is_empty() => {
            if let Some(accepted) = accepted.as_object_mut() {
                accepted.remove("shortNames");
            }
        }
        None => accepted["shortNames"] = short.into(),
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        let name = requested[field].as_str().unwrap_or("");
        if is_taken_kind(name) {
            refuse(reason, name);
        } else {
            accepted[field] = name.into();
        }
    }
    match requested.get("categories") {
        Some(categories) => accepted["categories"] = categories.clone(),
        None => {
            if let Some(accepted) = accepted.as_object_mut() {
                accepted.remove("categories");
            }
        }
    }
    NameCheck { accepted, conflict }
}
