//! Defaulters and validators of a type.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;

use super::patch;
use super::{AdmissionRequest, AdmissionResponse, Operation};
use crate::controller::message;
use crate::error::{Error, Result};
use crate::kind::{Kind, Object};
use crate::metrics::Counter;

/// Warnings to the client of the API server, which kubectl prints.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// fn validate(map: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
///     let mutable = map.immutable != Some(true);
///     Ok(mutable.then(|| "the ConfigMap is mutable".to_owned()).into_iter().collect())
/// }
/// ```
pub type Warnings = Vec<String>;

/// Sets fields of objects that the client left open, before they are validated and stored.
///
/// It runs for CREATE and UPDATE. Only the fields that it changes are sent back; fields that `K` does
/// not know are kept. It may run several times for one request, so a second run must change nothing.
///
/// A function `Fn(&mut K, &AdmissionRequest) -> Result<()>` is a defaulter.
///
/// ```
/// use evenkeel::Result;
/// use evenkeel::webhook::{AdmissionRequest, Defaulter};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Greeting;
///
/// impl Defaulter<ConfigMap> for Greeting {
///     async fn default(&self, map: &mut ConfigMap, _: &AdmissionRequest) -> Result<()> {
///         let data = map.data.get_or_insert_default();
///         data.entry("greeting".to_owned()).or_insert_with(|| "hello".to_owned());
///         Ok(())
///     }
/// }
/// ```
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Sets the defaults of `object`. An error denies the request; see
    /// [`AdmissionResponse::from_error`].
    fn default(
        &self,
        object: &mut K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<()>> + Send;
}

impl<K, F> Defaulter<K> for F
where
    K: Send,
    F: Fn(&mut K, &AdmissionRequest) -> Result<()> + Send + Sync + 'static,
{
    async fn default(&self, object: &mut K, request: &AdmissionRequest) -> Result<()> {
        self(object, request)
    }
}

/// Validates objects before they are stored or deleted.
///
/// An error denies the request: an [`Invalid`](super::Invalid) with code 422 and the fields, a
/// response of the API server with its code, any other with code 403. The returned warnings are
/// passed to the client.
///
/// A function `Fn(&K, &AdmissionRequest) -> Result<Warnings>` is a validator of creates and updates.
///
/// ```
/// use evenkeel::prelude::*;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Ports;
///
/// impl Validator<ConfigMap> for Ports {
///     async fn validate_create(&self, map: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
///         let mut invalid = Invalid::of::<ConfigMap>(map.metadata.name.as_deref().unwrap_or(""));
///         let port = map.data.as_ref().and_then(|data| data.get("port"));
///         if let Some(port) = port.filter(|port| port.parse::<u16>().is_err()) {
///             invalid.value("data.port", port, "must be a number");
///         }
///         invalid.into_result()?;
///         Ok(Warnings::new())
///     }
/// }
/// ```
pub trait Validator<K: Sync>: Send + Sync + 'static {
    /// Validates a new object.
    fn validate_create(
        &self,
        object: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Warnings>> + Send;

    /// Validates the change from `old` to `new`; validates `new` as if it were created unless
    /// overridden.
    fn validate_update(
        &self,
        old: &K,
        new: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Warnings>> + Send {
        let _ = old;
        self.validate_create(new, request)
    }

    /// Validates the deletion of `object`; allows it unless overridden. To be called at all, the
    /// webhook must be registered for [deletions](super::WebhookBuilder::on_delete).
    fn validate_delete(
        &self,
        object: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Warnings>> + Send {
        let _ = (object, request);
        async { Ok(Warnings::new()) }
    }
}

impl<K, F> Validator<K> for F
where
    K: Sync,
    F: Fn(&K, &AdmissionRequest) -> Result<Warnings> + Send + Sync + 'static,
{
    async fn validate_create(&self, object: &K, request: &AdmissionRequest) -> Result<Warnings> {
        self(object, request)
    }
}

/// Responds to admission requests without decoding the objects.
///
/// A function `Fn(&AdmissionRequest) -> AdmissionResponse` is a handler.
pub trait AdmissionHandler: Send + Sync + 'static {
    /// Responds to a request.
    fn handle(&self, request: &AdmissionRequest) -> impl Future<Output = AdmissionResponse> + Send;
}

impl<F> AdmissionHandler for F
where
    F: Fn(&AdmissionRequest) -> AdmissionResponse + Send + Sync + 'static,
{
    async fn handle(&self, request: &AdmissionRequest) -> AdmissionResponse {
        self(request)
    }
}

type ResponseFuture<'a> = Pin<Box<dyn Future<Output = AdmissionResponse> + Send + 'a>>;

/// A handler behind a path.
pub(super) type Handle =
    Arc<dyn for<'a> Fn(&'a AdmissionRequest) -> ResponseFuture<'a> + Send + Sync>;

/// Calls a handler; a panic becomes a denial with code 500.
pub(super) async fn call(
    handle: &Handle,
    request: &AdmissionRequest,
    panics: &Counter,
) -> AdmissionResponse {
    match AssertUnwindSafe(async { handle(request).await }).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            panics.inc();
            let panic = message(&*panic);
            tracing::error!(kind = ?request.kind, name = request.name, panic, "webhook panicked");
            AdmissionResponse::errored(500, format!("panic: {panic} [recovered]"))
        }
    }
}

