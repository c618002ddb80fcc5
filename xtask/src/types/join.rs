//! Joins the Go facts with the published OpenAPI and protobuf documents, and checks that they
//! agree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Error;
use super::facts::{self, Declaration, Facts};

#[derive(Debug)]
pub(super) struct Package {
    /// The prefix of its OpenAPI names: `io.k8s.api.core.v1`.
    pub(super) name: String,
    /// The last two labels of `name`, which are unique: `core.v1`.
    pub(super) alias: String,
    pub(super) items: BTreeMap<String, Item>,
}

#[derive(Debug)]
pub(super) enum Item {
    /// `wrapped`: in protobuf, a message whose field 1 is the list.
    Alias {
        expression: String,
        wrapped: bool,
    },
    Custom,
    Struct(Struct),
}

#[derive(Debug)]
pub(super) struct Struct {
    pub(super) atomic: bool,
    /// The `x-kubernetes-unions` extension as JSON text, or empty.
    pub(super) unions: String,
    /// API versions by kind.
    pub(super) kinds: BTreeMap<String, BTreeSet<String>>,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) fact: facts::Field,
    pub(super) required: bool,
    pub(super) list_type: String,
    pub(super) list_keys: Vec<String>,
    pub(super) map_type: String,
}

pub(super) fn join(facts: Facts, openapi: &Value, protobuf: &Value) -> Result<Vec<Package>, Error> {
    let mut check = Check { facts: &facts, openapi, protobuf, mismatches: Vec::new() };
    check.all();
    if !check.mismatches.is_empty() {
        return Err(Error::Disagreement(check.mismatches.join("\n")));
    }
    let wrapped = check.wrapped();
    let definitions = Definitions { published: &openapi["definitions"], outer: check.embedders() };
    Ok(facts
        .into_iter()
        .map(|(name, declarations)| {
            let items = declarations
                .into_iter()
                .map(|(item, declaration)| {
                    let full = format!("{name}.{item}");
                    let joined = match declaration {
                        Declaration::Custom => Item::Custom,
                        Declaration::Alias(expression) => {
                            Item::Alias { expression, wrapped: wrapped.contains(&full) }
                        }
                        Declaration::Struct(ty) => {
                            Item::Struct(join_struct(ty, &full, &definitions))
                        }
                    };
                    (item, joined)
                })
                .collect();
            Package { alias: alias(&name), name, items }
        })
        .collect())
}

/// Returns the last two labels of a package name.
pub(super) fn alias(package: &str) -> String {
    let mut labels = package.rsplitn(3, '.');
    let (last, first) = (labels.next().unwrap_or_default(), labels.next().unwrap_or_default());
    format!("{first}.{last}")
}

/// Finds the OpenAPI definition that contains a type's fields.
struct Definitions<'a> {
    published: &'a Value,
    /// The embedding type of each embedded type, by full name.
    outer: BTreeMap<String, String>,
}

impl Definitions<'_> {
    /// Returns the definition of the type or, if it has none, of the type that embeds it.
    fn get(&self, full: &str) -> &Value {
        let mut name = full;
        while self.published.get(name).is_none() {
            match self.outer.get(name) {
                Some(outer) => name = outer,
                None => break,
            }
        }
        &self.published[name]
    }
}

fn join_struct(ty: facts::Struct, full: &str, definitions: &Definitions<'_>) -> Struct {
    let own = &definitions.published[full];
    let definition = definitions.get(full);
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (api_version, kind) in ty.kinds {
        kinds.entry(kind).or_default().insert(api_version);
    }
    for gvk in array(&own["x-kubernetes-group-version-kind"]) {
        let (group, version) = (text(&gvk["group"]), text(&gvk["version"]));
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        kinds.entry(text(&gvk["kind"]).to_owned()).or_default().insert(api_version);
    }
    let required: BTreeSet<&str> = array(&definition["required"]).map(text).collect();
    let fields = ty
        .fields
        .into_iter()
        .map(|fact| {
            let property = &definition["properties"][&fact.name];
            Field {
                required: required.contains(fact.name.as_str()),
                list_type: text(&property["x-kubernetes-list-type"]).to_owned(),
                list_keys: array(&property["x-kubernetes-list-map-keys"])
                    .map(|key| text(key).to_owned())
                    .collect(),
                map_type: text(&property["x-kubernetes-map-type"]).to_owned(),
                fact,
            }
        })
        .collect();
    Struct {
        atomic: own["x-kubernetes-map-type"] == "atomic",
        unions: own.get("x-kubernetes-unions").map(Value::to_string).unwrap_or_default(),
        kinds,
        fields,
    }
}

struct Check<'a> {
    facts: &'a Facts,
    openapi: &'a Value,
    protobuf: &'a Value,
    mismatches: Vec<String>,
}

impl<'a> Check<'a> {
    fn all(&mut self) {
        let facts = self.facts;
        for (package, declarations) in facts {
            for (name, declaration) in declarations {
                if let Declaration::Struct(ty) = declaration {
                    self.properties(&format!("{package}.{name}"), package, ty);
                    self.numbers(&format!("{package}.{name}"), package, ty);
                }
            }
        }
        let aliases: BTreeSet<String> = facts.keys().map(|package| alias(package)).collect();
        if aliases.len() != facts.len() {
            self.mismatches.push("two packages share their last two labels".to_owned());
        }
    }

