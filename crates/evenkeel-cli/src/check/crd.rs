//! Differences between two versions of a CRD that break existing objects or clients.

use serde_json::{Map, Value};

use super::Finding;

/// Compares the CRD in use with the next one.
pub(super) fn compare(old: &Value, new: &Value) -> Vec<Finding> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let mut findings = Vec::new();
    for field in ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"] {
        let (before, after) = (old.pointer(field), new.pointer(field));
        if before != after {
            let problem = format!("{} was changed: {}", &field[1..], change(before, after));
            findings.push(Finding::breaking(name, problem));
        }
    }
    for version in versions(old).filter(|it| it["served"] == true) {
        let label = version["name"].as_str().unwrap_or_default();
        let place = format!("{name} {label}");
        let next = versions(new).find(|it| it["name"] == version["name"] && it["served"] == true);
        let Some(next) = next else {
            findings.push(Finding::breaking(place, "the version is no longer served"));
            continue;
        };
        for subresource in ["status", "scale"] {
            let had = version["subresources"].get(subresource).is_some();
            if had && next["subresources"].get(subresource).is_none() {
                let problem = format!("the subresource {subresource} was removed");
                findings.push(Finding::breaking(&place, problem));
            }
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        schemas(&format!("{place}:"), &schema(version), &schema(next), &mut findings);
    }
    findings
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn change(before: Option<&Value>, after: Option<&Value>) -> String {
    let text = |value: Option<&Value>| value.map_or("unset".to_owned(), Value::to_string);
    format!("{} → {}", text(before), text(after))
}

/// Limits that must not become smaller, and those that must not become larger.
const UPPER: &[&str] = &["maximum", "maxLength", "maxItems", "maxProperties"];
const LOWER: &[&str] = &["minimum", "minLength", "minItems", "minProperties"];

fn schemas(place: &str, old: &Value, new: &Value, findings: &mut Vec<Finding>) {
    let mut add = |problem: String| findings.push(Finding::breaking(place, problem));
    for field in ["type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        let (before, after) = (old.get(field), new.get(field));
        // A pattern or format that is removed allows more.
        let removed = after.is_none() && ["format", "pattern"].contains(&field);
        if before != after && !removed {
            add(format!("{field} was changed: {}", change(before, after)));
        }
    }
    for (limits, tighter) in
        [(UPPER, std::cmp::Ordering::Less), (LOWER, std::cmp::Ordering::Greater)]
    {
        for limit in limits {
            let Some(after) = new.get(*limit).and_then(Value::as_f64) else { continue };
            let before = old.get(*limit).and_then(Value::as_f64);
            if before.is_none_or(|before| after.partial_cmp(&before) == Some(tighter)) {
                add(format!("{limit} was tightened: {}", change(old.get(*limit), new.get(*limit))));
            }
        }
    }
    if old["nullable"] == true && new["nullable"] != true {
        add("null is no longer allowed".to_owned());
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if old[preserve] == true && new[preserve] != true {
        add("unknown fields are no longer kept".to_owned());
    }
    if let Some(allowed) = new["enum"].as_array() {
        match old["enum"].as_array() {
            None => add("the values were restricted by an enum".to_owned()),
            Some(before) => {
                for value in before.iter().filter(|value| !allowed.contains(value)) {
                    add(format!("the value {value} was removed from the enum"));
                }
            }
        }
    }
    let listed = |schema: &Value, name: &str| {
        schema["required"].as_array().is_some_and(|it| it.iter().any(|field| field == name))
    };
    for name in new["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let default = new["properties"][name].get("default");
        if !listed(old, name) && default.is_none() {
            add(format!("{name} became required"));
        }
    }
    let rules = |schema: &Value| {
        let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
        rules.into_iter().filter_map(|it| Some(it["rule"].as_str()?.to_owned())).collect::<Vec<_>>()
    };
    let known = rules(old);
    for rule in rules(new).into_iter().filter(|rule| !known.contains(rule)) {
        findings.push(Finding::warning(place, format!("the rule {rule:?} was added")));
    }
    let empty = Map::new();
    let properties = |schema: &Value| schema["properties"].as_object().cloned();
    let (before, after) = (properties(old), properties(new).unwrap_or(empty));
    for (name, old) in before.unwrap_or_default() {
        match after.get(&name) {
            Some(new) => schemas(&format!("{place}.{name}"), &old, new, findings),
            None if new["additionalProperties"].is_object() => {}
            None => {
                let problem = "the field was removed; its values are lost with the next write";
                findings.push(Finding::breaking(format!("{place}.{name}"), problem));
            }
        }
    }
    for (field, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if old[field].is_object() && new[field].is_object() {
            schemas(&format!("{place}{mark}"), &old[field], &new[field], findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(spec: &Value) -> Value {
        json!({
            "metadata": {"name": "webs.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Web", "plural": "webs"},
                "versions": [{
                    "name": "v1", "served": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        })
    }

    /// Returns what changes between two schemas of the spec.
    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let findings = compare(&crd(old), &crd(new));
        let place = |it: &Finding| it.place.trim_start_matches("webs.example.com v1:").to_owned();
        findings.iter().map(|it| format!("{} {}", place(it), it.problem)).collect()
    }

    #[test]
    fn only_restrictions_of_a_schema_break_objects() {
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let old = object(json!({
            "replicas": {"type": "integer", "maximum": 10},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "ports": {"type": "array", "items": {"type": "integer"}},
        }));
        assert_eq!(changes(&old, &old), Vec::<String>::new());
        let wider = object(json!({
            "replicas": {"type": "integer", "maximum": 20},
            "mode": {"type": "string", "enum": ["a", "b", "c"]},
            "ports": {"type": "array", "items": {"type": "integer"}},
            "paused": {"type": "boolean"},
        }));
        assert_eq!(changes(&old, &wider), Vec::<String>::new());
        let narrower = json!({
            "type": "object",
            "required": ["mode", "size"],
            "properties": {
                "mode": {"type": "string", "enum": ["a"]},
                "ports": {"type": "array", "items": {"type": "string"}},
                "size": {"type": "integer", "default": 1},
            },
        });
        assert_eq!(
            changes(&old, &narrower),
            [
                ".spec mode became required",
                ".spec.mode the value \"b\" was removed from the enum",
                ".spec.ports[] type was changed: \"integer\" → \"string\"",
                ".spec.replicas the field was removed; its values are lost with the next write",
            ]
        );
        let replicas = |maximum: u32| object(json!({"replicas": {"maximum": maximum}}));
        let tightened = changes(&replicas(10), &replicas(5));
        assert_eq!(tightened, [".spec.replicas maximum was tightened: 10 → 5"]);
    }

    #[test]
    fn removed_versions_and_subresources_are_found() {
        let old = crd(&json!({}));
        let mut new = old.clone();
        new["spec"]["versions"][0]["subresources"] = json!({});
        new["spec"]["scope"] = "Cluster".into();
        let problems: Vec<_> = compare(&old, &new).into_iter().map(|it| it.problem).collect();
        assert_eq!(
            problems,
            [
                "spec/scope was changed: \"Namespaced\" → \"Cluster\"",
                "the subresource status was removed",
            ]
        );
        new["spec"]["versions"][0]["served"] = false.into();
        assert!(compare(&old, &new).iter().any(|it| it.problem.contains("no longer served")));
    }
}
