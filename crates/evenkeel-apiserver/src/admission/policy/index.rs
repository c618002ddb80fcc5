//! The stored policies with their bindings, kept current by the hooks of both kinds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::matching::MatchResources;
use super::mutating::Mutations;
use super::params::{ParamKind, ParamRef};
use super::validating::Validations;
use crate::storage::{Range, Record, Store};

/// The indexes of both kinds of policies.
#[derive(Clone, Default)]
pub(crate) struct Policies {
    pub(crate) mutating: Arc<Index<Mutations>>,
    pub(crate) validating: Arc<Index<Validations>>,
}

/// The compiled expressions of a kind of policies.
pub(crate) trait Evaluator: Sized + Send + Sync + 'static {
    /// The tables of the policies and of their bindings.
    const TABLES: [&'static str; 2];

    /// Compiles the spec of a policy.
    fn compile(spec: &Value) -> Self;
}

/// The policies of one kind.
pub(crate) struct Index<E> {
    /// Those that have bindings, by name.
    policies: RwLock<Arc<Vec<Policy<E>>>>,
    /// By the name of the policy.
    compiled: Mutex<HashMap<Box<str>, Compiled<E>>>,
}

/// The revision of a policy, and what it was compiled to.
type Compiled<E> = (u64, Arc<Definition<E>>);

/// A policy with its bindings, which are not empty.
pub(crate) struct Policy<E> {
    pub(super) definition: Arc<Definition<E>>,
    pub(super) bindings: Vec<Binding>,
}

/// A compiled policy.
pub(crate) struct Definition<E> {
    pub(super) name: String,
    pub(super) constraints: MatchResources,
    pub(super) ignores_failures: bool,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) evaluator: E,
}

/// A binding of a policy.
pub(super) struct Binding {
    pub(super) name: String,
    /// Matches everything if absent.
    pub(super) resources: Option<MatchResources>,
    pub(super) param_ref: Option<ParamRef>,
    /// Of a validating policy.
    pub(super) actions: Vec<String>,
}

impl<E> Default for Index<E> {
    fn default() -> Self {
        Self { policies: RwLock::default(), compiled: Mutex::default() }
    }
}

impl<E: Evaluator> Index<E> {
    /// Returns all policies that have bindings.
    pub(super) fn policies(&self) -> Arc<Vec<Policy<E>>> {
        self.policies.read().clone()
    }

    /// Reads policies and bindings again after a write to one. Unchanged policies are not compiled
    /// again.
    pub(crate) fn refresh(&self, store: &Store) {
        // Held while reading, so that the last of concurrent calls publishes the last state.
        let mut compiled = self.compiled.lock();
        let [policies, bindings] = E::TABLES.map(|table| {
            let page = store.table(table).list(Range::default(), None);
            page.map(|page| page.items).unwrap_or_default()
        });
        let mut by_policy: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
        for record in &bindings {
            let Some(binding) = parse(record) else { continue };
            let policy = binding["spec"]["policyName"].as_str().unwrap_or("").to_owned();
            let binding = Binding::parse(record.key.name(), &binding["spec"]);
            by_policy.entry(policy).or_default().push(binding);
        }
        let mut last = std::mem::take(&mut *compiled);
        let mut current = Vec::new();
        for record in &policies {
            let name = record.key.name();
            let Some(bindings) = by_policy.remove(name) else { continue };
            let known = last.remove(name).filter(|(revision, _)| *revision == record.revision);
            let definition = match known {
                Some((_, known)) => known,
                None => {
                    let Some(policy) = parse(record) else { continue };
                    Arc::new(Definition::compile(name, &policy["spec"]))
                }
            };
            compiled.insert(name.into(), (record.revision, definition.clone()));
            current.push(Policy { definition, bindings });
        }
        *self.policies.write() = Arc::new(current);
    }
}

impl<E: Evaluator> Definition<E> {
    fn compile(name: &str, spec: &Value) -> Self {
        Self {
            name: name.to_owned(),
            constraints: MatchResources::parse(&spec["matchConstraints"]),
            ignores_failures: spec["failurePolicy"] == "Ignore",
            param_kind: ParamKind::parse(&spec["paramKind"]),
            evaluator: E::compile(spec),
        }
    }
}

impl Binding {
    fn parse(name: &str, spec: &Value) -> Self {
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let resources = &spec["matchResources"];
        Self {
            name: name.to_owned(),
            resources: (!resources.is_null()).then(|| MatchResources::parse(resources)),
            param_ref: ParamRef::parse(&spec["paramRef"]),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

fn parse(record: &Record) -> Option<Value> {
    let parsed = serde_json::from_slice(&record.body);
    parsed
        .inspect_err(|error| {
            tracing::error!(%error, name = record.key.name(), "invalid admission policy");
        })
        .ok()
}
