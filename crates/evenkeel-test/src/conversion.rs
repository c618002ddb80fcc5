//! Round trips of converted objects.

use std::ops::Range;

use evenkeel::Object;
use evenkeel::webhook::Conversion;
use evenkeel_types::random::SplitMix64;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::fail;

/// How deep generated objects are nested at most.
const MAX_DEPTH: usize = 12;

/// Fails the test unless objects of every version survive the conversion to every other version and
/// back: for each pair of versions and each seed, an object is generated from the schema of the CRD.
///
/// A version that lacks a field of another one has to keep it in an annotation.
///
/// ```
/// # mod types {
/// #     use evenkeel::prelude::*;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     pub mod v1 {
/// #         use super::*;
/// #         #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
/// #         #[kube(group = "example.com", version = "v1", kind = "Widget")]
/// #         pub struct WidgetSpec { pub color: String }
/// #     }
/// #     pub mod v1beta1 {
/// #         use super::*;
/// #         #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
/// #         #[kube(group = "example.com", version = "v1beta1", kind = "Widget")]
/// #         pub struct WidgetSpec { pub colour: String }
/// #     }
/// #     impl From<v1beta1::Widget> for v1::Widget {
/// #         fn from(old: v1beta1::Widget) -> Self {
/// #             let spec = v1::WidgetSpec { color: old.spec.colour };
/// #             Self { metadata: old.metadata, spec }
/// #         }
/// #     }
/// #     impl From<v1::Widget> for v1beta1::Widget {
/// #         fn from(new: v1::Widget) -> Self {
/// #             let spec = v1beta1::WidgetSpec { colour: new.spec.color };
/// #             Self { metadata: new.metadata, spec }
/// #         }
/// #     }
/// # }
/// # use types::{v1, v1beta1};
/// use evenkeel::webhook::Conversion;
///
/// let conversion = Conversion::hub::<v1::Widget>().spoke::<v1beta1::Widget>();
/// evenkeel_test::assert_round_trips(&conversion, 0..100);
/// ```
///
/// # Panics
/// With the versions, the seed and both objects, if one is not the same after its round trip.
#[track_caller]
pub fn assert_round_trips<Hub>(conversion: &Conversion<Hub>, seeds: Range<u64>)
where
    Hub: Object + CustomResourceExt,
{
    let crd = conversion.crd().unwrap_or_else(|error| fail(&format!("no CRD: {error:#}")));
    let (group, kind) = (&crd.spec.group, &crd.spec.names.kind);
    let seeds: Vec<u64> = seeds.collect();
    for from in &crd.spec.versions {
        let schema = from.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).unwrap_or_default();
        let own = format!("{group}/{}", from.name);
        for through in crd.spec.versions.iter().filter(|through| through.name != from.name) {
            let other = format!("{group}/{}", through.name);
            for seed in seeds.iter().copied() {
                let context = || format!("{own} → {other} → {own}, seed {seed}");
                let sent = object(&own, kind, &schema, &mut Numbers(SplitMix64(seed)));
                let trip = || -> evenkeel::Result<_> {
                    let sent = conversion.normalize(&sent)?;
                    let there = conversion.convert(&sent, &other)?;
                    let back = conversion.normalize(&conversion.convert(&there, &own)?)?;
                    Ok((sent, there, back))
                };
                match trip() {
                    Ok((sent, _, back)) if sent == back => {}
                    Ok((sent, there, back)) => fail(&format!(
                        "{}: the object is not the same\nsent:      {sent}\nconverted: {there}\n\
                         returned:  {back}",
                        context()
                    )),
                    Err(error) => fail(&format!("{}: {error:#}\nsent: {sent}", context())),
                }
            }
        }
    }
}

fn object(api_version: &str, kind: &str, schema: &Value, numbers: &mut Numbers) -> Value {
    let mut object = generate(schema, numbers, 0);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({
        "name": format!("object-{}", numbers.below(1000)),
        "labels": {"label": text(numbers)},
        "annotations": {"annotation": text(numbers)},
    });
    object
}

/// Generates a value of a schema.
fn generate(schema: &Value, numbers: &mut Numbers, depth: usize) -> Value {
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
        return values[numbers.below(values.len() as u64) as usize].clone();
    }
    match schema["type"].as_str() {
        Some("object") => properties(schema, numbers, depth),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let most = schema["maxItems"].as_u64().unwrap_or(least + 3).max(least);
            let length = least + numbers.below(most.min(least + 3) - least + 1);
            (0..length).map(|_| generate(&schema["items"], numbers, depth + 1)).collect()
        }
        Some("string") => string(schema, numbers),
        Some("integer") => {
            let least = schema["minimum"].as_f64().map_or(0, |least| least.ceil() as i64);
            let most =
                schema["maximum"].as_f64().map_or(least.saturating_add(1000), |it| it as i64);
            let span = most.saturating_sub(least).clamp(0, 1000) as u64;
            json!(least + numbers.below(span + 1) as i64)
        }
        Some("number") => json!(numbers.below(1000) as f64 / 8.0),
        Some("boolean") => json!(numbers.below(2) == 1),
        _ if schema["x-kubernetes-int-or-string"] == true => json!(numbers.below(100)),
        _ => json!({}),
    }
}

/// Generates an object: all required fields and about half of the others.
fn properties(schema: &Value, numbers: &mut Numbers, depth: usize) -> Value {
    let mut object = Map::new();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let optional = !required.contains(&name.as_str());
        if optional && (depth >= MAX_DEPTH || numbers.below(2) == 0) {
            continue;
        }
        object.insert(name.clone(), generate(property, numbers, depth + 1));
    }
    if schema["additionalProperties"].is_object() && depth < MAX_DEPTH {
        for index in 0..numbers.below(3) {
            let value = generate(&schema["additionalProperties"], numbers, depth + 1);
            object.insert(format!("key-{index}"), value);
        }
    }
    object.into()
}

fn string(schema: &Value, numbers: &mut Numbers) -> Value {
    let seconds = numbers.below(2_000_000_000) as i64;
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    match schema["format"].as_str() {
        Some("date-time") => return time.to_string().into(),
        Some("date") => return time.strftime("%Y-%m-%d").to_string().into(),
        Some("byte") => return "YWJj".into(),
        _ => {}
    }
    let mut text = text(numbers);
    let least = schema["minLength"].as_u64().unwrap_or(0) as usize;
    let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
    while text.len() < least {
        text.push('x');
    }
    text.truncate(most);
    text.into()
}

fn text(numbers: &mut Numbers) -> String {
    format!("text-{}", numbers.below(1_000_000))
}

/// Reproducible numbers.
struct Numbers(SplitMix64);

impl Numbers {
    /// Returns a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next() % bound.max(1)
    }
}
