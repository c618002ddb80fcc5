//! Validation rules of CRDs: random schemas with well- and ill-typed rules, and random objects and
//! updates.

use serde_json::{Value, json};

use super::super::random::Random;
use super::super::schema;
use super::{MERGE, get, patch, post};
use crate::sequence::{Step, Until, set_at};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECTS: &str = "/apis/${group}/v1/namespaces/${ns}/things";
const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..10 {
        let spec = with_rules(random, 25);
        steps.push(post(format!("{CRDS}?dryRun=All"), crd(random, &spec)));
    }
    let spec = with_rules(random, 2);
    let mut created = post(CRDS, crd(random, &spec));
    created.renew.insert("served".to_owned(), "/metadata/name".to_owned());
    steps.push(created);
    let served = |contains: Option<&str>| Until {
        status: Some(200),
        contains: contains.map(str::to_owned),
        unless_null: Some("served".to_owned()),
        may_time_out: true,
        ..Until::default()
    };
    let mut established = get(format!("{CRDS}/things.${{group}}"));
    established.until = Some(served(Some("InitialNamesAccepted")));
    steps.push(established);
    let mut listed = get(OBJECTS);
    listed.until = Some(served(None));
    steps.push(listed);
    while steps.len() < 40 {
        let name = *random.pick(&NAMES);
        let value = schema::value(random, &spec);
        let named = format!("{OBJECTS}/{name}");
        steps.push(match random.below(6) {
            0..3 => post(OBJECTS, object(name, &value)),
            3 => patch(named, MERGE, json!({"spec": value})),
            4 => {
                let path = format!("{named}?fieldManager=m&force=true");
                patch(path, super::APPLY, object(name, &value))
            }
            _ => get(named),
        });
    }
    steps
}

fn object(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec,
    })
}

fn crd(random: &mut Random, spec: &Value) -> Value {
    let mut root = json!({"type": "object", "properties": {"spec": spec}});
    if random.percent(15) {
        let rules = ["self.metadata.name != 'c'", "self.kind == 'Thing' && has(self.spec)"];
        root["x-kubernetes-validations"] = json!([{"rule": *random.pick(&rules)}]);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.${group}"},
        "spec": {
            "group": "${group}", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": root},
            }],
        },
    })
}

/// Generates a schema with rules, of which some percent are ill-typed.
fn with_rules(random: &mut Random, ill_typed: usize) -> Value {
    let mut spec = schema::object(random, 3);
    if random.percent(80) {
        bound(&mut spec);
    }
    add_rules(random, &mut spec, ill_typed);
    spec
}

/// Limits the sizes of all parts, so that the costs of rules are low.
fn bound(schema: &mut Value) {
    let limit = match schema["type"].as_str() {
        Some("string") => Some("maxLength"),
        Some("array") => Some("maxItems"),
        Some("object") if schema["additionalProperties"].is_object() => Some("maxProperties"),
        _ => None,
    };
    if let Some(limit) = limit
        && schema.get(limit).is_none()
        && schema.get("default").is_none()
    {
        schema[limit] = 20.into();
    }
    for_each_part(schema, &mut bound);
}

fn for_each_part(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(&mut *visit);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = schema.get_mut(part).filter(|part| part.is_object()) {
            visit(part);
        }
    }
}

fn add_rules(random: &mut Random, schema: &mut Value, ill_typed: usize) {
    for_each_part(schema, &mut |part| add_rules(random, part, ill_typed));
    if !random.percent(30) {
        return;
    }
    let mut rules = Vec::new();
    for _ in 0..=random.below(2) {
        rules.push(rule(random, schema, ill_typed));
    }
    schema["x-kubernetes-validations"] = rules.into();
}

