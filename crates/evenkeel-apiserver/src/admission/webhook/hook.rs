//! One webhook of a configuration, parsed.

use std::time::Duration;

use evenkeel_cel::admission::{Compiler, MatchConditions};
use serde_json::Value;

use super::super::expressions;
use super::super::rules::Rule;
use super::super::selection::Selectors;
use crate::webhook::Target;

/// A webhook.
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) configuration: String,
    pub(super) rules: Vec<Rule>,
    /// Whether the rules also match requests to other versions of their resources.
    pub(super) equivalent: bool,
    pub(super) selectors: Selectors,
    /// Whether requests continue if the call fails.
    pub(super) ignores_failures: bool,
    pub(super) timeout: Duration,
    /// Whether it is called again if a later webhook changes the object.
    pub(super) reinvoked: bool,
    pub(super) side_effects: Option<String>,
    /// The first version of reviews that the server supports.
    pub(super) review: Option<ReviewVersion>,
    pub(super) target: Result<Target, String>,
    pub(super) conditions: MatchConditions,
}

/// The versions of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl Hook {
    /// Parses a webhook of a valid configuration.
    pub(super) fn parse(configuration: &str, hook: &Value) -> Self {
        let text = |field: &str| hook[field].as_str().unwrap_or("");
        let list = |field: &str| hook[field].as_array().into_iter().flatten();
        let review = list("admissionReviewVersions").find_map(|version| match version.as_str() {
            Some("v1") => Some(ReviewVersion::V1),
            Some("v1beta1") => Some(ReviewVersion::V1beta1),
            _ => None,
        });
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(10);
        Self {
            name: text("name").to_owned(),
            configuration: configuration.to_owned(),
            rules: list("rules").map(Rule::parse).collect(),
            equivalent: text("matchPolicy") == "Equivalent",
            selectors: Selectors::parse(hook),
            ignores_failures: text("failurePolicy") == "Ignore",
            timeout: Duration::from_secs(seconds),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            side_effects: hook["sideEffects"].as_str().map(str::to_owned),
            review,
            target: Target::parse(&hook["clientConfig"]),
            conditions: expressions::match_conditions(&Compiler::new(false), hook),
        }
    }
}
