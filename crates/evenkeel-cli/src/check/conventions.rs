//! The API conventions of Kubernetes that a CRD can be checked for.

use serde_json::Value;

use super::Finding;

/// Returns where a CRD differs from the conventions. Nothing of it is breaking: API servers accept it.
pub(super) fn check(crd: &Value) -> Vec<Finding> {
    let name = text(crd, "/metadata/name");
    let mut findings = Vec::new();
    names(name, crd, &mut findings);
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    for version in versions.into_iter().flatten().filter(|it| it["served"] == true) {
        let place = format!("{name} {}", text(version, "/name"));
        self::version(&place, version, &mut findings);
    }
    findings
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn names(place: &str, crd: &Value, findings: &mut Vec<Finding>) {
    let mut add = |problem: String| findings.push(Finding::warning(place, problem));
    let kind = text(crd, "/spec/names/kind");
    let is_pascal = kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_pascal {
        add(format!("the kind {kind} is not in PascalCase"));
    }
    for field in ["plural", "singular"] {
        let name = text(crd, &format!("/spec/names/{field}"));
        if !name.is_empty() && !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) {
            add(format!("the {field} name {name} does not consist of lower-case letters"));
        }
    }
    for (field, what) in [("shortNames", "short name"), ("categories", "category")] {
        let names = crd.pointer(&format!("/spec/names/{field}")).and_then(Value::as_array);
        let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
        for (index, name) in names.iter().enumerate() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(plain) {
                add(format!("the {what} {name:?} does not consist of lower-case letters"));
            }
            let own = [text(crd, "/spec/names/plural"), text(crd, "/spec/names/singular")];
            if names[..index].contains(name) || field == "shortNames" && own.contains(name) {
                add(format!("the {what} {name} is a name of the resource already"));
            }
        }
    }
}

fn version(place: &str, version: &Value, findings: &mut Vec<Finding>) {
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut add = |problem: &str| findings.push(Finding::warning(place, problem));
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        add("unknown fields are kept at the root, so misspelled fields are not noticed");
    }
    if schema["properties"].get("spec").is_none() {
        add("there is no spec");
    }
    let status = schema["properties"].get("status");
    if status.is_none() {
        add("there is no status, so users do not see what the operator did");
    } else if version["subresources"].get("status").is_none() {
        add("the status is no subresource, so users can change it and it changes the generation");
    }
    let columns = version["additionalPrinterColumns"].as_array();
    let is_age = |column: &Value| column["jsonPath"] == ".metadata.creationTimestamp";
    if columns.is_some_and(|columns| !columns.is_empty() && !columns.iter().any(is_age)) {
        add("there is no printer column Age, which is shown only if there are no other columns");
    }
    if let Some(conditions) = status.and_then(|it| it.pointer("/properties/conditions")) {
        let keys = conditions["x-kubernetes-list-map-keys"].as_array();
        let is_type = |keys: &Vec<Value>| keys.len() == 1 && keys[0] == "type";
        if conditions["x-kubernetes-list-type"] != "map" || !keys.is_some_and(is_type) {
            let problem = "conditions are not a list of type map with the key type, so a server-side \
                           apply replaces those of other field managers";
            findings.push(Finding::warning(format!("{place}:.status.conditions"), problem));
        }
    }
    for field in ["spec", "status"] {
        if let Some(found) = schema["properties"].get(field) {
            fields(&format!("{place}:.{field}"), found, findings);
        }
    }
}

/// The fields of the type Condition of Kubernetes.
const CONDITION: &[&str] =
    &["lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"];

/// Checks a field and the fields below it.
fn fields(place: &str, schema: &Value, findings: &mut Vec<Finding>) {
    if schema["type"] == "number" {
        let problem = "floating-point numbers are not the same in all clients; use an integer or a \
                       quantity";
        findings.push(Finding::warning(place, problem));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        if !is_camel_case(name) {
            findings.push(Finding::warning(&place, "the name is not in camelCase"));
        }
        // Those of the type Condition are documented by Kubernetes.
        let standard = place.ends_with(&format!(".conditions[].{name}"));
        let standard = standard && CONDITION.contains(&&**name);
        if text(field, "/description").is_empty() && !standard {
            findings.push(Finding::warning(&place, "there is no description"));
        }
        fields(&place, field, findings);
    }
    for (field, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[field].is_object() {
            fields(&format!("{place}{mark}"), &schema[field], findings);
        }
    }
}

