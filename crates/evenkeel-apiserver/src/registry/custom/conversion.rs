//! How the objects of a CRD are converted between its versions.

use serde_json::Value;

use crate::object::Metadata as _;
use crate::webhook::Target;

/// The conversion webhook of a CRD.
pub(crate) struct Conversion {
    /// The name of the CRD.
    pub(crate) crd: String,
    pub(crate) target: Result<Target, String>,
    /// The first version of reviews that the server supports.
    pub(crate) review: Option<&'static str>,
}

impl Conversion {
    /// Returns the webhook of a CRD that has one. Without it, only `apiVersion` differs between
    /// versions.
    pub(super) fn of(crd: &Value) -> Option<Self> {
        let conversion = &crd["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array();
        let review = versions.into_iter().flatten().find_map(|version| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        });
        Some(Self {
            crd: crd.meta_str("name").to_owned(),
            target: Target::parse(&webhook["clientConfig"]),
            review,
        })
    }
}
