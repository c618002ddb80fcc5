//! Registers webhooks with a manager.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::configuration::{Entry, Rule};
use super::registry::{Route, Webhooks};
use super::typed::{self, Default, Handle, Validate};
use super::{
    AdmissionHandler, AdmissionRequest, AdmissionResponse, Defaulter, Operation, Validator,
};
use crate::kind::{Kind, Object};

/// Why a webhook cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another webhook of the manager has the same path.
    #[error("a webhook with the path {0:?} is already registered")]
    PathTaken(String),
    /// The path is not one of a URL.
    #[error("{0:?} is not a path: it must start with a slash, without query and fragment")]
    Path(String),
    /// There is nothing to call.
    #[error("the webhook of {0} has no handler: add a defaulter or a validator")]
    NoHandler(Kind),
    /// The versions of a conversion do not fit together.
    #[error("conversion cannot be registered: {0}")]
    Conversion(String),
    /// The manager is stopping or has stopped.
    #[error("the manager is stopping")]
    Stopping,
}

/// Configures the admission webhooks of a type; see [`Manager::webhook`](crate::Manager::webhook).
///
/// Several defaulters and several validators run in the order in which they were added; the first
/// denial ends the request.
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// # fn example(manager: &Manager) -> Result<()> {
/// manager
///     .webhook::<ConfigMap>()
///     .validator(|map: &ConfigMap, _: &AdmissionRequest| match &map.data {
///         Some(_) => Ok(Warnings::new()),
///         None => Err("data is required".into()),
///     })
///     .timeout(Duration::from_secs(5))
///     .ignore_failures() // objects are admitted while the operator is down
///     .register()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a webhook is registered by `register`"]
pub struct WebhookBuilder<'a, K> {
    webhooks: &'a Webhooks,
    start: Box<dyn FnOnce() -> Result<(), RegisterError> + 'a>,
    defaulters: Vec<Default<K>>,
    mutating: Vec<Handle>,
    validators: Vec<Validate<K>>,
    validating: Vec<Handle>,
    mutating_path: Option<String>,
    validating_path: Option<String>,
    on_delete: bool,
    common: Common,
}

/// What both configurations of a type share.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) ignore_failures: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) side_effects: bool,
    pub(super) own_namespace: bool,
    pub(super) namespaces: Option<LabelSelector>,
    pub(super) objects: Option<LabelSelector>,
    pub(super) conditions: Vec<MatchCondition>,
}

impl<'a, K: Object> WebhookBuilder<'a, K> {
    pub(crate) fn new(
        webhooks: &'a Webhooks,
        start: impl FnOnce() -> Result<(), RegisterError> + 'a,
    ) -> Self {
        Self {
            webhooks,
            start: Box::new(start),
            defaulters: Vec::new(),
            mutating: Vec::new(),
            validators: Vec::new(),
            validating: Vec::new(),
            mutating_path: None,
            validating_path: None,
            on_delete: false,
            common: Common {
                ignore_failures: false,
                timeout: None,
                side_effects: false,
                own_namespace: false,
                namespaces: None,
                objects: None,
                conditions: Vec::new(),
            },
        }
    }

    /// Adds a defaulter.
    pub fn defaulter(mut self, defaulter: impl Defaulter<K>) -> Self {
        self.defaulters.push(typed::defaulter(defaulter));
        self
    }

    /// Adds a validator.
    pub fn validator(mut self, validator: impl Validator<K>) -> Self {
        self.validators.push(typed::validator(validator));
        self
    }

    /// Adds a handler that may change objects without decoding them. It runs after the defaulters
    /// and sees the object of the request.
    pub fn mutating_handler(mut self, handler: impl AdmissionHandler) -> Self {
        self.mutating.push(typed::raw(handler));
        self
    }

    /// Adds a handler that validates without decoding the objects. It runs after the validators.
    pub fn validating_handler(mut self, handler: impl AdmissionHandler) -> Self {
        self.validating.push(typed::raw(handler));
        self
    }

    /// Validates deletions too.
    pub fn on_delete(mut self) -> Self {
        self.on_delete = true;
        self
    }

