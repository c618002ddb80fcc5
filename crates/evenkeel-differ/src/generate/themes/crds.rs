//! The lifecycle of a CRD: rejected, created, used in several versions, changed and deleted while
//! in use, created again; with its discovery and OpenAPI documents.
//!
//! kube-apiserver serves a changed CRD after a delay. Each revision therefore has a column and a
//! property named after it, such as `rev3`: once they appear, the revision is served. The revision
//! and the versions it serves are also annotations, so that later steps know which revision was
//! accepted last.

use serde_json::{Value, json};

use super::super::random::Random;
use super::super::schema;
use super::super::steps::{PARTIAL_LIST, TABLE};
use super::{
    APPLY, JSON_PATCH, MERGE, STRATEGIC, close, delete, get, patch, post, put, read, watch,
};
use crate::sequence::{Scope, Step, Until, set_at};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.${group}";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// In the order of discovery.
const VERSIONS: [&str; 4] = ["v2", "v1", "v1beta1", "v1alpha1"];

#[derive(Clone)]
struct Version {
    name: &'static str,
    served: bool,
    storage: bool,
    spec: Value,
    extra: Value,
}

struct CrdLifecycle<'a> {
    random: &'a mut Random,
    steps: Vec<Step>,
    versions: Vec<Version>,
    namespaced: bool,
    names: Value,
    revision: usize,
    watches: Vec<String>,
}

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut lifecycle = CrdLifecycle {
        namespaced: random.percent(75),
        random,
        steps: Vec::new(),
        versions: Vec::new(),
        names: json!({"plural": "things", "kind": "Thing"}),
        revision: 0,
        watches: Vec::new(),
    };
    lifecycle.generate();
    lifecycle.steps
}

