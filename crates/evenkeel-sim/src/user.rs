//! A client with all permissions, for the user of the operator and for other clients. It bypasses
//! the gate: no fault hits it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use evenkeel_apiserver::Service;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::workload::{ObjectRef, Step};

/// The name of the field manager.
const FIELD_MANAGER: &str = "user";

#[derive(Clone)]
pub(crate) struct User {
    server: Service,
    kinds: Kinds,
    /// Whether it has sent a request to discover a kind.
    discovered: Arc<AtomicBool>,
}

/// The known kinds. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Kinds(Arc<Mutex<ByKind>>);

/// Plural names and whether the kind is namespaced, by API version and kind.
type ByKind = BTreeMap<(String, String), (String, bool)>;

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl User {
    /// Returns a client of a server that serves these kinds, which are completed on demand.
    pub(crate) fn new(server: Service, kinds: &Kinds) -> Self {
        Self { server, kinds: kinds.clone(), discovered: Arc::default() }
    }

    /// Whether a kind was discovered by a request, which other runs do not send.
    pub(crate) fn has_discovered(&self) -> bool {
        self.discovered.load(Ordering::Relaxed)
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Refused> {
        let mut request = Request::builder().method(method).uri(path);
        let mut bytes = Bytes::new();
        if let Some((media, body)) = body {
            request = request.header("content-type", media);
            bytes = body.to_string().into();
        }
        let refused = |message: String| Refused { code: 0, message };
        let request = request.body(Full::new(bytes)).map_err(|it| refused(it.to_string()))?;
        let response: Result<_, Infallible> = self.server.clone().call(request).await;
        let Ok(response) = response;
        let code = response.status().as_u16();
        let bytes = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => match error {},
        };
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        match code {
            200..300 => Ok(value),
            _ => {
                let message = value["message"].as_str().unwrap_or_default().to_owned();
                Err(Refused { code, message })
            }
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.send(Method::GET, path, None).await.ok()
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refused> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.send(Method::PATCH, &path, Some(("application/merge-patch+json", patch))).await
    }

    /// Returns the path of an object, or of its collection.
    pub(crate) async fn path(&self, of: &ObjectRef, collection: bool) -> Result<String, Refused> {
        let (plural, namespaced) = self.kind(&of.api_version, &of.kind).await?;
        let mut path = root(&of.api_version);
        if namespaced {
            let namespace = if of.namespace.is_empty() { "default" } else { &of.namespace };
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{plural}"));
        if !collection {
            path.push_str(&format!("/{}", of.name));
        }
        Ok(path)
    }

    async fn kind(&self, api_version: &str, kind: &str) -> Result<(String, bool), Refused> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(found) = self.kinds.0.lock().get(&key) {
            return Ok(found.clone());
        }
        self.discovered.store(true, Ordering::Relaxed);
        let list = self.send(Method::GET, &root(api_version), None).await?;
        let resources = list["resources"].as_array();
        let found = resources.into_iter().flatten().find(|resource| {
            let name = resource["name"].as_str().unwrap_or_default();
            resource["kind"] == kind && !name.contains('/')
        });
        let Some(found) = found else {
            let message = format!("the server has no kind {kind} in {api_version}");
            return Err(Refused { code: 404, message });
        };
        let plural = found["name"].as_str().unwrap_or_default().to_owned();
        let known = (plural, found["namespaced"] == true);
        self.kinds.0.lock().insert(key, known.clone());
        Ok(known)
    }

    /// Creates an object.
    pub(crate) async fn create(&self, object: &Value) -> Result<Value, Refused> {
        let path = self.path(&ObjectRef::of(object), true).await?;
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.send(Method::POST, &path, Some(("application/json", object))).await
    }

    /// Deletes an object; it may have finalizers.
    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Refused> {
        let options = json!({"propagationPolicy": "Background"});
        self.send(Method::DELETE, path, Some(("application/json", &options))).await
    }

    /// Performs a step, except for the creation that follows a deletion.
    pub(crate) async fn perform(&self, step: &Step) -> Result<(), Refused> {
        match step {
            Step::Create(object) => self.create(object).await.map(drop),
            Step::Patch { object, patch } => {
                self.merge(&self.path(object, false).await?, patch).await.map(drop)
            }
            Step::Flip { object, patch, back } => {
                let path = self.path(object, false).await?;
                self.merge(&path, patch).await?;
                self.merge(&path, back).await.map(drop)
            }
            Step::Delete(object) => self.delete(&self.path(object, false).await?).await.map(drop),
            Step::Recreate(object) => {
                let path = self.path(&ObjectRef::of(object), false).await?;
                self.delete(&path).await.map(drop)
            }
            Step::Wait(_) | Step::Upgrade => Ok(()),
        }
    }
}

fn root(api_version: &str) -> String {
    match api_version.contains('/') {
        true => format!("/apis/{api_version}"),
        false => format!("/api/{api_version}"),
    }
}
