//! The CRD of a type with every family of attributes, compared with what controller-gen generates for
//! the same type in Go.
//!
//! `attributes.txt` has the facts of controller-gen's CRD; `xtask/gofacts/crd` has the type in Go and
//! the command that prints them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::prelude::*;
use evenkeel::schema::{self, Format};
use evenkeel_test::TestCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
enum Level {
    Debug,
    #[default]
    Info,
    Error,
}

#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize)]
#[x_kube(validation = Rule::new("self.low <= self.high").message("low must not exceed high")
    .reason(Reason::FieldValueInvalid).field_path(".low"))]
struct Window {
    low: i32,
    high: i32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Port {
    #[schemars(length(min = 1))]
    name: String,
    #[schemars(range(min = 1, max = 65535))]
    number: i32,
    #[serde(default = "tcp")]
    protocol: String,
}

fn tcp() -> String {
    "TCP".to_owned()
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Limits {
    cpu: String,
    memory: String,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpu: "1".to_owned(), memory: "1Gi".to_owned() }
    }
}

#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize)]
#[x_kube(validation = Rule::new("(has(self.file)?1:0)+(has(self.url)?1:0) == 1")
    .message("exactly one of the fields in [file url] must be set"))]
struct Origin {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Everything", namespaced)]
#[kube(plural = "everythings", singular = "everything", shortname = "ev", shortname = "evs")]
#[kube(category = "all", category = "examples", status = "EverythingStatus")]
#[kube(scale(
    spec_replicas_path = ".spec.replicas",
    status_replicas_path = ".status.replicas",
    label_selector_path = ".status.selector"
))]
#[kube(printcolumn(name = "Level", type_ = "string", json_path = ".spec.level"))]
#[kube(printcolumn(
    name = "Replicas",
    type_ = "integer",
    format = "int32",
    description = "The number of replicas",
    priority = 1,
    json_path = ".spec.replicas"
))]
#[kube(printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"))]
#[kube(selectable = ".spec.owner")]
#[kube(deprecated = "example.com/v1 Everything is deprecated; use v2")]
#[kube(label("team", "examples"), annotation("example.com/docs", "everything"))]
#[kube(validation = Rule::new("self.metadata.name.size() <= 40")
    .message(Message::Expression("self.spec.name + ' has a long name'".to_owned())))]
#[kube(validation = Rule::new(
    "!oldSelf.hasValue() || self.spec.window.low >= oldSelf.value().spec.window.low"
).optional_old_self(true))]
#[serde(rename_all = "camelCase")]
struct EverythingSpec {
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10))]
    replicas: i32,
    #[schemars(range(min = 0, max = 100), transform = schema::multiple_of(5))]
    #[schemars(transform = schema::exclusive_minimum, transform = schema::exclusive_maximum)]
    percent: i64,
    #[schemars(length(min = 3, max = 63), regex(pattern = "^[a-z][a-z0-9-]*$"))]
    #[x_kube(validation = ("self == oldSelf", "the name cannot be changed"))]
    name: String,
    #[schemars(email)]
    owner: String,
    #[schemars(url)]
    homepage: Option<String>,
    #[schemars(transform = schema::format(Format::Ipv4))]
    address: Option<String>,
    #[schemars(transform = schema::format(Format::Uuid))]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::date_time")]
    not_before: Option<Time>,
    #[serde(default)]
    level: Level,
    comment: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[schemars(length(min = 1, max = 5))]
    #[schemars(inner(length(min = 2), regex(pattern = "^[a-z]+$")))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    zones: Vec<String>,
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    ports: Option<Vec<Port>>,
    #[serde(default = "run")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    command: Vec<String>,
    #[schemars(transform = schema::min_properties(1), transform = schema::max_properties(16))]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    settings: Option<BTreeMap<String, String>>,
    #[serde(default)]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    limits: Limits,
    window: Window,
    source: Origin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    surge: Option<IntOrString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    storage: Option<Quantity>,
    #[schemars(transform = schema::preserve_unknown_fields)]
    extra: Option<Value>,
    #[schemars(transform = schema::embedded_resource)]
    template: Option<Value>,
    #[schemars(title = "Old name", transform = schema::example("web"))]
    alias: Option<String>,
}