fn rule(random: &mut Random, schema: &Value, ill_typed: usize) -> Value {
    let mut rule = json!({});
    rule["rule"] = match random.below(10) {
        _ if random.percent(ill_typed) => ill(random, "self").into(),
        0 => "self == oldSelf".into(),
        1 => format!("oldSelf == self || {}", condition(random, schema, "self", 2)).into(),
        2 => {
            rule["optionalOldSelf"] = true.into();
            "!oldSelf.hasValue() || oldSelf.value() == self".into()
        }
        3 => {
            let first = condition(random, schema, "self", 2);
            format!("{first} && {}", condition(random, schema, "self", 1)).into()
        }
        _ => condition(random, schema, "self", 3).into(),
    };
    match random.below(6) {
        0 => rule["message"] = "must hold".into(),
        1 => {
            let texts =
                ["'must hold'", "'type ' + string(type(self) == string)", "string(1 / 0)", "''"];
            rule["messageExpression"] = (*random.pick(&texts)).into();
        }
        2 => {
            let reasons = ["FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
            rule["reason"] = (*random.pick(&reasons)).into();
        }
        3 => {
            let properties = schema["properties"].as_object();
            let names: Vec<_> = properties.into_iter().flatten().map(|(name, _)| name).collect();
            if !names.is_empty() {
                set_at(&mut rule, "/fieldPath", format!(".{}", random.pick(&names)).into());
            }
        }
        _ => {}
    }
    rule
}

/// An expression that does not compile, or is not a condition.
fn ill(random: &mut Random, this: &str) -> String {
    let form = *random.pick(&[
        "@ + 1 == 2",
        "@.missing == 1",
        "size(@)",
        "@ > 'x'",
        "other == @",
        "@.all(x, x)",
        "@ &&",
        "@.foo()",
        "[1, 'a'].size() > 1",
        "duration('x') == @",
        "@[0]",
        "!@",
        "@ ? true : false",
    ]);
    form.replace('@', this)
}

/// A condition on a value of this schema, at most `depth` levels deep.
fn condition(random: &mut Random, schema: &Value, this: &str, depth: usize) -> String {
    let forms: &[&str] = match schema["type"].as_str() {
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => &["@ > timestamp('2001-01-01T00:00:00Z')", "@.getFullYear() > 1"],
            Some("byte") => &["@ != b''", "size(@) > 2"],
            _ => &[
                "@ == 'x'",
                "@.size() > 1",
                "@.startsWith('a')",
                "@.matches('^[a-z]+$')",
                "@ in ['x', 'y', 'abc']",
                "@.contains('b')",
                "@.lowerAscii() == @",
                "@.split(',').size() == 1",
                "@.find('[0-9]+') == ''",
                "@ + 'x' != 'xx'",
                "@ <= 'm'",
                "!isURL(@)",
                "isQuantity(@) || @.size() < 4",
            ],
        },
        Some("integer") => &[
            "@ > 1",
            "@ % 2 == 0",
            "@ + 1 <= 6",
            "@ == 2",
            "double(@) < 2.5",
            "10 / @ > 1",
            "@ in [1, 2]",
            "string(@) != '5'",
            "@ * 9223372036854775807 > 0",
        ],
        Some("number") => &["@ < 2.0", "@ >= 0.5", "int(@) == 0", "@ * 2.0 != 6.0"],
        Some("boolean") => &["@", "!@", "@ == true"],
        Some("array") => return list_condition(random, schema, this, depth),
        Some("object") => return object_condition(random, schema, this, depth),
        _ => &["type(@) == int ? @ > 1 : @ != 'http'", "@ == 80", "string(@) != '25%'"],
    };
    random.pick(forms).replace('@', this)
}

fn list_condition(random: &mut Random, schema: &Value, this: &str, depth: usize) -> String {
    let plain = ["size(@) < 3", "@ == @", "@.size() != 1", "@ + @ == @", "!(@ != [])"];
    if depth == 0 || random.percent(35) {
        return random.pick(&plain).replace('@', this);
    }
    let element = format!("x{depth}");
    let inner = condition(random, &schema["items"], &element, depth - 1);
    let form = *random.pick(&[
        "@.all(x, C)",
        "@.exists(x, C)",
        "@.exists_one(x, C)",
        "@.filter(x, C).size() > 0",
        "@.map(x, C).all(y, y)",
        "@.all(i, x, i < 5 && C)",
    ]);
    form.replace("(x,", &format!("({element},"))
        .replace(" x,", &format!(" {element},"))
        .replace('C', &format!("({inner})"))
        .replace('@', this)
}

fn object_condition(random: &mut Random, schema: &Value, this: &str, depth: usize) -> String {
    if schema["additionalProperties"].is_object() {
        let plain = ["size(@) < 3", "'free' in @", "@ == @"];
        if depth == 0 || random.percent(40) {
            return random.pick(&plain).replace('@', this);
        }
        let key = format!("k{depth}");
        let value = format!("{this}[{key}]");
        let inner = condition(random, &schema["additionalProperties"], &value, depth - 1);
        let quantifier = *random.pick(&["all", "exists"]);
        return format!("{this}.{quantifier}({key}, {inner})");
    }
    let properties: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
    if properties.is_empty() {
        return format!("{this} == {this}");
    }
    let (name, property) = *random.pick(&properties);
    let field = format!("{this}.{name}");
    if depth == 0 || random.percent(15) {
        return format!("has({field})");
    }
    let inner = condition(random, property, &field, depth - 1);
    match random.below(5) {
        0 => inner,
        1 => format!("has({field}) && {inner}"),
        2 => format!("has({field}) ? {inner} : true"),
        _ => format!("!has({field}) || {inner}"),
    }
}
