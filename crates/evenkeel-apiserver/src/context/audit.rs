//! What the audit trail records of a request besides the request itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The audit annotations of a request, in the extensions of its response.
///
/// Admission webhooks add them; the keys are those of kube-apiserver, such as
/// `<webhook>/<annotation>` and `mutation.webhook.admission.k8s.io/round_0_index_0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditAnnotations(BTreeMap<String, String>);

impl AuditAnnotations {
    /// Returns the value of an annotation.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Iterates over the annotations, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Returns whether there are no annotations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Collects the audit annotations of a request.
#[derive(Clone, Default)]
pub(crate) struct AuditTrail(Arc<Mutex<BTreeMap<String, String>>>);

impl AuditTrail {
    /// Adds an annotation; an existing one is kept, as upstream does.
    pub(crate) fn annotate(&self, key: String, value: String) {
        self.0.lock().entry(key).or_insert(value);
    }

    /// Returns the annotations, if there are any.
    pub(crate) fn take(&self) -> Option<AuditAnnotations> {
        let annotations = std::mem::take(&mut *self.0.lock());
        (!annotations.is_empty()).then_some(AuditAnnotations(annotations))
    }
}