pub(super) fn raw(handler: impl AdmissionHandler) -> Handle {
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = handler.clone();
        Box::pin(async move { handler.handle(request).await })
    })
}

type Mutation<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
type Validation<'a> = Pin<Box<dyn Future<Output = Result<Warnings>> + Send + 'a>>;

/// A defaulter without its type.
pub(super) type Default<K> =
    Box<dyn for<'a> Fn(&'a mut K, &'a AdmissionRequest) -> Mutation<'a> + Send + Sync>;

/// A validator without its type. Takes the old and the new object.
pub(super) type Validate<K> = Box<
    dyn for<'a> Fn(Option<&'a K>, Option<&'a K>, &'a AdmissionRequest) -> Validation<'a>
        + Send
        + Sync,
>;

pub(super) fn defaulter<K: Object>(defaulter: impl Defaulter<K>) -> Default<K> {
    let defaulter = Arc::new(defaulter);
    Box::new(move |object, request| {
        let defaulter = defaulter.clone();
        Box::pin(async move { defaulter.default(object, request).await })
    })
}

pub(super) fn validator<K: Object>(validator: impl Validator<K>) -> Validate<K> {
    let validator = Arc::new(validator);
    Box::new(move |old, new, request| {
        let validator = validator.clone();
        Box::pin(async move {
            match (old, new) {
                (None, Some(new)) => validator.validate_create(new, request).await,
                (Some(old), Some(new)) => validator.validate_update(old, new, request).await,
                (Some(old), None) => validator.validate_delete(old, request).await,
                (None, None) => Ok(Warnings::new()),
            }
        })
    })
}

/// Runs all defaulters of a type on one object, in order, and returns what they changed.
pub(super) fn defaults<K: Object>(defaulters: Vec<Default<K>>) -> Handle {
    let defaulters = Arc::new(defaulters);
    Arc::new(move |request| {
        let defaulters = defaulters.clone();
        Box::pin(
            async move { default(&defaulters, request).await.unwrap_or_else(|denial| *denial) },
        )
    })
}

async fn default<K: Object>(
    defaulters: &[Default<K>],
    request: &AdmissionRequest,
) -> Result<AdmissionResponse, Denial> {
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return Ok(AdmissionResponse::allowed());
    }
    check_kind::<K>(request)?;
    let mut object: K = decoded(request.object())?;
    let before = printed(&object)?;
    for defaulter in defaulters {
        defaulter(&mut object, request).await.map_err(denied)?;
    }
    let after = printed(&object)?;
    if before == after {
        return Ok(AdmissionResponse::allowed());
    }
    let raw: Value = decoded(request.object())?;
    Ok(AdmissionResponse::allowed().with_patch(patch::changes(&raw, &before, &after)))
}

/// Runs all validators of a type in order; the first denial is returned.
pub(super) fn validations<K: Object>(validators: Vec<Validate<K>>) -> Handle {
    let validators = Arc::new(validators);
    Arc::new(move |request| {
        let validators = validators.clone();
        Box::pin(
            async move { validate(&validators, request).await.unwrap_or_else(|denial| *denial) },
        )
    })
}

async fn validate<K: Object>(
    validators: &[Validate<K>],
    request: &AdmissionRequest,
) -> Result<AdmissionResponse, Denial> {
    let (old, new): (Option<K>, Option<K>) = match request.operation {
        Operation::Connect => return Ok(AdmissionResponse::allowed()),
        Operation::Create => (None, Some(decoded(request.object())?)),
        Operation::Update => {
            (Some(decoded(request.old_object())?), Some(decoded(request.object())?))
        }
        Operation::Delete => (Some(decoded(request.old_object())?), None),
    };
    check_kind::<K>(request)?;
    let mut response = AdmissionResponse::allowed();
    for validator in validators {
        match validator(old.as_ref(), new.as_ref(), request).await {
            Ok(warnings) => {
                response = warnings.into_iter().fold(response, AdmissionResponse::warning)
            }
            Err(error) => {
                let warnings = response.warnings().to_vec();
                let denial = warnings.into_iter().fold(*denied(error), AdmissionResponse::warning);
                return Err(Box::new(denial));
            }
        }
    }
    Ok(response)
}

/// A response that ends the request early.
type Denial = Box<AdmissionResponse>;

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn denied(error: Error) -> Denial {
    Box::new(AdmissionResponse::from_error(&error))
}

fn errored(code: u16, message: impl Into<String>) -> Denial {
    Box::new(AdmissionResponse::errored(code, message))
}

/// The API server converts objects to the version of the rule, so another kind is a configuration
/// of another path.
fn check_kind<K: Object>(request: &AdmissionRequest) -> Result<(), Denial> {
    let (kind, given) = (Kind::of::<K>(), &request.kind);
    if kind.is(&given.group, &given.kind) && kind.version() == given.version {
        return Ok(());
    }
    let given = format!("{}, Kind={}", given.api_version(), given.kind);
    let expected = format!("{}, Kind={}", kind.api_version(), kind.kind());
    Err(errored(400, format!("unable to decode {given} into {expected}")))
}

fn decoded<T>(object: Result<Option<T>, serde_json::Error>) -> Result<T, Denial> {
    match object {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(errored(400, "there is no content to decode")),
        Err(error) => Err(errored(400, error.to_string())),
    }
}

fn printed<K: Object>(object: &K) -> Result<Value, Denial> {
    serde_json::to_value(object).map_err(|error| errored(500, error.to_string()))
}
