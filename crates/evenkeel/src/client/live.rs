//! Reads that ask the API server.

use bytes::Bytes;
use http::Method;
use kube::core::ObjectList;
use serde::de::DeserializeOwned;

use super::Client;
use super::call::Call;
use super::error::{Error, Target};
use crate::journal::ReadNote;
use crate::key::Key;
use crate::kind::{Kind, Object};

/// Reads past the cache; see [`Client::live`].
#[derive(Clone, Copy)]
pub struct Live<'a> {
    client: &'a Client,
}

/// How many objects are asked for at a time, as client-go does.
const PAGE: &str = "500";

impl<'a> Live<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// The object as it is now, if it exists.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn get<K: Object>(self, key: &Key) -> Result<Option<K>, Error> {
        let kind = Kind::of::<K>();
        match self.raw(&kind, key).await? {
            Some(bytes) => Ok(Some(decode(&kind, key, &bytes)?)),
            None => Ok(None),
        }
    }

    /// All objects of a namespace, or of the cluster, that match the label selector; an empty one
    /// matches all.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn list<K: Object>(
        self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<K>, Error> {
        let kind = Kind::of::<K>();
        let mut objects = Vec::new();
        let mut token = None::<String>;
        loop {
            let mut call = Call::over("list", Method::GET, &kind, namespace);
            if !labels.is_empty() {
                call = call.parameter("labelSelector", labels);
            }
            call = call.parameter("limit", PAGE);
            if let Some(token) = &token {
                call = call.parameter("continue", token);
            }
            let attempt = call.attempt().clone();
            let bytes = call.send(&self.client.http).await?;
            let page: ObjectList<K> = serde_json::from_slice(&bytes)
                .map_err(|source| Error::Answer { attempt, source })?;
            objects.extend(page.items);
            token = page.metadata.continue_.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(objects);
            }
        }
    }

    pub(super) async fn raw(self, kind: &Kind, key: &Key) -> Result<Option<Bytes>, Error> {
        let answer = Call::on("get", Method::GET, kind, key).send(&self.client.http).await;
        let found = match answer {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        if let Some(notes) = &self.client.notes {
            notes.read(ReadNote::live(kind, key, found.is_some()));
        }
        Ok(found)
    }
}

pub(super) fn decode<R: DeserializeOwned>(
    kind: &Kind,
    key: &Key,
    bytes: &[u8],
) -> Result<R, Error> {
    serde_json::from_slice(bytes).map_err(|source| {
        let target = Target::Object(key.clone());
        let attempt =
            super::Attempt { verb: "read", kind: kind.clone(), subresource: None, target };
        Error::Answer { attempt, source }
    })
}