    /// Sets the path of defaulters, instead of `/mutate-<group>-<version>-<kind>`.
    pub fn mutating_path(mut self, path: &str) -> Self {
        self.mutating_path = Some(path.to_owned());
        self
    }

    /// Sets the path of validators, instead of `/validate-<group>-<version>-<kind>`.
    pub fn validating_path(mut self, path: &str) -> Self {
        self.validating_path = Some(path.to_owned());
        self
    }

    /// Admits requests if the webhook cannot be called (`failurePolicy: Ignore`). By default they
    /// fail.
    pub fn ignore_failures(mut self) -> Self {
        self.common.ignore_failures = true;
        self
    }

    /// Sets how long API servers wait for the webhook: one to 30 seconds, ten unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.common.timeout = Some(timeout);
        self
    }

    /// Declares side effects that are left out for dry runs (`sideEffects: NoneOnDryRun`). By
    /// default webhooks have none.
    pub fn side_effects(mut self) -> Self {
        self.common.side_effects = true;
        self
    }

    /// Also matches objects in the namespace of the operator. By default they are excluded, so that
    /// a webhook that is down does not prevent the operator's own pods from starting.
    pub fn in_own_namespace(mut self) -> Self {
        self.common.own_namespace = true;
        self
    }

    /// Matches only objects in namespaces with these labels.
    pub fn namespace_selector(mut self, selector: LabelSelector) -> Self {
        self.common.namespaces = Some(selector);
        self
    }

    /// Matches only objects with these labels.
    pub fn object_selector(mut self, selector: LabelSelector) -> Self {
        self.common.objects = Some(selector);
        self
    }

    /// Matches only requests for which the CEL expression is true. `name` identifies it.
    pub fn match_condition(mut self, name: &str, expression: &str) -> Self {
        let (name, expression) = (name.to_owned(), expression.to_owned());
        self.common.conditions.push(MatchCondition { name, expression });
        self
    }

    /// Registers the webhook.
    ///
    /// # Errors
    /// When there is no handler, a path is taken, or the manager is stopping.
    pub fn register(self) -> Result<(), RegisterError> {
        let kind = Kind::of::<K>();
        let mut mutating = self.mutating;
        if !self.defaulters.is_empty() {
            mutating.insert(0, typed::defaults(self.defaulters));
        }
        let mut validating = self.validating;
        if !self.validators.is_empty() {
            validating.insert(0, typed::validations(self.validators));
        }
        if mutating.is_empty() && validating.is_empty() {
            return Err(RegisterError::NoHandler(kind));
        }
        let both = [
            (true, mutating, self.mutating_path, false),
            (false, validating, self.validating_path, self.on_delete),
        ];
        for (mutating, handlers, path, on_delete) in both {
            if handlers.is_empty() {
                continue;
            }
            let path = path.unwrap_or_else(|| default_path(&kind, mutating));
            self.webhooks.add(&path, Route::Admission(sequence(handlers)))?;
            let mut operations = vec![Operation::Create, Operation::Update];
            operations.extend(on_delete.then_some(Operation::Delete));
            let rule = Rule { kind: kind.clone(), operations };
            self.webhooks.add_entry(Entry { mutating, path, rule, common: self.common.clone() });
        }
        (self.start)()
    }
}

/// Returns kubebuilder's path of a type.
fn default_path(kind: &Kind, mutating: bool) -> String {
    let verb = if mutating { "mutate" } else { "validate" };
    let group = kind.group().replace('.', "-");
    format!("/{verb}-{group}-{}-{}", kind.version(), kind.kind().to_lowercase())
}

/// Calls handlers one after the other: the first denial wins, patches and warnings are joined.
fn sequence(mut handlers: Vec<Handle>) -> Handle {
    if handlers.len() == 1 {
        return handlers.remove(0);
    }
    let handlers = std::sync::Arc::new(handlers);
    std::sync::Arc::new(move |request: &AdmissionRequest| {
        let handlers = handlers.clone();
        Box::pin(async move {
            let mut joined = AdmissionResponse::allowed();
            for handler in handlers.iter() {
                joined = joined.join(handler(request).await);
                if !joined.is_allowed() {
                    break;
                }
            }
            joined
        })
    })
}