impl CrdLifecycle<'_> {
    fn generate(&mut self) {
        self.choose_versions();
        while self.random.percent(35) {
            self.rejected();
        }
        self.create();
        let mut changes = 0;
        while self.steps.len() < 34 {
            match self.random.weighted(&[12, 5, 4, 3, 2, 3]) {
                0 => self.write_object(),
                1 => self.read_objects(),
                2 if changes < 4 => {
                    changes += 1;
                    self.change();
                }
                3 => self.documents(),
                4 => self.watch(),
                5 if changes < 4 && self.random.percent(15) => {
                    changes += 2;
                    self.delete_crd();
                    self.wait_until_undocumented();
                    self.choose_versions();
                    self.create();
                }
                _ => self.write_object(),
            }
        }
        if self.random.percent(50) {
            self.delete_crd();
        }
        self.close_watches();
    }

    /// Chooses the versions and their schemas.
    fn choose_versions(&mut self) {
        let count = 1 + self.random.below(3);
        let skip = self.random.below(VERSIONS.len() - count + 1);
        let base = schema::object(self.random, 3);
        let storage = self.random.below(count);
        self.versions = (0..count)
            .map(|at| Version {
                name: VERSIONS[skip + at],
                served: at == storage || self.random.percent(85),
                storage: at == storage,
                spec: if self.random.percent(70) {
                    base.clone()
                } else {
                    schema::object(self.random, 2)
                },
                extra: extra(self.random),
            })
            .collect();
        for version in &mut self.versions {
            version.select(self.random);
        }
        if self.random.percent(40) {
            self.names["shortNames"] = json!(["th"]);
            self.names["categories"] = json!(["all"]);
        }
    }

    fn crd(&self) -> Value {
        let versions: Vec<_> = self.versions.iter().map(|v| v.render(self.revision)).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.${group}", "annotations": self.annotations()},
            "spec": {
                "group": "${group}", "names": self.names, "versions": versions,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            },
        })
    }

    /// Returns annotations that identify the revision.
    fn annotations(&self) -> Value {
        let served: Vec<_> = VERSIONS
            .iter()
            .filter(|name| self.versions.iter().any(|v| v.served && v.name == **name))
            .collect();
        json!({
            "revision": format!("rev{}", self.revision),
            "served": json!(served).to_string(),
        })
    }

    fn create(&mut self) {
        self.revision += 1;
        let step = post(CRDS, self.crd());
        self.steps.push(accepting_revision(step));
        self.wait();
        let mut established = get(CRD).saving("definition");
        established.until =
            Some(Until { contains: Some("InitialNamesAccepted".to_owned()), ..Self::until() });
        self.steps.push(established);
    }

    /// Waits until the revision is served, unless it was rejected.
    fn wait(&mut self) {
        let Some(version) = self.versions.iter().find(|version| version.served) else { return };
        let mut step = get(self.collection(version.name)).accepting(TABLE);
        step.until = Some(Self::until());
        self.steps.push(step);
    }

    fn until() -> Until {
        Until {
            status: Some(200),
            contains: Some("${revision}".to_owned()),
            unless_null: Some("revision".to_owned()),
            may_time_out: true,
            ..Until::default()
        }
    }

    fn collection(&self, version: &str) -> String {
        if self.namespaced {
            format!("/apis/${{group}}/{version}/namespaces/${{ns}}/things")
        } else {
            format!("/apis/${{group}}/{version}/things")
        }
    }

    /// A CRD with one error.
    fn rejected(&mut self) {
        let mut body = self.crd();
        let root = "/spec/versions/0/schema/openAPIV3Schema";
        let errors: &[(&str, Value)] = &[
            ("/metadata/name", json!("wrong.${group}")),
            ("/spec/scope", json!("Galaxy")),
            ("/spec/group", json!("")),
            ("/spec/names/kind", json!("")),
            ("/spec/names/plural", json!("Things")),
            ("/spec/names/listKind", json!("Thing")),
            ("/spec/names/shortNames", json!(["th", "TH"])),
            ("/spec/versions", json!([])),
            ("/spec/versions/0/name", json!("V1")),
            ("/spec/versions/0/storage", json!(false)),
            ("/spec/versions/0/schema", json!(null)),
            (root, json!({"type": "string"})),
            (root, json!({"type": "object", "properties": {"spec": {}}})),
            (
                root,
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            ),
            (root, json!({"type": "object", "properties": {"a": {"type": "array"}}})),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-int-or-string": true}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            ),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 1, "enum": [1, 1]}}}),
            ),
            (root, json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}})),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true, "default": null}}}),
            ),
            (root, json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true}}}),
            ),
            (root, json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}})),
            (
                root,
                json!({"type": "object", "properties": {"a": {"type": "string", "uniqueItems": true}}}),
            ),
            (
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": "spec.replicas"}}),
            ),
            (
                "/spec/versions/0/additionalPrinterColumns",
                json!([{"name": "A", "type": "text", "jsonPath": ".spec.a"}]),
            ),
            (
                "/spec/versions/0/additionalPrinterColumns",
                json!([{"name": "A", "type": "string", "jsonPath": "spec[?"}]),
            ),
            ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.nope"}])),
            ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".metadata.name"}])),
            ("/spec/conversion", json!({"strategy": "Webhook"})),
            ("/spec/conversion", json!({"strategy": "Magic"})),
            ("/spec/preserveUnknownFields", json!(true)),
        ];
        let (pointer, value) = self.random.pick(errors);
        set_at(&mut body, pointer, value.clone());
        if *pointer == root {
            // kube-apiserver panics when it resolves a field behind a reference.
            crate::sequence::unset_at(&mut body, "/spec/versions/0/selectableFields");
        }
        self.steps.push(post(format!("{CRDS}?dryRun=All"), body));
    }

    /// Changes the CRD in a way that may be rejected.
    fn change(&mut self) {
        self.close_watches();
        self.revision += 1;
        let before = self.versions.clone();
        let mut fields = json!({});
        let at = self.random.below(self.versions.len());
        match self.random.below(14) {
            // One version stays, which shows when the change is served.
            0 if !self.versions[at].storage => self.versions[at].served = !self.versions[at].served,
            1 => {
                for (other, version) in self.versions.iter_mut().enumerate() {
                    version.storage = other == at;
                    version.served |= other == at;
                }
            }
            2 => {
                let unused = VERSIONS.iter().find(|name| before.iter().all(|v| v.name != **name));
                if let Some(name) = unused {
                    let added =
                        Version { name, storage: false, served: true, ..before[at].clone() };
                    self.versions.push(added);
                }
            }
            3 if self.versions.len() > 1 => _ = self.versions.remove(at),
            4 => self.versions[at].spec = schema::object(self.random, 2),
            5 => {
                let names = *self.random.pick(&["a", "b"]);
                set_at(&mut self.versions[at].spec, "/required", json!([names]));
            }
            6 => {
                let added = json!({"type": "string", "default": "filled"});
                set_at(&mut self.versions[at].spec, "/properties/added", added);
            }
            7 => self.versions[at].extra = extra(self.random),
            8 => {
                self.versions[at].extra["deprecated"] = true.into();
                if self.random.percent(50) {
                    self.versions[at].extra["deprecationWarning"] = "do not use".into();
                }
            }
            9 => fields["scope"] = if self.namespaced { "Cluster" } else { "Namespaced" }.into(),
            10 => fields["names"] = json!({"plural": "others"}),
            11 => {
                self.names["shortNames"] = json!(["tt", "ts"]);
                fields["names"] = self.names.clone();
            }
            12 => fields["names"] = json!({"kind": "Other"}),
            _ => fields["conversion"] = json!({"strategy": "None", "webhook": null}),
        }
        fields["versions"] = self.crd()["spec"]["versions"].clone();
        let step = match self.random.below(3) {
            0 => {
                let mut step = put(CRD, "definition");
                for (name, value) in fields.as_object().into_iter().flatten() {
                    step.set.insert(format!("/spec/{name}"), value.clone());
                }
                step.set.insert("/metadata/annotations".to_owned(), self.annotations());
                step.unset.push("/metadata/resourceVersion".to_owned());
                step
            }
            _ => {
                let annotations = json!({"annotations": self.annotations()});
                patch(CRD, MERGE, json!({"metadata": annotations, "spec": fields}))
            }
        };
        self.steps.push(accepting_revision(step));
        self.wait();
        if self.random.percent(50) {
            self.steps.push(get(CRD).saving("definition"));
        }
    }

    /// Deletes the CRD while custom resources exist.
    fn delete_crd(&mut self) {
        self.close_watches();
        let Some(version) = self.versions.iter().find(|version| version.served) else { return };
        let path = self.collection(version.name);
        // There is no garbage collector: objects that wait for it would block the deletion of the
        // CRD.
        for name in NAMES {
            let free = json!({"metadata": {"finalizers": null}});
            self.steps.push(patch(format!("{path}/{name}${{ns}}"), MERGE, free));
        }
        let held = self.random.percent(25);
        // Any schema accepts an object without a spec.
        let mut object = json!({
            "apiVersion": format!("${{group}}/{}", version.name), "kind": "Thing",
            "metadata": {"name": "held${ns}"},
        });
        if held {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        self.steps.push(post(&path, object));
        let name = format!("w{}", self.steps.len());
        self.steps.push(watch(&name, format!("{path}?watch=1&resourceVersion=0")));
        self.steps.push(delete(CRD));
        if held {
            let mut deleting = get(CRD);
            deleting.until = Some(Until {
                contains: Some("InstanceDeletionInProgress".to_owned()),
                ..Self::until()
            });
            self.steps.push(deleting);
            let mut terminating = get(format!("{path}/held${{ns}}"));
            terminating.until =
                Some(Until { contains: Some("deletionTimestamp".to_owned()), ..Self::until() });
            self.steps.push(terminating);
            let object = self.object(self.versions[0].name, "late");
            self.steps.push(post(&path, object));
            self.steps.push(patch(
                format!("{path}/held${{ns}}"),
                JSON_PATCH,
                json!([{"op": "remove", "path": "/metadata/finalizers"}]),
            ));
        }
        let mut deleted = get(CRD);
        deleted.until = Some(Until { status: Some(404), contains: None, ..Self::until() });
        // A path absent from the response saves null: no revision is served any more.
        self.steps.push(deleted.saving_field("revision", "/none").saving_field("served", "/none"));
        // kube-apiserver keeps watches of a deleted CRD open for a while.
        self.steps.push(Step { any_end: true, ..read(&name) });
        self.steps.push(close(&name));
        self.steps.push(get(&path));
    }

    /// Waits until the CRD is no longer in any OpenAPI document.
    fn wait_until_undocumented(&mut self) {
        for version in VERSIONS {
            let mut step = get(format!("/openapi/v3/apis/${{group}}/{version}"));
            step.facts = Some(Scope::Own);
            step.until = Some(Until { status: Some(404), may_time_out: true, ..Until::default() });
            self.steps.push(step);
        }
    }

    fn object(&mut self, version: &str, name: &str) -> Value {
        let spec = self.versions.iter().find(|known| known.name == version);
        let spec = spec.map_or_else(|| json!({}), |version| version.spec.clone());
        let mut value = schema::value(self.random, &spec);
        if value.is_object() && self.random.percent(20) {
            value["replicas"] = (*self.random.pick(&[0, 2])).into();
        }
        json!({
            "apiVersion": format!("${{group}}/{version}"), "kind": "Thing",
            "metadata": {"name": format!("{name}${{ns}}"), "labels": {"app": "x"}}, "spec": value,
        })
    }

    /// Returns a version that exists most of the time.
    fn some_version(&mut self) -> &'static str {
        if self.random.percent(20) {
            return VERSIONS[self.random.below(VERSIONS.len())];
        }
        self.versions[self.random.below(self.versions.len())].name
    }

    fn write_object(&mut self) {
        let version = self.versions[self.random.below(self.versions.len())].name;
        let name = *self.random.pick(&NAMES);
        let body = self.object(version, name);
        let path = self.collection(version);
        let named = format!("{path}/{name}${{ns}}");
        let options = *self.random.pick(&[
            "",
            "",
            "",
            "?fieldValidation=Strict",
            "?dryRun=All",
            "?fieldValidation=Ignore",
        ]);
        let step = match self.random.below(15) {
            0..=3 => post(format!("{path}{options}"), body),
            4 => patch(format!("{named}?fieldManager=m&force=true"), APPLY, body),
            5 | 6 => patch(format!("{named}{options}"), MERGE, json!({"spec": body["spec"]})),
            7 => {
                // An object read in another version is written in this one.
                let step = put(format!("{named}{options}"), "object");
                step.setting("/spec", body["spec"].clone())
            }
            8 => patch(
                format!("{named}/status"),
                MERGE,
                json!({"status": {"phase": "p", "replicas": 3}}),
            ),
            9 => match self.random.below(3) {
                0 => get(format!("{named}/scale")),
                1 => patch(format!("{named}/scale"), MERGE, json!({"spec": {"replicas": 5}})),
                _ => put(format!("{named}/status"), "object"),
            },
            10 => get(&named).saving("object"),
            11..=13 => self.rare_request(&path, &named, body),
            _ => delete(&named),
        };
        self.steps.push(step);
    }

    /// A less common request on custom resources.
    fn rare_request(&mut self, path: &str, named: &str, body: Value) -> Step {
        let spec = body["spec"].clone();
        match self.random.below(12) {
            0 => patch(format!("{named}?fieldManager=n"), APPLY, body),
            1 => patch(format!("{named}?fieldManager=n&dryRun=All"), APPLY, body),
            2 => {
                let operations = json!([
                    {"op": "add", "path": "/spec", "value": spec},
                    {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},
                ]);
                patch(named, JSON_PATCH, operations)
            }
            3 => patch(named, JSON_PATCH, json!([{"op": "remove", "path": "/spec"}])),
            4 => patch(named, STRATEGIC, json!({"spec": spec})),
            5 => {
                let mut status = body;
                status["status"] = json!({"phase": "q", "replicas": 1});
                patch(format!("{named}/status?fieldManager=s&force=true"), APPLY, status)
            }
            6 => {
                let scale = json!({
                    "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4},
                });
                patch(format!("{named}/scale?fieldManager=z&force=true"), APPLY, scale)
            }
            7 => {
                let mut unnamed = body;
                unnamed["metadata"] = json!({"generateName": "gen-"});
                post(format!("{path}?dryRun=All"), unnamed)
            }
            8 => delete(format!("{path}?labelSelector=app%3Dy")),
            9 => {
                let policy = *self.random.pick(&["Foreground", "Orphan", "Background"]);
                delete(named).with_body(json!({"propagationPolicy": policy}))
            }
            10 => delete(format!("{named}?dryRun=All")),
            _ => patch(named, MERGE, json!({"metadata": {"finalizers": null}})),
        }
    }

    fn read_objects(&mut self) {
        let version = self.some_version();
        let path = self.collection(version);
        let step = match self.random.below(7) {
            5 => get(format!("{path}?labelSelector=app%20in%20(x,y)&limit=500")),
            6 => get(path).accepting(PARTIAL_LIST),
            0 => get(format!("{path}/a${{ns}}")).accepting(TABLE),
            1 => {
                let field = *self.random.pick(&["a", "b", "c", "d", "replicas"]);
                let value = *self.random.pick(&["x", "2", "true", ""]);
                get(format!("{path}?fieldSelector=spec.{field}%3D{value}"))
            }
            2 => get(format!("{path}?fieldSelector=metadata.name%3Da${{ns}}")),
            3 => get(path).accepting(TABLE),
            _ => get(path),
        };
        self.steps.push(step);
    }

    /// Closes watches from before a change: kube-apiserver serves the old CRD on them for up to two
    /// minutes, the embedded server ends them immediately.
    fn close_watches(&mut self) {
        for name in std::mem::take(&mut self.watches) {
            self.steps.push(read(&name));
            self.steps.push(close(&name));
        }
    }

    fn watch(&mut self) {
        if let Some(name) = self.watches.pop() {
            self.steps.push(read(&name));
            self.steps.push(close(&name));
            return;
        }
        let name = format!("w{}", self.steps.len());
        let version = self.versions[self.random.below(self.versions.len())].name;
        self.steps.push(watch(&name, format!("{}?watch=1", self.collection(version))));
        self.watches.push(name);
    }

    /// Reads the discovery and OpenAPI documents of the CRD.
    fn documents(&mut self) {
        let served: Vec<_> = VERSIONS
            .iter()
            .filter(|name| self.versions.iter().any(|v| v.served && v.name == **name))
            .collect();
        let Some(version) = served.first() else { return };
        let wait = |mut step: Step, contains: &str| {
            step.until = Some(Until { contains: Some(contains.to_owned()), ..Self::until() });
            step
        };
        let facts = |path: &str| Step { facts: Some(Scope::Own), ..get(path) };
        let (revision, list) = ("${revision}", "\"versions\":${served}");
        let resources = format!("/apis/${{group}}/{version}");
        let step = match self.random.below(10) {
            0 | 1 => wait(facts("/apis/${group}"), list),
            2 => wait(facts("/apis"), list),
            3 => wait(facts("/apis").accepting(AGGREGATED), "${served}"),
            4 | 5 => wait(facts(&resources), "things"),
            6 | 7 => wait(facts(&format!("/openapi/v3/apis/${{group}}/{version}")), revision),
            8 => {
                // kube-apiserver adds the versions to the index one after the other.
                let versions = served.iter().map(|version| format!("/{version}\""));
                let contains_all = versions.collect();
                let until = Until { contains: None, contains_all, ..Self::until() };
                Step { until: Some(until), ..facts("/openapi/v3") }
            }
            _ if self.random.percent(30) => wait(facts("/openapi/v2"), revision),
            _ => wait(facts(&resources), "things"),
        };
        self.steps.push(step);
    }
}

