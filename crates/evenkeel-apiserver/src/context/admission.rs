//! The admission plugins of a server, in the order they run. The plugins themselves are in
//! `admission/`.

use std::collections::HashSet;
use std::hash::Hash;

use evenkeel_types::Gvk;
use serde_json::Value;

use super::{HookFuture, RequestContext, Reservation};
use crate::object::Metadata as _;
use crate::request::delete_options::DeleteOptions;
use crate::status::Status;

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// The attributes of a request that plugins read.
pub(crate) struct Attributes<'a> {
    pub(crate) cx: &'a RequestContext,
    pub(crate) operation: Operation,
    /// The kind of the object: that of the resource or of its subresource, such as Scale.
    pub(crate) kind: Gvk<'a>,
    /// The object to be stored, or the body of a subresource; `None` on delete.
    pub(crate) object: Option<&'a mut Value>,
    /// The stored object; `None` on create.
    pub(crate) old: Option<&'a Value>,
    /// The options of a delete.
    pub(crate) delete_options: Option<&'a DeleteOptions>,
    /// Whether nothing is stored.
    pub(crate) dry_run: bool,
    pub(crate) reinvocation: Reinvocation,
}

/// What admission has reserved for a write, if anything.
pub(crate) type Reserved = Option<Box<dyn Reservation>>;

/// What a second run of mutating admission does: plugins run again if a policy or a webhook has
/// changed the object, and with them the policies and webhooks that request it.
#[derive(Default)]
pub(crate) struct Reinvocation {
    /// Whether the plugins run a second time.
    pub(crate) is_reinvocation: bool,
    /// Whether a policy or a webhook has changed the object.
    pub(crate) requested: bool,
    /// The webhooks, by their position.
    pub(crate) webhooks: Repeated<usize>,
    /// The policies, by their name, their binding and their parameters.
    pub(crate) policies: Repeated<String>,
}

/// What one plugin calls again in the second run.
pub(crate) struct Repeated<K> {
    /// What was called and is called again if something else changes the object.
    called: HashSet<K>,
    /// What to call in the second run.
    again: HashSet<K>,
    /// The object after the first run of the plugin.
    pub(crate) last_output: Option<Value>,
}

impl<K> Default for Repeated<K> {
    fn default() -> Self {
        Self { called: HashSet::new(), again: HashSet::new(), last_output: None }
    }
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(
        cx: &'a RequestContext,
        operation: Operation,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
    ) -> Self {
        Self {
            cx,
            operation,
            kind: cx.resource.gvk_of(cx.subresource.as_deref()),
            object,
            old,
            delete_options: None,
            dry_run: cx.is_dry_run(),
            reinvocation: Reinvocation::default(),
        }
    }

    /// Returns the name of the object in errors. A name that is not generated yet is shown as its
    /// prefix.
    pub(crate) fn name(&self) -> &str {
        let object = self.object.as_deref();
        let names = [
            self.cx.name(),
            object.map_or("", |object| object.meta_str("name")),
            object.map_or("", |object| object.meta_str("generateName")),
        ];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }

    /// Returns the error of a rejected write.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(self.cx.resource.group_resource(), self.name(), why)
    }
}

impl<K: Eq + Hash> Repeated<K> {
    /// Records a call that is repeated if needed.
    pub(crate) fn add_called(&mut self, key: K) {
        self.called.insert(key);
    }

    /// Repeats the calls until now.
    pub(crate) fn repeat_called(&mut self) {
        self.again.extend(self.called.drain());
    }

    /// Returns whether a call is repeated in the second run.
    pub(crate) fn repeats(&self, key: &K) -> bool {
        self.again.contains(key)
    }
}

/// An admission plugin. All methods do nothing by default. Plugins that wait for something
/// implement the methods that return a future; `None` if there is nothing to do, so that other
/// requests allocate nothing.
pub(crate) trait Plugin: Send + Sync {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    fn mutate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a mut Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let _ = attributes;
        None
    }

    fn validate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let _ = attributes;
        None
    }

    /// Reserves what the write uses. Runs after all plugins have validated it.
    fn reserve<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> Option<HookFuture<'a, Result<Reserved, Status>>> {
        let _ = attributes;
        None
    }
}

/// The enabled plugins, in the order they run.
pub(crate) struct Chain(Vec<Box<dyn Plugin>>);

impl Chain {
    pub(crate) fn new(plugins: Vec<Box<dyn Plugin>>) -> Self {
        Self(plugins)
    }

    /// Runs mutating admission, twice if a webhook has changed the object.
    pub(crate) async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.mutate_once(attributes).await?;
        if attributes.reinvocation.requested {
            attributes.reinvocation.is_reinvocation = true;
            self.mutate_once(attributes).await?;
        }
        Ok(())
    }

    async fn mutate_once(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        for plugin in &self.0 {
            plugin.mutate(attributes)?;
            if let Some(future) = plugin.mutate_async(attributes) {
                future.await?;
            }
        }
        Ok(())
    }

    /// Runs validating admission.
    pub(crate) async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        for plugin in &self.0 {
            plugin.validate(attributes)?;
            if let Some(future) = plugin.validate_async(attributes) {
                future.await?;
            }
        }
        Ok(())
    }

    /// Reserves what the write uses, once it is valid.
    pub(crate) async fn reserve(&self, attributes: &Attributes<'_>) -> Result<Reserved, Status> {
        for plugin in &self.0 {
            if let Some(reserve) = plugin.reserve(attributes) {
                return reserve.await;
            }
        }
        Ok(None)
    }
}
