//! Admission: plugins that may change or refuse a write, in upstream's order and by its names.

mod namespace_lifecycle;

mod priority;

use serde_json::Value;

use crate::call::Call;
use crate::status::Status;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// A write as plugins see it.
pub(crate) struct Attributes<'a> {
    pub(crate) call: &'a Call,
    pub(crate) operation: Operation,
    /// The object to be stored; none on delete.
    pub(crate) object: Option<&'a mut Value>,
    /// The object as stored; none on create.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

/// One plugin. The default of each half does nothing.
pub(crate) trait Plugin: Send + Sync {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }
}

/// A plugin under its upstream name, on unless switched off.
struct Entry {
    name: &'static str,
    plugin: Box<dyn Plugin>,
}

/// The plugins that are on, in the order they run.
pub(crate) struct Chain(Vec<Entry>);

impl Chain {
    /// All plugins but `disabled`. Names we do not know are upstream's that are not built in yet;
    /// switching those off is what already holds.
    pub(crate) fn new(disabled: &[String]) -> Self {
        let all = [
            Entry {
                name: "NamespaceLifecycle",
                plugin: Box::new(namespace_lifecycle::NamespaceLifecycle),
            },
            Entry { name: "Priority", plugin: Box::new(priority::Priority) },
        ];
        Self(all.into_iter().filter(|entry| !disabled.iter().any(|d| d == entry.name)).collect())
    }

    pub(crate) fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|entry| entry.plugin.mutate(attributes))
    }

    pub(crate) fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|entry| entry.plugin.validate(attributes))
    }
}