impl Version {
    /// Adds selectable fields and printer columns for some properties.
    fn select(&mut self, random: &mut Random) {
        let properties = self.spec["properties"].as_object();
        let scalars: Vec<_> = properties
            .into_iter()
            .flatten()
            .filter_map(|(name, schema)| Some((name.clone(), schema["type"].as_str()?.to_owned())))
            .filter(|(_, ty)| matches!(ty.as_str(), "string" | "integer" | "boolean"))
            .collect();
        for (name, ty) in scalars {
            if random.percent(25) {
                let mut fields = self.extra["selectableFields"].take();
                if !fields.is_array() {
                    fields = json!([]);
                }
                if let Value::Array(fields) = &mut fields {
                    fields.push(json!({"jsonPath": format!(".spec.{name}")}));
                }
                self.extra["selectableFields"] = fields;
            }
            if random.percent(25) {
                let mut columns = self.extra["additionalPrinterColumns"].take();
                if !columns.is_array() {
                    columns = json!([]);
                }
                if let Value::Array(columns) = &mut columns {
                    let path = format!(".spec.{name}");
                    columns.push(json!({"name": format!("F{name}"), "type": ty, "jsonPath": path}));
                }
                self.extra["additionalPrinterColumns"] = columns;
            }
        }
    }

    fn render(&self, revision: usize) -> Value {
        let marker = format!("rev{revision}");
        let mut spec = self.spec.clone();
        set_at(&mut spec, &format!("/properties/{marker}"), json!({"type": "string"}));
        set_at(&mut spec, "/properties/replicas", json!({"type": "integer", "format": "int32"}));
        let mut schema = json!({"type": "object", "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"}, "replicas": {"type": "integer"},
            }},
        }});
        if self.extra["loose"] == true {
            schema["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        let mut version = json!({
            "name": self.name, "served": self.served, "storage": self.storage,
            "schema": {"openAPIV3Schema": schema},
        });
        for (name, value) in self.extra.as_object().into_iter().flatten() {
            if name != "loose" {
                version[name] = value.clone();
            }
        }
        let mut columns = vec![json!({"name": marker, "type": "string", "jsonPath": ".spec.a"})];
        columns.extend(
            self.extra["additionalPrinterColumns"].as_array().into_iter().flatten().cloned(),
        );
        version["additionalPrinterColumns"] = columns.into();
        version
    }
}

