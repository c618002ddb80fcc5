//! Generates mixed sequences, step by step.

use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use super::random::Random;
use super::shared::wait_for;
use super::{bad, schema};
use crate::sequence::{Step, set_at};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
pub(super) const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub(super) const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Returns the collection path of a kind.
pub(super) fn collection(kind: &Kind) -> String {
    if kind.namespaced {
        format!("{}/namespaces/${{ns}}/{}", kind.base, kind.plural)
    } else {
        format!("{}/{}", kind.base, kind.plural)
    }
}

/// An object that was created, unless the server rejected it.
struct Created {
    kind: usize,
    name: String,
    /// Variable of its last response; `…v` and `…u` are its resourceVersion and uid.
    saved: String,
}

/// Generates a mixed sequence.
pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut generator = Generator::new(random);
    generator.generate();
    generator.steps
}

/// Generates one sequence.
struct Generator<'a> {
    random: &'a mut Random,
    kinds: Vec<usize>,
    created: Vec<Created>,
    watches: Vec<String>,
    pages: Vec<(usize, String, String)>,
    steps: Vec<Step>,
    saved: usize,
    generated: usize,
}

impl<'a> Generator<'a> {
    fn new(random: &'a mut Random) -> Self {
        let (custom, built_in): (Vec<_>, Vec<_>) =
            (0..KINDS.len()).partition(|kind| KINDS[*kind].custom);
        let mut kinds = Vec::new();
        for _ in 0..2 + random.below(2) {
            let some = if random.percent(35) { &custom } else { &built_in };
            kinds.push(*random.pick(some));
        }
        Self {
            random,
            kinds,
            created: Vec::new(),
            watches: Vec::new(),
            pages: Vec::new(),
            steps: Vec::new(),
            saved: 0,
            generated: 0,
        }
    }

    fn generate(&mut self) {
        if self.random.percent(7) {
            self.crd();
        }
        self.create();
        self.create();
        let length = 30 + self.random.below(12);
        while self.steps.len() < length {
            match self.random.weighted(&[18, 9, 9, 12, 6, 14, 9, 6, 5, 3, 6, 10, 2]) {
                0 => self.create(),
                1 => self.get(),
                2 => self.list(),
                3 => self.update(),
                4 => self.status(),
                5 => self.patch(),
                6 => self.apply(),
                7 => self.delete(),
                8 => self.watch(),
                9 => self.scale(),
                10 => self.page(),
                11 => self.bad(),
                _ => self.delete_collection(),
            }
        }
        for name in std::mem::take(&mut self.watches) {
            self.steps.push(Step { read: Some(name), ..Step::default() });
        }
    }

    fn kind(&mut self) -> usize {
        *self.random.pick(&self.kinds)
    }

    fn name(&mut self, kind: usize) -> String {
        let name = *self.random.pick(&NAMES);
        // Names of cluster-scoped objects must not collide with those of other sequences.
        if KINDS[kind].namespaced { name.to_owned() } else { format!("${{ns}}-{name}") }
    }

    fn variable(&mut self) -> String {
        self.saved += 1;
        format!("o{}", self.saved)
    }

    /// Returns an object created before, or occasionally an unused name.
    fn target(&mut self) -> (usize, String, String) {
        if self.created.is_empty() || self.random.percent(6) {
            let kind = self.kind();
            return (kind, self.name(kind), "none".to_owned());
        }
        let created = &self.created[self.random.below(self.created.len())];
        (created.kind, created.name.clone(), created.saved.clone())
    }

    fn push_saving(&mut self, mut step: Step, kind: usize, name: String) {
        let saved = self.variable();
        step.save.insert(saved.clone(), String::new());
        step.save.insert(format!("{saved}v"), "/metadata/resourceVersion".to_owned());
        step.save.insert(format!("{saved}u"), "/metadata/uid".to_owned());
        self.steps.push(step);
        self.created.retain(|created| {
            created.kind != kind || created.name != name || created.saved == saved
        });
        self.created.push(Created { kind, name, saved });
    }

