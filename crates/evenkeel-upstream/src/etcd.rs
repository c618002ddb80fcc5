//! Compacts etcd through its JSON gateway.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Why a request to etcd failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The connection failed.
    #[error("cannot connect")]
    Connect(#[from] io::Error),
    /// The connection broke.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The response is not the expected one.
    #[error("unexpected response: {0}")]
    UnexpectedResponse(String),
}

/// Compacts all revisions before the current one.
pub(crate) async fn compact(address: SocketAddr) -> Result<(), EtcdError> {
    // Every read returns the current revision; this key does not exist.
    let range = post(address, "/v3/kv/range", &json!({"key": "AA=="})).await?;
    let revision = &range["header"]["revision"];
    if !revision.is_string() {
        return Err(EtcdError::UnexpectedResponse(range.to_string()));
    }
    let compaction = json!({"revision": revision, "physical": true});
    let response = post(address, "/v3/kv/compaction", &compaction).await?;
    // A concurrent compaction has the same effect.
    let done = response["header"].is_object() || response.to_string().contains("been compacted");
    if done { Ok(()) } else { Err(EtcdError::UnexpectedResponse(response.to_string())) }
}

async fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Value, EtcdError> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let request = Request::post(path)
        .header("host", address.to_string())
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|error| EtcdError::UnexpectedResponse(error.to_string()))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        Ok::<_, hyper::Error>(response.into_body().collect().await?.to_bytes())
    };
    let bytes = tokio::select! {
        result = exchange => result?,
        // The connection is driven here; it ends first only if it fails.
        ended = connection => {
            ended?;
            return Err(EtcdError::UnexpectedResponse("connection closed".to_owned()));
        }
    };
    serde_json::from_slice(&bytes)
        .map_err(|_| EtcdError::UnexpectedResponse(String::from_utf8_lossy(&bytes).into_owned()))
}
