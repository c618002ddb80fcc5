//! Bodies of requests, read up to a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use crate::error::BoxError;

/// The body of a request, from a connection or from within the process.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The body is too large.
    #[error("request body is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The part that was read.
        prefix: Bytes,
    },
    /// The client stopped sending.
    #[error("unable to read the request body")]
    Broken(#[source] BoxError),
}

/// Makes a body a [`Body`].
pub(crate) fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    UnsyncBoxBody::new(body.map_err(Into::into))
}

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// When it is larger, or the client stops sending.
pub(crate) async fn read(mut body: Body, limit: usize) -> Result<Bytes, ReadError> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ReadError::Broken)?.into_data() else { continue };
        if let Some(first) = first.take() {
            whole.extend_from_slice(&first);
        }
        if whole.len() + data.len() > limit {
            whole.extend_from_slice(&data[..limit - whole.len()]);
            return Err(ReadError::TooLarge { limit, prefix: whole.freeze() });
        }
        // A body in one piece is not copied.
        match whole.is_empty() {
            true => first = Some(data),
            false => whole.extend_from_slice(&data),
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}
