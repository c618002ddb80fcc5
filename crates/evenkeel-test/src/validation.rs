//! Evaluates the validation rules of a CRD against samples, without a server.

use std::fmt;

use evenkeel::manifest;
use evenkeel_schema::{RuleFailure, Structural};
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::fail;

/// The validation rules (`x-kubernetes-validations`) of a CRD.
///
/// ```
/// use evenkeel::prelude::*;
/// use evenkeel_test::ValidationRules;
/// use kube::KubeSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
/// #[kube(group = "example.com", version = "v1", kind = "Cache", namespaced)]
/// #[x_kube(validation = ("self.min <= self.max", "min exceeds max"))]
/// struct CacheSpec {
///     min: i32,
///     max: i32,
/// }
///
/// let rules = ValidationRules::of::<Cache>();
/// rules.check(&Cache::new("a", CacheSpec { min: 1, max: 3 })).unwrap();
/// let failures = rules.check(&Cache::new("a", CacheSpec { min: 5, max: 3 })).unwrap_err();
/// assert_eq!(
///     failures.to_string(),
///     "spec: min exceeds max (self.min <= self.max is false: self.min = 5, self.max = 3)"
/// );
/// ```
#[derive(Debug)]
pub struct ValidationRules {
    /// The versions of the CRD with their schemas.
    versions: Vec<(String, Structural)>,
}

/// The rules that an object does not fulfil.
#[derive(Debug)]
pub struct RuleFailures(pub Vec<RuleFailure>);

impl fmt::Display for RuleFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, failure) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{failure}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleFailures {}

impl ValidationRules {
    /// Compiles the rules of the CRD of `K`.
    ///
    /// # Panics
    /// If API servers reject the CRD, with their errors.
    #[must_use]
    pub fn of<K: CustomResourceExt>() -> Self {
        let crd = K::crd();
        if let Err(error) = manifest::check_crd(&crd) {
            fail(&error.to_string());
        }
        let group = &crd.spec.group;
        let versions = crd.spec.versions.iter().filter_map(|version| {
            let schema = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
            let schema = serde_json::to_value(schema).ok()?;
            let compiled = Structural::compile(&schema).ok()?;
            Some((format!("{group}/{}", version.name), compiled))
        });
        Self { versions: versions.collect() }
    }

    /// Evaluates the rules against an object that is created.
    ///
    /// # Errors
    /// If a rule fails.
    ///
    /// # Panics
    /// If the object cannot be serialized, or is not of a version of the CRD.
    pub fn check(&self, object: &impl Serialize) -> Result<(), RuleFailures> {
        self.evaluate(&to_json(object), None)
    }

    /// Evaluates the rules against an update of an object, with transition rules.
    ///
    /// # Errors
    /// If a rule fails.
    ///
    /// # Panics
    /// If an object cannot be serialized, or is not of a version of the CRD.
    pub fn check_update(
        &self,
        old: &impl Serialize,
        new: &impl Serialize,
    ) -> Result<(), RuleFailures> {
        self.evaluate(&to_json(new), Some(&to_json(old)))
    }

    fn evaluate(&self, object: &Value, old: Option<&Value>) -> Result<(), RuleFailures> {
        let version = object["apiVersion"].as_str().unwrap_or("");
        let schema = self.versions.iter().find(|(known, _)| known == version);
        let Some((_, schema)) = schema else {
            fail(&format!("{version:?} is not a version of the CRD"));
        };
        let defaulted = |object: &Value| {
            let mut object = object.clone();
            schema.default(&mut object);
            object
        };
        let (object, old) = (defaulted(object), old.map(defaulted));
        let failures = schema.explain_rules(&object, old.as_ref());
        if failures.is_empty() { Ok(()) } else { Err(RuleFailures(failures)) }
    }
}

fn to_json(object: &impl Serialize) -> Value {
    match serde_json::to_value(object) {
        Ok(object) => object,
        Err(error) => fail(&format!("cannot serialize the object: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::prelude::*;
    use kube::KubeSchema;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;

    #[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Pool", namespaced)]
    #[x_kube(validation = "self.members.all(m, m.weight <= 10)")]
    #[x_kube(
        validation = ("size(self.members) >= size(oldSelf.members)", "members cannot be removed")
    )]
    struct PoolSpec {
        #[schemars(length(max = 5))]
        members: Vec<Member>,
    }

    #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
    struct Member {
        weight: i64,
    }

    fn pool(weights: &[i64]) -> Pool {
        let members = weights.iter().map(|weight| Member { weight: *weight }).collect();
        Pool::new("p", PoolSpec { members })
    }

    #[test]
    fn failures_name_the_element_and_its_value() {
        let rules = ValidationRules::of::<Pool>();
        rules.check(&pool(&[1, 10])).unwrap();
        let failures = rules.check(&pool(&[1, 20, 30])).unwrap_err();
        assert_eq!(
            failures.to_string(),
            "spec: failed rule: self.members.all(m, m.weight <= 10) (self.members.all(m, m.weight \
             <= 10) is false: self.members[1] = {\"weight\":20})"
        );
    }

    #[test]
    fn transition_rules_compare_with_the_old_object() {
        let rules = ValidationRules::of::<Pool>();
        rules.check_update(&pool(&[1]), &pool(&[1, 2])).unwrap();
        let failures = rules.check_update(&pool(&[1, 2]), &pool(&[1])).unwrap_err();
        assert_eq!(
            failures.to_string(),
            "spec: members cannot be removed (size(self.members) >= size(oldSelf.members) is \
             false: size(self.members) = 1, size(oldSelf.members) = 2)"
        );
    }
}
