//! Events about the reconciled object.

use super::Context;
use crate::events::{NewEvent, reference};
use crate::kind::AnyObject;

impl<K: AnyObject> Context<K> {
    /// Records an event of type Normal about the reconciled object.
    ///
    /// `reason` is one word in CamelCase, `note` a sentence. Repeats are merged into a series. The
    /// call does not block, and a failure to write the event is only logged.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # fn example(cx: &Context<Pod>) -> Result<()> {
    /// cx.event("Scaled", "scaled from 2 to 3 replicas");
    /// # Ok(())
    /// # }
    /// ```
    pub fn event(&self, reason: &str, note: &str) {
        self.record_event(NewEvent::normal(reason, note));
    }

    /// Records an event of type Warning; otherwise as [`event`](Context::event).
    pub fn warning_event(&self, reason: &str, note: &str) {
        self.record_event(NewEvent::warning(reason, note));
    }

    /// Records an event with an action or a related object; otherwise as [`event`](Context::event).
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::{Node, Pod};
    /// use evenkeel::{NewEvent, object_reference};
    ///
    /// # fn example(cx: &Context<Pod>, node: &Node) {
    /// let event = NewEvent::warning("Evicted", "The node was low on memory");
    /// cx.record_event(event.action("Evict").related(object_reference(node)));
    /// # }
    /// ```
    pub fn record_event(&self, event: NewEvent) {
        let meta = self.object.as_ref().map(|object| object.meta());
        let uid = meta.and_then(|meta| meta.uid.clone());
        let version = meta.and_then(|meta| meta.resource_version.clone());
        let regarding = reference(&self.kind, &self.key, uid, version);
        self.event_recorder.record(&regarding, event);
    }
}
