//! Live reads from the API server.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Client;
use super::api_request::ApiRequest;
use super::error::{Error, ErrorKind};
use crate::cache::LiveReads;
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::nulls;
use crate::request_info::Target;
use crate::select::{Select, ServerOperation};

/// A reader that bypasses the cache; see [`Client::live`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Secret;
///
/// # async fn example(client: &Client) -> Result<()> {
/// let token = client.live().get::<Secret>(&Key::namespaced("shop", "token")).await?;
/// let all = client.live().list::<Secret>().in_namespace("shop").await?;
/// # let _ = (token, all);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Live<'a> {
    client: &'a Client,
}

/// The page size of lists, as in client-go.
const PAGE: &str = "500";

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageMeta,
    // Go encodes a nil slice as null.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

impl<'a> Live<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Returns the object, if it exists.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Secret;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// let secret = client.live().get::<Secret>(key).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
    pub async fn get<K: Object>(self, key: &Key) -> Result<Option<K>, Error> {
        self.get_as(&Kind::of::<K>(), key).await
    }

    pub(super) async fn get_as<T: DeserializeOwned>(
        self,
        kind: &Kind,
        key: &Key,
    ) -> Result<Option<T>, Error> {
        match self.raw(kind, key).await? {
            Some(bytes) => Ok(Some(decode(kind, key, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Lists objects; the methods of the returned selection restrict the list.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn list(client: &evenkeel::client::Client) -> Result<()> {
    /// let pods = client.live().list::<Pod>().field("spec.nodeName", "node-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn list<K: Object>(self) -> Select<K, LiveList<'a>> {
        Select::new(Kind::of::<K>(), LiveList::new(self.client))
    }

    async fn list_as<T: DeserializeOwned>(
        self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Vec<T>, Error> {
        let (mut objects, mut token, mut limit) = (Vec::new(), String::new(), Some(PAGE));
        loop {
            let mut call = ApiRequest::collection("list", Method::GET, kind, namespace);
            // Empty ones are omitted.
            let parameters =
                [("labelSelector", labels), ("fieldSelector", fields), ("continue", &token)];
            for (name, value) in parameters {
                call = call.parameter(name, value);
            }
            if let Some(limit) = limit {
                call = call.parameter("limit", limit);
            }
            let request_info = call.request_info().clone();
            let bytes = match call.send(self.client).await {
                Ok(bytes) => bytes,
                // The continue token has expired: lists without pages, as client-go's pager does.
                Err(error) if error.is_expired() && !token.is_empty() => {
                    objects.clear();
                    token.clear();
                    limit = None;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let page: Page<T> = decode_response(request_info, &bytes)?;
            objects.extend(page.items.into_iter().flatten());
            token = page.metadata.next.unwrap_or_default();
            if token.is_empty() {
                return Ok(objects);
            }
        }
    }

    pub(super) async fn raw(self, kind: &Kind, key: &Key) -> Result<Option<Bytes>, Error> {
        let response = ApiRequest::object("get", Method::GET, kind, key).send(self.client).await;
        let found = match response {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        if let Some(operations) = &self.client.operations {
            operations.record_read(ReadRecord::live(kind, key, found.is_some()));
        }
        Ok(found)
    }
}

/// A list from the API server, in pages; `.await` returns the objects. See [`Live::list`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client) -> Result<()> {
/// let failed = client.live().list::<Pod>().field("status.phase", "Failed").await?;
/// # let _ = failed;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LiveList<'a> {
    client: &'a Client,
}

impl<'a> LiveList<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }
}

impl ServerOperation for LiveList<'_> {}

impl<'a, K: DeserializeOwned + Send + 'static> IntoFuture for Select<K, LiveList<'a>> {
    type Output = Result<Vec<K>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { kind, namespace, labels, fields, operation: LiveList { client }, .. } = self;
            let namespace = namespace.as_deref();
            let live = client.live();
            let objects = live.list_as(&kind, namespace, &labels.to_string(), &fields).await?;
            if let Some(operations) = &client.operations {
                operations.record_read(ReadRecord::live_list(&kind, namespace, objects.len()));
            }
            Ok(objects)
        })
    }
}

/// Resolves the unknown outcomes of writes.
impl LiveReads for Live<'_> {
    type Error = Error;

    async fn get(&self, kind: &Kind, key: &Key) -> Result<Option<Bytes>, Error> {
        self.raw(kind, key).await
    }

    async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Result<Vec<Box<RawValue>>, Error> {
        self.list_as(kind, namespace, "", "").await
    }
}

pub(super) fn decode<R: DeserializeOwned>(
    kind: &Kind,
    key: &Key,
    bytes: &[u8],
) -> Result<R, Error> {
    let target = Target::Object(key.clone());
    let request_info =
        super::RequestInfo { verb: "read", kind: kind.clone(), subresource: None, target };
    decode_response(request_info, bytes)
}

pub(super) fn decode_response<R: DeserializeOwned>(
    request_info: super::RequestInfo,
    bytes: &[u8],
) -> Result<R, Error> {
    nulls::decode(bytes).map_err(|error: serde_json::Error| {
        let source = nulls::message(&request_info.kind, &error).into();
        ErrorKind::InvalidResponse { request_info, source }.into()
    })
}