fn is_camel_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a CRD without findings.
    fn crd() -> Value {
        let text = json!({"type": "string", "description": "A text."});
        json!({
            "metadata": {"name": "webs.example.com"},
            "spec": {
                "names": {
                    "kind": "Web", "plural": "webs", "singular": "web", "shortNames": ["wb"],
                    "categories": ["all"],
                },
                "versions": [{
                    "name": "v1", "served": true, "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": "Host", "jsonPath": ".spec.hostName"},
                        {"name": "Age", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"hostName": text}},
                        "status": {"type": "object", "properties": {"conditions": {
                            "type": "array", "description": "The conditions.",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": {"type": "object", "properties": {"type": text}},
                        }}},
                    }}},
                }],
            },
        })
    }

    /// Returns what is found after a change of the CRD.
    fn found(change: impl Fn(&mut Value)) -> Vec<String> {
        let mut crd = crd();
        change(&mut crd);
        check(&crd).into_iter().map(|it| format!("{}: {}", it.place, it.problem)).collect()
    }

    #[test]
    fn each_convention_is_checked() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let set = |pointer: &str, key: &str, value: Value| {
            found(|crd| crd.pointer_mut(pointer).unwrap()[key] = value.clone())
        };
        let remove = |pointer: &str, key: &str| {
            found(|crd| {
                drop(crd.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key))
            })
        };
        let properties = format!("{schema}/properties");
        let at = |path: &str| format!("{properties}/{path}");
        let spec = at("spec/properties");
        for (found, expected) in [
            (
                set("/spec/names", "kind", "web_site".into()),
                "com: the kind web_site is not in Pascal",
            ),
            (set("/spec/names", "plural", "Webs".into()), "com: the plural name Webs does not"),
            (
                set("/spec/names", "shortNames", json!(["W_"])),
                "com: the short name \"W_\" does not",
            ),
            (set("/spec/names", "shortNames", json!(["web"])), "com: the short name web is a name"),
            (set("/spec/names", "categories", json!([""])), "com: the category \"\" does not"),
            (set("/spec/names", "categories", json!(["a", "a"])), "com: the category a is a name"),
            (remove(&properties, "spec"), "v1: there is no spec"),
            (remove(&properties, "status"), "v1: there is no status,"),
            (remove("/spec/versions/0/subresources", "status"), "v1: the status is no subresource"),
            (
                set(schema, "x-kubernetes-preserve-unknown-fields", true.into()),
                "v1: unknown fields are kept at the root",
            ),
            (
                set("/spec/versions/0", "additionalPrinterColumns", json!([{"jsonPath": ".a"}])),
                "v1: there is no printer column Age",
            ),
            (
                remove(&at("status/properties/conditions"), "x-kubernetes-list-map-keys"),
                "v1:.status.conditions: conditions are not a list of type map",
            ),
            (
                remove(&format!("{spec}/hostName"), "description"),
                "v1:.spec.hostName: there is no description",
            ),
            (
                set(&format!("{spec}/hostName"), "type", "number".into()),
                "v1:.spec.hostName: floating-point numbers",
            ),
            (
                set(&spec, "host_name", json!({"description": "A text."})),
                "v1:.spec.host_name: the name is not in camelCase",
            ),
            (
                set(&at("status/properties/conditions/items/properties"), "cost", json!({})),
                "v1:.status.conditions[].cost: there is no description",
            ),
        ] {
            let [found] = &*found else { panic!("{expected}: {found:?}") };
            assert!(found.contains(expected), "{expected}: {found}");
        }
        let condition = at("status/properties/conditions/items/properties/type");
        assert_eq!(remove(&condition, "description"), [""; 0]);
        let columns = remove("/spec/versions/0", "additionalPrinterColumns");
        assert_eq!(columns, Vec::<String>::new(), "Age is shown");
    }
}
