//! What the operator manages besides objects of the API server: a stub of the test.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

use crate::gate::{Call, Gate};
use crate::workload::ObjectRef;

/// A stub of what the operator manages or uses besides the API server: the database in its pods, the
/// API of a cloud. It outlives crashes of the operator; each run has a new one.
///
/// The operator reaches it by an [`ApplicationHandle`], typically in place of its HTTP client, or by
/// the proxy of the API server. Both pass the gate: the operator crashes before or after a call, the
/// response of a call that took effect is lost, or the call fails.
///
/// ```
/// use std::collections::BTreeSet;
///
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
/// use evenkeel::reconciler_fn;
/// use evenkeel_sim::{Application, ApplicationHandle, Oracle};
/// use serde_json::{Value, json};
///
/// /// The buckets of a cloud.
/// #[derive(Default)]
/// struct Cloud(BTreeSet<String>);
///
/// impl Application for Cloud {
///     fn state(&self) -> Value {
///         json!(self.0)
///     }
/// }
///
/// /// Has a bucket for each ConfigMap, and never deletes it.
/// fn register(manager: &Manager, cloud: ApplicationHandle<Cloud>) -> Result<(), RegisterError> {
///     let reconcile = move |map: Arc<ConfigMap>, _: Context<ConfigMap>| {
///         let cloud = cloud.clone();
///         async move {
///             let name = map.name_any();
///             cloud.call("create-bucket", &name, |cloud| cloud.0.insert(name.clone())).await?;
///             Ok(Action::done())
///         }
///     };
///     manager.controller(reconciler_fn(reconcile)).register().map(drop)
/// }
///
/// let report = evenkeel_sim::operator_with("buckets", Cloud::default, register)
///     .sample("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
///     .explore();
/// assert_eq!(report.finding.unwrap().violation.oracle, Oracle::Leftovers);
/// ```
pub trait Application: Send + 'static {
    /// Returns what the application has. It is compared between runs as objects are, must not change
    /// when everything is reconciled once more, and must be that of the start when all objects were
    /// deleted. What may differ between correct runs is left out.
    fn state(&self) -> Value;

    /// Responds to a request that is sent to a pod or a Service through the proxy of the API server;
    /// its path is the one after `/proxy`. By default the application has no HTTP interface.
    fn serve(&mut self, target: &ObjectRef, request: Request<Bytes>) -> Response<Bytes> {
        let text = format!("no endpoints available for {target}{}", request.uri().path());
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }
}

/// How one process of the operator reaches the [`Application`].
pub struct ApplicationHandle<A> {
    application: Arc<Mutex<A>>,
    gate: Arc<Gate>,
    incarnation: u32,
}

impl<A> Clone for ApplicationHandle<A> {
    fn clone(&self) -> Self {
        let Self { application, gate, incarnation } = self;
        Self { application: application.clone(), gate: gate.clone(), incarnation: *incarnation }
    }
}

impl<A> fmt::Debug for ApplicationHandle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplicationHandle").field("incarnation", &self.incarnation).finish()
    }
}

impl<A: Application> ApplicationHandle<A> {
    /// Calls the application. The name of the operation and the object that it is about are the place
    /// of the call in plans: `call create-bucket a`.
    ///
    /// # Errors
    /// When the plan requires it: the call has failed, or its response was lost.
    pub async fn call<R: Send>(
        &self,
        operation: &str,
        object: &str,
        perform: impl FnOnce(&mut A) -> R + Send,
    ) -> Result<R, CallError> {
        let call = Call::of_application(operation, object);
        self.gate.call(self.incarnation, &call, || perform(&mut self.application.lock())).await
    }
}

/// Why a call of the application has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The application has rejected the call with this HTTP status; it took no effect.
    Rejected(u16),
    /// The connection was lost before the response; the call took effect.
    ConnectionReset,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(code) => write!(f, "the application has responded with status {code}"),
            Self::ConnectionReset => f.write_str("connection reset before the response"),
        }
    }
}

impl std::error::Error for CallError {}

/// An [`Application`] of any type.
pub(crate) trait Stub: Send + Sync {
    fn state(&self) -> Value;
    fn serve(&self, target: &ObjectRef, request: Request<Bytes>) -> Response<Bytes>;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<A: Application> Stub for Mutex<A> {
    fn state(&self) -> Value {
        self.lock().state()
    }

    fn serve(&self, target: &ObjectRef, request: Request<Bytes>) -> Response<Bytes> {
        self.lock().serve(target, request)
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Makes the application of a run.
pub(crate) type MakeStub = dyn Fn() -> Arc<dyn Stub> + Send + Sync;

/// What a process of the operator is built with.
pub(crate) struct Link {
    pub(crate) gate: Arc<Gate>,
    pub(crate) incarnation: u32,
}

impl Link {
    /// Returns the handle of the application, if it has this type.
    pub(crate) fn handle<A: Application>(&self) -> Option<ApplicationHandle<A>> {
        let application = self.gate.application()?.as_any().downcast().ok()?;
        Some(ApplicationHandle {
            application,
            gate: self.gate.clone(),
            incarnation: self.incarnation,
        })
    }
}