    /// Checks that OpenAPI and Go have the same properties and strategic merge patch rules.
    fn properties(&mut self, full: &str, package: &str, ty: &facts::Struct) {
        let Some(definition) = self.openapi["definitions"].get(full) else { return };
        let mut names = BTreeSet::new();
        self.flatten(package, ty, &mut names);
        let published: BTreeSet<&str> = definition["properties"]
            .as_object()
            .into_iter()
            .flat_map(|properties| properties.keys().map(String::as_str))
            .collect();
        for name in names.symmetric_difference(&published) {
            self.mismatches.push(format!("{full}.{name}: in only one of Go and OpenAPI"));
        }
        for field in ty.fields.iter().filter(|field| !field.embedded) {
            let property = &definition["properties"][&field.name];
            if text(&property["x-kubernetes-patch-strategy"]) != field.patch_strategy
                || text(&property["x-kubernetes-patch-merge-key"]) != field.merge_key
            {
                self.mismatches.push(format!("{full}.{}: patch rules differ", field.name));
            }
        }
    }

    fn flatten(&self, package: &str, ty: &'a facts::Struct, names: &mut BTreeSet<&'a str>) {
        for field in &ty.fields {
            if !field.embedded {
                names.insert(&field.name);
            } else if let Some((package, Declaration::Struct(inner))) =
                self.find(package, &field.expression)
            {
                self.flatten(package, inner, names);
            }
        }
    }

    /// Checks that protobuf and Go have the same field numbers and types.
    fn numbers(&mut self, full: &str, package: &str, ty: &facts::Struct) {
        let message = message_name(full);
        for field in ty.fields.iter().filter(|field| field.number != 0) {
            let entry = &self.protobuf[&message][field.number.to_string()];
            let expected = self.wire(package, &field.expression);
            let kind = match entry[1].as_str() {
                Some("map") => format!("map[{}]{}", text(&entry[2][0]), text(&entry[2][1])),
                Some(kind) if entry[2] == "repeated" => format!("[]{kind}"),
                Some(kind) => kind.to_owned(),
                None => {
                    self.mismatches.push(format!("{full}.{}: no such number", field.name));
                    continue;
                }
            };
            // A list may have its own wrapper message.
            if kind != expected && !self.is_wrapper(package, &field.expression, &kind) {
                self.mismatches.push(format!("{full}.{}: {kind}, not {expected}", field.name));
            }
        }
    }

    fn embedders(&self) -> BTreeMap<String, String> {
        let mut outer = BTreeMap::new();
        for (package, declarations) in self.facts {
            for (name, declaration) in declarations {
                let Declaration::Struct(ty) = declaration else { continue };
                for field in ty.fields.iter().filter(|field| field.embedded) {
                    let inner = qualify(package, &field.expression);
                    outer.entry(inner).or_insert_with(|| format!("{package}.{name}"));
                }
            }
        }
        outer
    }

    /// Returns the full names of the list types that are messages in protobuf.
    fn wrapped(&self) -> BTreeSet<String> {
        let aliases = self.facts.iter().flat_map(|(package, declarations)| {
            declarations.iter().filter_map(move |(name, declaration)| match declaration {
                Declaration::Alias(_) => Some(format!("{package}.{name}")),
                _ => None,
            })
        });
        aliases.filter(|full| self.protobuf.get(message_name(full)).is_some()).collect()
    }

    fn is_wrapper(&self, package: &str, expression: &str, kind: &str) -> bool {
        let element = expression.rsplit(']').next().unwrap_or(expression);
        let message = kind.rsplit(']').next().unwrap_or(kind);
        message_name(&qualify(package, element)) == message
            && self.protobuf[message]["1"][0] == "items"
    }

    /// Returns the protobuf type of a Go type expression.
    fn wire(&self, package: &str, expression: &str) -> String {
        let expression = expression.strip_prefix('*').unwrap_or(expression);
        if expression == "[]uint8" {
            return "bytes".to_owned();
        }
        if let Some(element) = expression.strip_prefix("[]") {
            return format!("[]{}", self.wire(package, element));
        }
        if let Some((key, value)) =
            expression.strip_prefix("map[").and_then(|rest| rest.split_once(']'))
        {
            return format!("map[{}]{}", self.wire(package, key), self.wire(package, value));
        }
        match self.find(package, expression) {
            Some((package, Declaration::Alias(inner))) => self.wire(package, inner),
            Some(_) => message_name(&qualify(package, expression)),
            None if expression == "float64" => "double".to_owned(),
            None => expression.to_owned(),
        }
    }

    fn find(&self, package: &str, expression: &str) -> Option<(&'a str, &'a Declaration)> {
        let full = qualify(package, expression);
        let (package, name) = full.rsplit_once('.')?;
        let (package, declarations) = self.facts.get_key_value(package)?;
        Some((package, declarations.get(name)?))
    }
}

/// Resolves `.Name` relative to a package; other names are already full.
pub(super) fn qualify(package: &str, name: &str) -> String {
    if name.starts_with('.') { format!("{package}{name}") } else { name.to_owned() }
}

fn message_name(full: &str) -> String {
    full.replacen("io.k8s.", "k8s.io.", 1).replace('-', "_")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
