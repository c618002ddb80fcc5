//! Field selectors: the supported fields of each kind, and their values.
//!
//! The list and watch handlers check a selector's labels with [`resolve`] when they parse the
//! request and compare [`value`]s for every object. Values are compared as text, so an absent field
//! has a value: its zero value as text.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use evenkeel_types::Gvk;
use serde_json::Value;

/// A field label that the kind does not support. Displays upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

/// Returns the field labels that the kind supports.
///
/// Some cluster-scoped kinds do not support `metadata.namespace`, others accept it without effect.
pub fn labels(gvk: Gvk<'_>) -> &'static [&'static str] {
    match (gvk.group, gvk.kind) {
        ("", "Event") => &[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "metadata.name",
            "metadata.namespace",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "Namespace") => &["metadata.name", "status.phase"],
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.host",
            "spec.hostNetwork",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.nominatedNodeName",
            "status.phase",
            "status.podIP",
            "status.podIPs",
        ],
        ("", "ReplicationController") => {
            &["metadata.name", "metadata.namespace", "status.replicas"]
        }
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => {
            &["metadata.name", "spec.signerName"]
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            &["metadata.name", "spec.nodeName", "spec.podName", "spec.signerName"]
        }
        ("events.k8s.io", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "reason",
            "regarding.apiVersion",
            "regarding.fieldPath",
            "regarding.kind",
            "regarding.name",
            "regarding.namespace",
            "regarding.resourceVersion",
            "regarding.uid",
            "reportingController",
            "type",
        ],
        ("resource.k8s.io", "ResourceSlice") => &["metadata.name", "spec.driver", "spec.nodeName"],
        _ => METADATA,
    }
}

/// Returns the supported label equal to `label`, or the error for an unsupported one.
pub fn resolve(gvk: Gvk<'_>, label: &str) -> Result<&'static str, Unsupported> {
    let supported = labels(gvk).iter().find(|&&supported| supported == label);
    supported.copied().ok_or_else(|| {
        Unsupported(match (gvk.group, gvk.kind) {
            ("batch", "Job") => format!("field label {label:?} not supported for Job"),
            ("resource.k8s.io", "ResourceSlice") => {
                format!("field label not supported for {gvk}: {label}")
            }
            _ if labels(gvk) != METADATA => format!("field label not supported: {label}"),
            _ => format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \
                 \"metadata.namespace\""
            ),
        })
    })
}

/// Returns the name of a supported label in the storage version of the kind.
///
/// Events are stored in the core group, where some fields have other names.
pub fn storage_label(gvk: Gvk<'_>, label: &str) -> Result<&'static str, Unsupported> {
    let label = resolve(gvk, label)?;
    if (gvk.group, gvk.kind) != ("events.k8s.io", "Event") {
        return Ok(label);
    }
    Ok(match label {
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "regarding.kind" => "involvedObject.kind",
        "regarding.name" => "involvedObject.name",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.uid" => "involvedObject.uid",
        "reportingController" => "reportingComponent",
        same => same,
    })
}

/// Returns the value of a label for one object; `None` if the label is not supported.
pub fn value<'a>(gvk: Gvk<'_>, label: &str, object: &'a Value) -> Option<Cow<'a, str>> {
    resolve(gvk, label).ok()?;
    let value = match (gvk.group, gvk.kind, label) {
        (_, _, "metadata.name") => text(&object["metadata"]["name"]),
        (_, _, "metadata.namespace") => text(&object["metadata"]["namespace"]),
        ("", "Pod", _) => pod_value(label, object),
        ("", "Node", "spec.unschedulable") => flag(&object["spec"]["unschedulable"]),
        ("", "ReplicationController", "status.replicas") => number(&object["status"]["replicas"]),
        ("batch", "Job", "status.successful") => number(&object["status"]["succeeded"]),
        ("", "Event", "source") => match text(&object["source"]["component"]) {
            unset if unset.is_empty() => text(&object["reportingComponent"]),
            component => component,
        },
        _ => text(label.split('.').fold(object, |parent, field| &parent[field])),
    };
    Some(value)
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

fn pod_value<'a>(label: &str, pod: &'a Value) -> Cow<'a, str> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    match label {
        // The name of this label in early releases.
        "spec.host" | "spec.nodeName" => text(&spec["nodeName"]),
        "spec.hostNetwork" => flag(&spec["hostNetwork"]),
        "spec.restartPolicy" => text(&spec["restartPolicy"]),
        "spec.schedulerName" => text(&spec["schedulerName"]),
        "spec.serviceAccountName" => text(&spec["serviceAccountName"]),
        "status.nominatedNodeName" => text(&status["nominatedNodeName"]),
        "status.phase" => text(&status["phase"]),
        "status.podIP" => match text(&status["podIP"]) {
            unset if unset.is_empty() => text(&status["podIPs"][0]["ip"]),
            ip => ip,
        },
        // Accepted as a label, but no pod has a value for it.
        _ => Cow::Borrowed(""),
    }
}

fn text(field: &Value) -> Cow<'_, str> {
    Cow::Borrowed(field.as_str().unwrap_or_default())
}

fn flag(field: &Value) -> Cow<'_, str> {
    Cow::Borrowed(if field.as_bool().unwrap_or_default() { "true" } else { "false" })
}

fn number(field: &Value) -> Cow<'_, str> {
    Cow::Owned(field.as_i64().unwrap_or_default().to_string())
}