    fn object(&mut self, kind: usize, name: &str) -> Value {
        let of = &KINDS[kind];
        let mut object = (of.make)(self.random);
        object["apiVersion"] = of.api_version.into();
        object["kind"] = of.kind.into();
        set_at(&mut object, "/metadata/name", name.into());
        let mut labels = json!({"app": *self.random.pick(&["x", "y"])});
        if !of.namespaced {
            labels["seq"] = "${ns}".into();
        }
        if self.random.percent(30) {
            labels["tier"] = (*self.random.pick(&["web", "db"])).into();
        }
        set_at(&mut object, "/metadata/labels", labels);
        if self.random.percent(15) {
            set_at(&mut object, "/metadata/annotations/note", "n".into());
        }
        if self.random.percent(12) {
            set_at(&mut object, "/metadata/finalizers", json!(["example.com/hold"]));
        }
        if self.random.percent(10)
            && let Some(owner) = self.created.last()
        {
            let reference = json!([{
                "apiVersion": KINDS[owner.kind].api_version, "kind": KINDS[owner.kind].kind,
                "name": owner.name, "uid": format!("${{{}u}}", owner.saved),
                "blockOwnerDeletion": true,
            }]);
            set_at(&mut object, "/metadata/ownerReferences", reference);
        }
        object
    }

    /// Returns the options of a write, which are empty most of the time.
    fn write_options(&mut self) -> String {
        let options = [
            ("dryRun=All", 7),
            ("fieldValidation=Strict", 6),
            ("fieldValidation=Warn", 4),
            ("fieldValidation=Ignore", 4),
            ("fieldManager=someone", 6),
        ];
        let mut query = Vec::new();
        for (option, percent) in options {
            let name = option.split('=').next().unwrap_or("");
            let twice = query.iter().any(|other: &&str| other.starts_with(name));
            if !twice && self.random.percent(percent) {
                query.push(option);
            }
        }
        if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
    }

    fn create(&mut self) {
        let kind = self.kind();
        let name = self.name(kind);
        let mut object = self.object(kind, &name);
        if self.random.percent(12) {
            let (pointer, value) = *self.random.pick(&[
                ("/unknown", "1"),
                ("/spec/unknown", "{\"a\":1}"),
                ("/metadata/unknown", "1"),
            ]);
            set_at(&mut object, pointer, serde_json::from_str(value).unwrap_or_default());
        }
        let options = self.write_options();
        let path = collection(&KINDS[kind]);
        if self.random.percent(8) {
            self.generated += 1;
            // A different prefix each time, so that the order of lists is deterministic.
            let prefix = if KINDS[kind].namespaced {
                format!("gen{}-", self.generated)
            } else {
                format!("${{ns}}-gen{}-", self.generated)
            };
            set_at(&mut object, "/metadata/generateName", prefix.into());
            crate::sequence::unset_at(&mut object, "/metadata/name");
            let step = Step::call("POST", format!("{path}{options}")).with_body(object);
            self.steps.push(step);
            return;
        }
        let step = Step::call("POST", format!("{path}{options}")).with_body(object);
        self.push_saving(step, kind, name);
    }

    fn get(&mut self) {
        let (kind, name, _) = self.target();
        let mut step = Step::call("GET", format!("{}/{name}", collection(&KINDS[kind])));
        match self.random.below(8) {
            0 => _ = step.headers.insert("accept".to_owned(), TABLE.to_owned()),
            1 => _ = step.headers.insert("accept".to_owned(), PARTIAL.to_owned()),
            2 => _ = step.headers.insert("accept".to_owned(), "application/yaml".to_owned()),
            _ => {
                self.push_saving(step, kind, name);
                return;
            }
        }
        self.steps.push(step);
    }

