//! Checks the expressions of a policy against the types that it matches.

use std::collections::BTreeSet;

use evenkeel::BoxError;
use evenkeel_cel::admission::Compiler;
use serde_json::{Value, json};

use super::types::{Gvk, Types};

/// The number of types of one rule at which no further types are checked.
const MAX_TYPES: usize = 10;

/// Numbers that make the names of types unique, where upstream uses the time.
pub(super) const OBJECT: u8 = 1;
pub(super) const PARAMS: u8 = 2;

/// Returns the warnings about the expressions in the spec of a policy.
pub(super) async fn warnings(client: &kube::Client, spec: &Value) -> Result<Vec<Value>, BoxError> {
    let mut types = Types::new(client);
    let mut objects = Vec::new();
    for gvk in matched(&mut types, spec).await? {
        if let Some(schema) = types.schema(&gvk, OBJECT).await? {
            objects.push((gvk, schema));
        }
    }
    let param_kind = &spec["paramKind"];
    let params = match (param_kind["apiVersion"].as_str(), param_kind["kind"].as_str()) {
        (Some(api_version), Some(kind)) => {
            types.schema(&Gvk::from_api_version(api_version, kind), PARAMS).await?
        }
        _ => None,
    };
    let mut compilers = Vec::new();
    for (gvk, schema) in objects {
        let compiler = Compiler::of_policy(!param_kind.is_null());
        let mut compiler = compiler.typed(schema, params.clone().flatten());
        for variable in spec["variables"].as_array().into_iter().flatten() {
            let text = |field: &str| variable[field].as_str().unwrap_or("");
            // One that does not compile is `dyn`.
            let _ = compiler.variable(text("name"), text("expression"));
        }
        compilers.push((gvk, compiler));
    }
    let mut warnings = Vec::new();
    for (at, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let Some(expression) = validation[field].as_str().filter(|it| !it.is_empty()) else {
                continue;
            };
            let failed = compilers.iter().filter_map(|(gvk, compiler)| {
                let invalid = compiler.check(expression).err()?;
                Some(format!("{gvk}: {invalid}\n"))
            });
            let failed: Vec<String> = failed.collect();
            if !failed.is_empty() {
                let field = format!("spec.validations[{at}].{field}");
                warnings.push(json!({"fieldRef": field, "warning": failed.join("\n")}));
            }
        }
    }
    Ok(warnings)
}

/// Returns the kinds that the rules of a policy name without wildcards, sorted.
async fn matched(types: &mut Types<'_>, spec: &Value) -> Result<BTreeSet<Gvk>, BoxError> {
    let mut found = BTreeSet::new();
    let rules = &spec["matchConstraints"]["resourceRules"];
    for rule in rules.as_array().into_iter().flatten() {
        let texts = |field: &str| {
            let list = rule[field].as_array().into_iter().flatten();
            let mut texts: Vec<String> =
                list.filter_map(Value::as_str).map(str::to_owned).collect();
            texts.sort();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|it| it.contains('*')) {
            continue;
        }
        let mut resources = texts("resources");
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    for kind in types.kinds(group, version, resource).await? {
                        found.insert(kind);
                        count += 1;
                        if count == MAX_TYPES {
                            return Ok(found);
                        }
                    }
                }
            }
        }
    }
    Ok(found)
}
