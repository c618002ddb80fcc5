//! The behavior annotation. It contains the internal type, whose field names are capitalized.

use serde_json::Value;

use super::annotation::{Fields, compact, object};
use crate::convert::go_json::{Object, array};

/// Parses the annotation to the v2 behavior; `None` if it is empty.
pub(super) fn from_v1(json: &str) -> Option<Value> {
    let behavior = object(json, |behavior| {
        Some(compact([
            ("scaleUp", behavior.optional("ScaleUp", rules)?),
            ("scaleDown", behavior.optional("ScaleDown", rules)?),
        ]))
    })?;
    behavior.as_object().is_some_and(|rules| !rules.is_empty()).then_some(behavior)
}

pub(super) fn to_v1(behavior: &Value) -> String {
    Object::new()
        .raw("ScaleUp", &rules_to_v1(&behavior["scaleUp"]))
        .raw("ScaleDown", &rules_to_v1(&behavior["scaleDown"]))
        .end()
}

fn rules(rules: Fields<'_>) -> Option<Value> {
    Some(compact([
        ("stabilizationWindowSeconds", rules.optional_int("StabilizationWindowSeconds")?),
        ("selectPolicy", rules.optional_string("SelectPolicy")?),
        ("policies", rules.list("Policies", policy)?),
        ("tolerance", rules.optional_quantity("Tolerance")?),
    ]))
}

fn policy(policy: Fields<'_>) -> Option<Value> {
    Some(compact([
        ("type", policy.string("Type")?),
        ("value", policy.int("Value")?),
        ("periodSeconds", policy.int("PeriodSeconds")?),
    ]))
}

fn rules_to_v1(rules: &Value) -> String {
    if rules.is_null() {
        return "null".to_owned();
    }
    let policies = match rules["policies"].as_array() {
        None => "null".to_owned(),
        Some(policies) => {
            let policies: Vec<_> = policies
                .iter()
                .map(|policy| {
                    Object::new()
                        .string("Type", &policy["type"])
                        .value("Value", &policy["value"])
                        .value("PeriodSeconds", &policy["periodSeconds"])
                        .end()
                })
                .collect();
            array(&policies)
        }
    };
    Object::new()
        .value("StabilizationWindowSeconds", &rules["stabilizationWindowSeconds"])
        .value("SelectPolicy", &rules["selectPolicy"])
        .raw("Policies", &policies)
        .value("Tolerance", &rules["tolerance"])
        .end()
}