    fn selectors(&mut self, kind: usize) -> Vec<String> {
        let of = &KINDS[kind];
        let mut query = Vec::new();
        let mut labels = Vec::new();
        if !of.namespaced {
            labels.push("seq%3D${ns}".to_owned());
        }
        if self.random.percent(35) {
            let selector = *self.random.pick(&[
                "app%3Dx",
                "app!%3Dx",
                "app%20in%20(x,y)",
                "app%20notin%20(x)",
                "tier",
                "!tier",
                "tier%3Ddb,app%3Dy",
            ]);
            labels.push(selector.to_owned());
        }
        if !labels.is_empty() {
            query.push(format!("labelSelector={}", labels.join(",")));
        }
        if self.random.percent(20) {
            let mut fields = vec!["metadata.name=a", "metadata.name!=a", "metadata.nope=1"];
            fields.extend(of.fields);
            let field = self.random.pick(&fields).replace('=', "%3D");
            query.push(format!("fieldSelector={field}"));
        }
        query
    }

    fn list(&mut self) {
        let kind = self.kind();
        let mut query = self.selectors(kind);
        if self.random.percent(10)
            && let Some(created) = self.created.last()
        {
            query.push(format!("resourceVersion=${{{}v}}", created.saved));
            query.push("resourceVersionMatch=NotOlderThan".to_owned());
        }
        let mut step = Step::call("GET", with_query(&collection(&KINDS[kind]), &query));
        match self.random.below(6) {
            0 => _ = step.headers.insert("accept".to_owned(), TABLE.to_owned()),
            1 => _ = step.headers.insert("accept".to_owned(), PARTIAL_LIST.to_owned()),
            _ => {}
        }
        self.steps.push(step);
    }

    /// Lists a page; the next one is requested after other steps.
    fn page(&mut self) {
        if let Some((kind, query, token)) = self.pages.pop() {
            let path = collection(&KINDS[kind]);
            let step = Step::call("GET", format!("{path}?{query}&continue=${{{token}}}"));
            self.steps.push(step);
            return;
        }
        let kind = self.kind();
        if !KINDS[kind].namespaced {
            // Other sequences would affect whether more objects follow.
            return;
        }
        let mut query = self.selectors(kind);
        query.push(format!("limit={}", 1 + self.random.below(2)));
        let token = self.variable();
        let mut step = Step::call("GET", with_query(&collection(&KINDS[kind]), &query));
        step.save.insert(token.clone(), "/metadata/continue".to_owned());
        self.steps.push(step);
        self.pages.push((kind, query.join("&"), token));
    }

    fn edit(&mut self, edits: &[(&'static str, &'static str)]) -> (String, Value) {
        let metadata = [
            ("/metadata/labels/tier", "\"web\""),
            ("/metadata/annotations/note", "\"changed\""),
            ("/metadata/finalizers", "[\"example.com/hold\"]"),
            ("/metadata/finalizers", "[]"),
        ];
        let all = if edits.is_empty() || self.random.percent(20) { &metadata[..] } else { edits };
        let (pointer, value) = *self.random.pick(all);
        (pointer.to_owned(), serde_json::from_str(value).unwrap_or_default())
    }

    fn update(&mut self) {
        let (kind, name, saved) = self.target();
        let options = self.write_options();
        let path = format!("{}/{name}{options}", collection(&KINDS[kind]));
        let mut step = Step::call("PUT", path);
        if self.random.percent(15) {
            let whole = self.object(kind, &name);
            self.push_saving(step.with_body(whole), kind, name);
            return;
        }
        step.from = Some(saved);
        for _ in 0..self.random.below(3) {
            let (pointer, value) = self.edit(KINDS[kind].edits);
            step.set.insert(pointer, value);
        }
        match self.random.below(10) {
            0 => step.unset.push("/metadata/resourceVersion".to_owned()),
            1 => step.unset.push("/metadata/uid".to_owned()),
            2 => step.unset.push("/spec".to_owned()),
            3 => step.unset.push("/metadata/managedFields".to_owned()),
            4 => {
                _ = step.set.insert(
                    "/metadata/uid".to_owned(),
                    "00000000-0000-4000-8000-00000000000a".into(),
                );
            }
            _ => {}
        }
        if self.random.percent(70) {
            self.push_saving(step, kind, name);
        } else {
            self.steps.push(step);
        }
    }

