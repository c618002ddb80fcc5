//! Columns of webhook configurations and admission policies.

use serde_json::Value;

use super::text::{UNSET, age, count, list, name, str};
use super::{AGE, Column, NAME, Printer};

const PARAM_KIND: Column = Column::text("ParamKind", "Kind of the policy's parameters.");

pub(super) const WEBHOOK_CONFIGURATION: Printer = Printer {
    columns: &[NAME, Column::integer("Webhooks", "Webhooks in the configuration."), AGE],
    cells: |object, now| cells![name(object), count(&object["webhooks"]), age(object, now)],
};

pub(super) const VALIDATING_POLICY: Printer = Printer {
    columns: &[NAME, Column::integer("Validations", "Rules of the policy."), PARAM_KIND, AGE],
    cells: |object, now| policy(object, "validations", now),
};

pub(super) const MUTATING_POLICY: Printer = Printer {
    columns: &[NAME, Column::integer("Mutations", "Changes the policy makes."), PARAM_KIND, AGE],
    cells: |object, now| policy(object, "mutations", now),
};

pub(super) const POLICY_BINDING: Printer = Printer {
    columns: &[
        NAME,
        Column::text("PolicyName", "Policy that is bound."),
        Column::text("ParamRef", "Parameters of the policy."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            str(&spec["policyName"]),
            param_ref(&spec["paramRef"]),
            age(object, now),
        ]
    },
};

fn policy(object: &Value, rules: &str, now: i64) -> Vec<Value> {
    let param_kind = match &object["spec"]["paramKind"] {
        Value::Null => UNSET.to_owned(),
        kind => format!("{}/{}", str(&kind["apiVersion"]), str(&kind["kind"])),
    };
    cells![name(object), count(&object["spec"][rules]), param_kind, age(object, now)]
}

/// Prints a parameter reference. Its scope is unknown here, so a missing namespace prints as `*`.
fn param_ref(reference: &Value) -> String {
    match (str(&reference["namespace"]), str(&reference["name"]), &reference["selector"]) {
        (_, "", Value::Null) => UNSET.to_owned(),
        (_, "", selector) => go_selector(selector),
        ("", name, _) => format!("*/{name}"),
        (namespace, name, _) => format!("{namespace}/{name}"),
    }
}

/// Prints a selector like Go's generated message types, which is what upstream returns to clients.
fn go_selector(selector: &Value) -> String {
    let mut text = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    let mut labels: Vec<_> = selector["matchLabels"].as_object().into_iter().flatten().collect();
    labels.sort_unstable_by_key(|&(key, _)| key);
    for (key, value) in labels {
        text.push_str(&format!("{key}: {},", str(value)));
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in list(&selector["matchExpressions"]) {
        let values: Vec<_> = list(&expression["values"]).iter().map(str).collect();
        text.push_str(&format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            str(&expression["key"]),
            str(&expression["operator"]),
            values.join(" "),
        ));
    }
    text.push_str("},}");
    text
}