fn three() -> i32 {
    3
}

fn yes() -> bool {
    true
}

fn run() -> Vec<String> {
    vec!["run".to_owned()]
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct EverythingStatus {
    replicas: Option<i32>,
    selector: Option<String>,
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
}

/// The path of the schema; it is printed as `schema`, and the names of fields after a slash.
const SCHEMA: &str = "spec.versions[0].schema.openAPIV3Schema";

/// Collects a line per scalar and per list of scalars. Keys of `properties` are names of fields.
fn walk(path: &str, value: &Value, names: bool, facts: &mut BTreeSet<String>) {
    let scalar = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                if names || key != "description" || !path.starts_with(SCHEMA) {
                    walk(&format!("{path}.{key}"), value, !names && key == "properties", facts);
                }
            }
        }
        Value::Array(list) if !list.iter().all(scalar) => {
            for (i, value) in list.iter().enumerate() {
                walk(&format!("{path}[{i}]"), value, false, facts);
            }
        }
        value => {
            // Limits are floating-point numbers, which Go prints without a fraction.
            let text = value.to_string();
            let text = text.strip_suffix(".0").unwrap_or(&text);
            let fact = format!("{path} = {text}");
            facts.insert(fact.replace(SCHEMA, "schema").replace(".properties.", "/"));
        }
    }
}

fn facts(crd: &Value) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for part in ["metadata", "spec"] {
        walk(part, &crd[part], false, &mut facts);
    }
    facts
}

/// What only controller-gen's CRD has.
const ONLY_THEIRS: &[&str] = &[
    // Implied by every API server.
    r#"schema/apiVersion.type = "string""#,
    r#"schema/kind.type = "string""#,
    r#"schema/metadata.type = "object""#,
    // The default.
    r#"spec.names.listKind = "EverythingList""#,
    // Implied by x-kubernetes-int-or-string.
    r#"schema/spec/storage.anyOf[0].type = "integer""#,
    r#"schema/spec/storage.anyOf[1].type = "string""#,
    r#"schema/spec/surge.anyOf[0].type = "integer""#,
    r#"schema/spec/surge.anyOf[1].type = "string""#,
];

/// What only our CRD has. An `Option` accepts null: API servers store it instead of dropping it.
const ONLY_OURS: &[&str] = &[
    r#"schema.title = "Everything""#,
    "schema/spec/address.nullable = true",
    "schema/spec/alias.nullable = true",
    "schema/spec/homepage.nullable = true",
    "schema/spec/ports.nullable = true",
    "schema/spec/settings.nullable = true",
    "schema/spec/source/file.nullable = true",
    "schema/spec/source/url.nullable = true",
    "schema/spec/storage.nullable = true",
    "schema/spec/surge.nullable = true",
    "schema/spec/token.nullable = true",
    "schema/status.nullable = true",
    "schema/status/replicas.nullable = true",
    "schema/status/selector.nullable = true",
];

#[test]
fn crd_is_that_of_controller_gen_but_for_explained_differences() {
    let ours = facts(&serde_json::to_value(Everything::crd()).unwrap());
    let theirs: BTreeSet<String> =
        include_str!("attributes.txt").lines().map(str::to_owned).collect();
    let explained = |facts: &[&str]| -> BTreeSet<String> {
        facts.iter().map(|&fact| fact.to_owned()).collect()
    };
    let only_theirs: BTreeSet<String> = theirs.difference(&ours).cloned().collect();
    assert_eq!(only_theirs, explained(ONLY_THEIRS), "only controller-gen's CRD has them");
    let only_ours: BTreeSet<String> = ours.difference(&theirs).cloned().collect();
    assert_eq!(only_ours, explained(ONLY_OURS), "only our CRD has them");
}

const VALID: &str = "
apiVersion: example.com/v1
kind: Everything
metadata: {name: valid}
spec:
  percent: 5
  name: web
  owner: ada@example.com
  zones: [ab]
  window: {low: 1, high: 2}
  source: {file: x}
";