    fn status(&mut self) {
        let (kind, name, saved) = self.target();
        let options = self.write_options();
        let path = format!("{}/{name}/status{options}", collection(&KINDS[kind]));
        let (pointer, value) = self.edit(KINDS[kind].status);
        if self.random.percent(20) {
            let step = self.status_by_other_request(kind, &name, &pointer, &value);
            self.push_saving(step, kind, name);
            return;
        }
        if self.random.percent(50) {
            let mut body = json!({});
            set_at(&mut body, &pointer, value);
            let step =
                Step::call("PATCH", path).with_body(body).with_type("application/merge-patch+json");
            self.push_saving(step, kind, name);
            return;
        }
        if self.random.percent(15) {
            self.steps.push(Step::call("GET", path));
            return;
        }
        let mut step = Step::call("PUT", path);
        step.from = Some(saved);
        step.set.insert(pointer, value);
        if self.random.percent(30) {
            let (pointer, value) = self.edit(KINDS[kind].edits);
            step.set.insert(pointer, value);
        }
        self.push_saving(step, kind, name);
    }

    /// Writes a status by a less common request.
    fn status_by_other_request(
        &mut self,
        kind: usize,
        name: &str,
        pointer: &str,
        value: &Value,
    ) -> Step {
        let path = format!("{}/{name}/status", collection(&KINDS[kind]));
        let mut body = json!({});
        set_at(&mut body, pointer, value.clone());
        match self.random.below(4) {
            0 => {
                body["apiVersion"] = KINDS[kind].api_version.into();
                body["kind"] = KINDS[kind].kind.into();
                set_at(&mut body, "/metadata/name", name.into());
                let force = *self.random.pick(&["", "&force=true"]);
                Step::call("PATCH", format!("{path}?fieldManager=s1{force}"))
                    .with_body(body)
                    .with_type("application/apply-patch+yaml")
            }
            1 => Step::call("PATCH", path)
                .with_body(body)
                .with_type("application/strategic-merge-patch+json"),
            2 => Step::call("PATCH", path)
                .with_body(json!([{"op": "add", "path": pointer, "value": value}]))
                .with_type("application/json-patch+json"),
            _ => {
                let whole = self.object(kind, name);
                Step::call("PUT", path).with_body(whole)
            }
        }
    }

    fn patch(&mut self) {
        let (kind, name, saved) = self.target();
        let options = self.write_options();
        let path = format!("{}/{name}{options}", collection(&KINDS[kind]));
        let (pointer, value) = self.edit(KINDS[kind].edits);
        let step = match self.random.below(3) {
            0 => {
                let operations = match self.random.below(6) {
                    0 => json!([{"op": "remove", "path": pointer}]),
                    1 => {
                        json!([{"op": "test", "path": pointer, "value": value}, {"op": "add", "path": "/metadata/annotations", "value": {"t": "1"}}])
                    }
                    2 => json!([{"op": "replace", "path": pointer, "value": value}]),
                    3 => {
                        json!([{"op": "test", "path": "/metadata/resourceVersion", "value": format!("${{{saved}v}}")}, {"op": "add", "path": pointer, "value": value}])
                    }
                    _ => json!([{"op": "add", "path": pointer, "value": value}]),
                };
                Step::call("PATCH", path)
                    .with_body(operations)
                    .with_type("application/json-patch+json")
            }
            which => {
                let mut body = json!({});
                // Merge patches cannot address list items by index.
                if !pointer.split('/').any(|part| part.parse::<usize>().is_ok()) {
                    set_at(&mut body, &pointer, value);
                } else {
                    set_at(&mut body, "/metadata/labels/patched", "yes".into());
                }
                if self.random.percent(10) {
                    set_at(&mut body, "/metadata/labels/app", Value::Null);
                }
                if self.random.percent(10) {
                    let version = format!("${{{saved}v}}");
                    set_at(&mut body, "/metadata/resourceVersion", version.into());
                }
                if which == 1 && self.random.percent(20) {
                    let containers = json!([{"name": "c", "env": [{"name": "P", "value": "1"}]}]);
                    set_at(&mut body, "/spec/template/spec/containers", containers);
                }
                let content_type = match which {
                    1 => "application/strategic-merge-patch+json",
                    _ => "application/merge-patch+json",
                };
                Step::call("PATCH", path).with_body(body).with_type(content_type)
            }
        };
        self.push_saving(step, kind, name);
    }