/// Saves the revision that a write of the CRD creates, if it is accepted.
fn accepting_revision(mut step: Step) -> Step {
    for name in ["revision", "served"] {
        step.renew.insert(name.to_owned(), format!("/metadata/annotations/{name}"));
    }
    step
}

/// Generates the parts of a version other than its schema.
fn extra(random: &mut Random) -> Value {
    let mut extra = json!({});
    if random.percent(40) {
        extra["subresources"] = json!({"status": {}});
    }
    if random.percent(25) {
        extra["subresources"]["scale"] = json!({
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        });
        if random.percent(40) {
            extra["subresources"]["scale"]["labelSelectorPath"] = ".status.phase".into();
        }
    }
    if random.percent(40) {
        let mut columns = Vec::new();
        for (at, (kind, path)) in [
            ("integer", ".spec.b"),
            ("number", ".spec.c"),
            ("boolean", ".spec.d"),
            ("string", ".spec.alpha"),
            ("date", ".metadata.creationTimestamp"),
            ("string", ".metadata.labels['app']"),
            ("string", ".spec.beta[*].k"),
        ]
        .into_iter()
        .enumerate()
        {
            if random.percent(40) {
                let mut column = json!({"name": format!("C{at}"), "type": kind, "jsonPath": path});
                if random.percent(30) {
                    column["priority"] = 1.into();
                }
                columns.push(column);
            }
        }
        extra["additionalPrinterColumns"] = columns.into();
    }
    if random.percent(20) {
        extra["selectableFields"] = json!([{"jsonPath": ".spec.replicas"}]);
    }
    if random.percent(10) {
        extra["loose"] = true.into();
    }
    extra
}
