//! Decides whether the constraints of a policy or of a binding match a request.

use std::sync::Arc;

use serde_json::Value;

use super::super::rules::Rule;
use super::super::selection::{self, Selectors, requested, served_versions};
use crate::context::Attributes;
use crate::registry::resource::Resource;

/// Parsed `matchConstraints` or `matchResources`.
pub(super) struct MatchResources {
    selectors: Selectors,
    /// Match everything if empty.
    rules: Vec<NamedRule>,
    excluded: Vec<NamedRule>,
    /// Whether rules also match requests to other versions of their resources.
    equivalent: bool,
}

/// A rule that can be restricted to names.
struct NamedRule {
    rule: Rule,
    names: Vec<String>,
}

impl MatchResources {
    pub(super) fn parse(resources: &Value) -> Self {
        let rules = |field: &str| {
            let list = resources[field].as_array().into_iter().flatten();
            list.map(NamedRule::parse).collect()
        };
        Self {
            selectors: Selectors::parse(resources),
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            equivalent: resources["matchPolicy"] == "Equivalent",
        }
    }

    /// Returns the version of the resource that matches, or why that is not known.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
    ) -> Result<Option<Arc<Resource>>, String> {
        // Errors of selectors only count if everything else matches.
        let namespace = self.selectors.namespace_matches(attributes);
        let object = self.selectors.object_matches(attributes);
        if matches!(namespace, Ok(false)) || matches!(object, Ok(false)) {
            return Ok(None);
        }
        if self.first_match(&self.excluded, attributes).is_some() {
            return Ok(None);
        }
        let matched = match self.rules.is_empty() {
            true => Some(attributes.cx.resource.clone()),
            false => self.first_match(&self.rules, attributes),
        };
        let Some(matched) = matched else { return Ok(None) };
        for selector in [namespace, object] {
            selector.map_err(|status| status.message().to_owned())?;
        }
        Ok(Some(matched))
    }

    /// Returns the version of the resource that one of the rules matches.
    fn first_match(
        &self,
        rules: &[NamedRule],
        attributes: &Attributes<'_>,
    ) -> Option<Arc<Resource>> {
        let own = &attributes.cx.resource;
        if rules.iter().any(|rule| rule.matches(attributes, own)) {
            return Some(own.clone());
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = served_versions(attributes);
        rules
            .iter()
            .find_map(|rule| others.iter().find(|other| rule.matches(attributes, other)).cloned())
    }
}

impl NamedRule {
    fn parse(rule: &Value) -> Self {
        let names = rule["resourceNames"].as_array().into_iter().flatten();
        Self {
            rule: Rule::parse(rule),
            names: names.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, resource: &Resource) -> bool {
        let named = || {
            let name = selection::name(attributes);
            self.names.is_empty() || self.names.iter().any(|it| it == name)
        };
        self.rule.matches(requested(attributes, resource)) && named()
    }
}