    fn apply(&mut self) {
        let kind = self.kind();
        let name = self.name(kind);
        let mut object = self.object(kind, &name);
        if self.random.percent(30) {
            let (pointer, value) = self.edit(KINDS[kind].edits);
            set_at(&mut object, &pointer, value);
        }
        if self.random.percent(8) {
            set_at(&mut object, "/metadata/managedFields", json!([]));
        }
        let manager = *self.random.pick(&["m1", "m2"]);
        let mut query = vec![format!("fieldManager={manager}")];
        if self.random.percent(5) {
            query.clear();
        }
        if self.random.percent(40) {
            query.push("force=true".to_owned());
        }
        if self.random.percent(8) {
            query.push("dryRun=All".to_owned());
        }
        let path = format!("{}/{name}", collection(&KINDS[kind]));
        let step = Step::call("PATCH", with_query(&path, &query))
            .with_body(object)
            .with_type("application/apply-patch+yaml");
        self.push_saving(step, kind, name);
    }

    fn delete_options(&mut self, saved: &str) -> Option<Value> {
        match self.random.below(11) {
            7 => Some(json!({"preconditions": {
                "uid": "00000000-0000-4000-8000-00000000000b", "resourceVersion": "1",
            }})),
            8 => Some(json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": true,
                "preconditions": {"uid": format!("${{{saved}u}}")},
            })),
            0 => Some(json!({"propagationPolicy": "Foreground"})),
            1 => Some(json!({"propagationPolicy": "Background"})),
            2 => Some(json!({"propagationPolicy": "Orphan"})),
            3 => Some(json!({"preconditions": {"uid": format!("${{{saved}u}}")}})),
            4 => Some(json!({"preconditions": {"resourceVersion": format!("${{{saved}v}}")}})),
            5 => Some(json!({"gracePeriodSeconds": *self.random.pick(&[0, 5])})),
            6 => Some(json!({"dryRun": ["All"]})),
            _ => None,
        }
    }

    fn delete(&mut self) {
        let (kind, name, saved) = self.target();
        let mut query = Vec::new();
        if self.random.percent(10) {
            let policy = *self.random.pick(&["Foreground", "Orphan", "Background"]);
            query.push(format!("propagationPolicy={policy}"));
        }
        if self.random.percent(10) {
            let option = *self.random.pick(&[
                "dryRun=All",
                "gracePeriodSeconds=0",
                "gracePeriodSeconds=7",
                "orphanDependents=true",
                "orphanDependents=false",
            ]);
            query.push(option.to_owned());
        }
        let path = format!("{}/{name}", collection(&KINDS[kind]));
        let mut step = Step::call("DELETE", with_query(&path, &query));
        step.body = self.delete_options(&saved);
        self.steps.push(step);
    }

    fn delete_collection(&mut self) {
        let kind = self.kind();
        let query = self.selectors(kind);
        if KINDS[kind].plural == "namespaces" {
            return;
        }
        let mut step = Step::call("DELETE", with_query(&collection(&KINDS[kind]), &query));
        step.body = self.delete_options("none");
        self.steps.push(step);
    }

    fn watch(&mut self) {
        if !self.watches.is_empty() && self.random.percent(50) {
            let name = self.watches.remove(0);
            self.steps.push(Step { read: Some(name.clone()), ..Step::default() });
            self.steps.push(Step { close: Some(name), ..Step::default() });
            return;
        }
        let kind = self.kind();
        let mut query = vec!["watch=1".to_owned()];
        query.extend(self.selectors(kind));
        let mut step = Step::default();
        match self.random.below(6) {
            0 | 1 => {
                query.push("sendInitialEvents=true".to_owned());
                query.push("allowWatchBookmarks=true".to_owned());
                query.push("resourceVersionMatch=NotOlderThan".to_owned());
            }
            2 | 3 if !self.created.is_empty() => {
                let created = &self.created[self.random.below(self.created.len())];
                query.push(format!("resourceVersion=${{{}v}}", created.saved));
            }
            4 => {
                step.headers.insert("accept".to_owned(), TABLE.to_owned());
            }
            _ => {}
        }
        let name = format!("w{}", self.steps.len());
        step.call = format!("GET {}", with_query(&collection(&KINDS[kind]), &query));
        step.watch = Some(name.clone());
        self.steps.push(step);
        self.watches.push(name);
    }

    fn scale(&mut self) {
        let Some(kind) = self.kinds.iter().copied().find(|kind| KINDS[*kind].scale) else { return };
        let name = self.name(kind);
        let path = format!("{}/{name}/scale", collection(&KINDS[kind]));
        let replicas = self.random.pick(&[json!(0), json!(3), json!(-1), json!("x")]).clone();
        let step = match self.random.below(6) {
            3 => Step::call("PATCH", format!("{path}?fieldManager=m1&force=true"))
                .with_body(json!({
                    "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
                    "spec": {"replicas": replicas},
                }))
                .with_type("application/apply-patch+yaml"),
            4 => Step::call("PATCH", format!("{path}?dryRun=All"))
                .with_body(json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]))
                .with_type("application/json-patch+json"),
            5 => Step::call("PUT", path).with_body(json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
                "spec": {"replicas": replicas},
            })),
            0 => Step::call("GET", path).saving("scale"),
            1 => {
                let mut step = Step::call("PUT", path);
                step.from = Some("scale".to_owned());
                step.set.insert("/spec/replicas".to_owned(), replicas);
                step
            }
            _ => Step::call("PATCH", path)
                .with_body(json!({"spec": {"replicas": replicas}}))
                .with_type("application/merge-patch+json"),
        };
        self.steps.push(step);
    }

    fn bad(&mut self) {
        let kind = self.kind();
        let name = self.name(kind);
        let object = self.object(kind, &name);
        let step = bad::step(self.random, &KINDS[kind], &name, &object);
        self.steps.push(step);
    }

    /// Creates a CRD, uses it, changes it and deletes it while in use.
    fn crd(&mut self) {
        let spec = schema::object(self.random, 3);
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        });
        if self.random.percent(40) {
            version["subresources"] = json!({"status": {}});
        }
        if self.random.percent(40) {
            version["additionalPrinterColumns"] =
                json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]);
        }
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let body = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.${group}"},
            "spec": {
                "group": "${group}", "scope": "Namespaced", "versions": [version],
                "names": {"plural": "things", "kind": "Thing"},
            },
        });
        let mut step = Step::call("POST", crds).with_body(body);
        step.save.insert("crd".to_owned(), "/metadata/uid".to_owned());
        self.steps.push(step);
        let path = "/apis/${group}/v1/namespaces/${ns}/things";
        let mut wait = wait_for(path.to_owned());
        if let Some(until) = &mut wait.until {
            until.unless_null = Some("crd".to_owned());
            until.may_time_out = true;
        }
        self.steps.push(wait);
        let object = |random: &mut Random, name: &str| {
            json!({
                "apiVersion": "${group}/v1", "kind": "Thing", "metadata": {"name": name},
                "spec": schema::value(random, &spec),
            })
        };
        for _ in 0..6 + self.random.below(6) {
            let name = *self.random.pick(&NAMES);
            let body = object(self.random, name);
            let options = self.write_options();
            let named = format!("{path}/{name}{options}");
            let step = match self.random.below(6) {
                0 | 1 => Step::call("POST", format!("{path}{options}")).with_body(body),
                2 => Step::call("PATCH", format!("{path}/{name}?fieldManager=m&force=true"))
                    .with_body(body)
                    .with_type("application/apply-patch+yaml"),
                3 => Step::call("PATCH", named)
                    .with_body(json!({"spec": body["spec"]}))
                    .with_type("application/merge-patch+json"),
                4 => {
                    let mut step = Step::call("GET", path);
                    step.headers.insert("accept".to_owned(), TABLE.to_owned());
                    step
                }
                _ => Step::call("DELETE", format!("{path}/{name}")),
            };
            self.steps.push(step);
        }
    }
}

fn with_query(path: &str, query: &[String]) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}
