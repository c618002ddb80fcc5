//! The one thing we ask of etcd ourselves: to forget its past. Its gateway speaks JSON.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Why etcd did not do as it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// The connection broke.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// It answered something else.
    #[error("it answered {0}")]
    UnexpectedResponse(String),
}

/// Removes every version of every key but the current ones.
pub(crate) async fn compact(address: SocketAddr) -> Result<(), EtcdError> {
    // Any read says what the revision is; this one is of a key nobody writes.
    let range = post(address, "/v3/kv/range", &json!({"key": "AA=="})).await?;
    let revision = &range["header"]["revision"];
    if !revision.is_string() {
        return Err(EtcdError::UnexpectedResponse(range.to_string()));
    }
    let compaction = json!({"revision": revision, "physical": true});
    let response = post(address, "/v3/kv/compaction", &compaction).await?;
    // Compacted by somebody else in the meantime is as good.
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
            return Err(EtcdError::UnexpectedResponse("nothing".to_owned()));
        }
    };
    serde_json::from_slice(&bytes)
        .map_err(|_| EtcdError::UnexpectedResponse(String::from_utf8_lossy(&bytes).into_owned()))
}
