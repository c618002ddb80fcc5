//! What the engine costs: `cargo bench -p evenkeel-apply`.
//!
//! Prints the time per call and, for the sizes 10, 100 and 1000, per container; the latter must
//! stay flat, or something is no longer linear.

#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]

use std::{hint::black_box, time::Duration};

use evenkeel_apply::{
    managed::{Filter, Request, SingleVersion, apply, update},
    patch::{PatchField, PatchSchema, PatchStrategy, strategic_merge_patch},
    schema::{MapDef, ObjectType, Scalar, SchemaBuilder},
};
use serde_json::{Value, json};

fn main() {
    create_config_map();
    for containers in [10, 100, 1000] {
        deployment(containers);
    }
}

fn create_config_map() {
    let mut b = SchemaBuilder::new();
    let string = b.scalar(Scalar::String);
    let boolean = b.scalar(Scalar::Boolean);
    let strings = b.map_of(string);
    let meta = b.object_meta();
    let root = MapDef::new().field("metadata", meta).fields(["binaryData", "data"], strings);
    let root = b.object(root.field("immutable", boolean));
    let data: Value = (0..12)
        .map(|i| (format!("key-{i:02}"), json!("x".repeat(60))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "n", "namespace": "ns", "labels": {"app": "x", "tier": "y"}}
    });
    let bytes = object.to_string().len();
    let fixture = Fixture::new("v1", "ConfigMap", b.finish(root).expect("a complete schema"));
    let request = fixture.request();
    report(&format!("create, ConfigMap of {bytes} bytes"), 1, || {
        let mut new = object.clone();
        (move || update(&request, None, &mut new).map(|()| new), ())
    });
}

fn deployment(containers: usize) {
    let fixture = Fixture::new("apps/v1", "Deployment", deployment_type());
    let request = fixture.request();
    let ty = &fixture.versions.object_type;
    let applied = object(containers);
    let live = apply(&request, None, &applied, false).expect("a first apply").object;
    let mut changed = live.clone();
    changed["spec"]["template"]["spec"]["containers"][containers / 2]["image"] = json!("other");

    let name = |what: &str| format!("{what}, {containers} containers");
    report(&name("to_field_set"), containers, || (|| ty.to_field_set(&applied), ()));
    report(&name("compare"), containers, || (|| ty.compare(&live, &changed), ()));
    report(&name("merge"), containers, || {
        let live = live.clone();
        (|| ty.merge(live, &applied), ())
    });
    report(&name("update, one change"), containers, || {
        let mut new = changed.clone();
        let (request, live) = (&request, &live);
        (move || update(request, Some(live), &mut new).map(|()| new), ())
    });
    report(&name("apply, no change"), containers, || {
        (|| apply(&request, Some(&live), &applied, false), ())
    });
    let fewer = object(containers - 1);
    report(&name("apply, one container less"), containers, || {
        (|| apply(&request, Some(&live), &fewer, false), ())
    });
    report(&name("strategic merge patch"), containers, || {
        let [object, patch] =
            [&live, &applied].map(|value| value.as_object().cloned().unwrap_or_default());
        (|| strategic_merge_patch(object, patch, &Merging), ())
    });
}

struct Fixture {
    versions: SingleVersion,
    kind: &'static str,
    reset: Filter,
    zero: Value,
}

impl Fixture {
    fn new(api_version: &str, kind: &'static str, object_type: ObjectType) -> Self {
        let versions = SingleVersion { api_version: api_version.into(), object_type };
        Self { versions, kind, reset: Filter::All, zero: json!({"metadata": {}}) }
    }

    fn request(&self) -> Request<'_> {
        Request {
            versions: &self.versions,
            api_version: &self.versions.api_version,
            kind: self.kind,
            subresource: "",
            reset_fields: &self.reset,
            zero: &self.zero,
            manager: "bench",
            now: "2024-01-01T00:00:00Z",
        }
    }
}

fn object(containers: usize) -> Value {
    let container = |i: usize| {
        json!({
            "name": format!("c{i:04}"), "image": "registry.example.io/app:v1", "command": ["run", "it"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 8080}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}
        })
    };
    let containers: Vec<Value> = (0..containers).map(container).collect();
    let labels = json!({"app": "x"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "n", "namespace": "ns", "labels": labels},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}
    })
}

fn deployment_type() -> ObjectType {
    let mut b = SchemaBuilder::new();
    let string = b.scalar(Scalar::String);
    let numeric = b.scalar(Scalar::Numeric);
    let quantity = b.scalar(Scalar::Untyped);
    let strings = b.map_of(string);
    let command = b.atomic_list(string);
    let env = b.map(MapDef::new().fields(["name", "value"], string));
    let env = b.map_list(env, ["name"]);
    let port = MapDef::new().field("containerPort", numeric);
    let port = b.map(port.field_with_default("protocol", string, json!("TCP")));
    let ports = b.map_list(port, ["containerPort", "protocol"]);
    let quantities = b.map_of(quantity);
    let resources = b.map(MapDef::new().fields(["limits", "requests"], quantities));
    let container = MapDef::new().fields(["name", "image"], string).field("command", command);
    let container =
        b.map(container.field("env", env).field("ports", ports).field("resources", resources));
    let containers = b.map_list(container, ["name"]);
    let pod = b.map(MapDef::new().field("containers", containers));
    let meta = b.object_meta();
    let template = b.map(MapDef::new().field("metadata", meta).field("spec", pod));
    let selector = b.map(MapDef::new().field("matchLabels", strings).atomic());
    let spec = MapDef::new().field("replicas", numeric).field("selector", selector);
    let spec = b.map(spec.field("template", template));
    let root = b.object(MapDef::new().field("metadata", meta).field("spec", spec));
    b.finish(root).expect("a complete schema")
}

/// Every list merges by name.
struct Merging;

impl PatchSchema for Merging {
    fn field(&self, name: &str) -> Option<PatchField<'_>> {
        let merge_key = match name {
            "ports" => Some("containerPort"),
            "command" => None,
            _ => Some("name"),
        };
        let strategy =
            if merge_key.is_some() { PatchStrategy::Merge } else { PatchStrategy::Default };
        Some(PatchField { schema: &Self, strategy, merge_key })
    }

    fn name(&self) -> &str {
        "Merging"
    }
}

/// Times what `prepare` returns, without the preparation.
fn report<T, F: FnOnce() -> T>(name: &str, per: usize, mut prepare: impl FnMut() -> (F, ())) {
    let mut best = Duration::MAX;
    let mut total = Duration::ZERO;
    let mut runs = 0_u32;
    while runs < 10 || (total < Duration::from_millis(300) && runs < 100_000) {
        let (run, ()) = prepare();
        let start = now();
        let out = black_box(run());
        let elapsed = start.elapsed();
        drop(out);
        best = best.min(elapsed);
        total += elapsed;
        runs += 1;
    }
    let mean = total / runs;
    let each = mean / u32::try_from(per).unwrap_or(u32::MAX);
    println!("{name:45} mean {mean:>12.2?}  best {best:>12.2?}  each {each:>10.2?}");
}

#[expect(clippy::disallowed_methods, reason = "measuring is about real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