/// Changes of the valid object, and the field of the rejection.
const INVALID: &[(&str, &str, &str)] = &[
    ("percent: 5", "percent: 0", "spec.percent"),
    ("percent: 5", "percent: 100", "spec.percent"),
    ("percent: 5", "percent: 7", "spec.percent"),
    ("name: web", "name: w", "spec.name"),
    ("name: web", "name: Web", "spec.name"),
    ("owner: ada@example.com", "owner: ada", "spec.owner"),
    ("zones: [ab]", "zones: []", "spec.zones"),
    ("zones: [ab]", "zones: [ab, ab]", "spec.zones"),
    ("zones: [ab]", "zones: [a]", "spec.zones"),
    ("low: 1", "low: 3", "spec.window.low"),
    ("file: x", "file: x, url: x", "spec.source"),
    ("percent: 5", "percent: 5\n  replicas: 11", "spec.replicas"),
    ("percent: 5", "percent: 5\n  token: x", "spec.token"),
    ("percent: 5", "percent: 5\n  level: Trace", "spec.level"),
    ("percent: 5", "percent: 5\n  settings: {}", "spec.settings"),
    ("percent: 5", "percent: 5\n  storage: x", "spec.storage"),
    ("percent: 5", "percent: 5\n  template: {a: 1}", "spec.template"),
    ("name: valid}", "name: a123456789-123456789-123456789-123456789-1}", "web has a long name"),
];

/// Creates the CRD, a valid object and the invalid ones.
async fn enforce(client: kube::Client, namespace: &str) {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = crds.create(&PostParams::default(), &Everything::crd()).await.unwrap();
    let established = async || {
        let crd = crds.get(&crd.name_any()).await.unwrap();
        let conditions = crd.status.and_then(|it| it.conditions).unwrap_or_default();
        conditions.iter().any(|it| it.type_ == "Established" && it.status == "True")
    };
    while !established().await {
        tokio::task::yield_now().await;
    }
    let resource = Everything::api_resource();
    let objects = Api::<DynamicObject>::namespaced_with(client, namespace, &resource);
    let create = async |text: &str| {
        let object = serde_saphyr::from_str(text).unwrap();
        objects.create(&PostParams::default(), &object).await
    };
    // A real API server may respond 404 for a moment after the CRD is established.
    let created = loop {
        match create(VALID).await {
            Err(kube::Error::Api(status)) if status.code == 404 => tokio::task::yield_now().await,
            created => break created.unwrap(),
        }
    };
    let spec = &created.data["spec"];
    for (field, default) in [
        ("replicas", json!(3)),
        ("level", json!("Info")),
        ("enabled", json!(true)),
        ("command", json!(["run"])),
        ("limits", json!({"cpu": "1", "memory": "1Gi"})),
    ] {
        assert_eq!(spec[field], default, "{field}");
    }
    for (valid, invalid, place) in INVALID {
        let text = VALID.replacen(valid, invalid, 1);
        let error = create(&text).await.unwrap_err();
        let kube::Error::Api(status) = &error else { panic!("{text}: {error}") };
        let causes = status.details.iter().flat_map(|it| &it.causes);
        let mut places = causes.flat_map(|it| [&*it.field, &*it.message]);
        assert!(places.any(|it| it.contains(place)), "{text}: {error}");
    }
    let rename = Patch::Merge(json!({"spec": {"name": "other"}}));
    let error = objects.patch("valid", &PatchParams::default(), &rename).await.unwrap_err();
    assert!(error.to_string().contains("the name cannot be changed"), "{error}");
}

#[tokio::test]
async fn crd_is_accepted_and_enforced() {
    let cluster = TestCluster::builder().api_only().start().await;
    enforce(cluster.kube(), cluster.namespace()).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_is_accepted_and_enforced_by_a_real_kube_apiserver() {
    let binaries = match evenkeel_upstream::locate() {
        Ok(binaries) => binaries,
        Err(reason) => {
            let what = "test of a generated CRD with a real kube-apiserver";
            return evenkeel_upstream::report_skipped(1, what, reason);
        }
    };
    let options = evenkeel_upstream::UpstreamOptions::default();
    let cluster = evenkeel_upstream::Cluster::start(&binaries, &options).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    enforce(kube::Client::try_from(config).unwrap(), "default").await;
}
