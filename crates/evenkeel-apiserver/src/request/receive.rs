//! Reads the request body, of authorized requests that have one.
//!
//! The body is read after authorization, so that a client without permissions cannot use memory of
//! the server. Its bytes are accounted to the user as they arrive.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::time;

use crate::limits::BODY_LIMIT;
use crate::status::Status;
use crate::throttle::{Permit, Throttle, User};

/// A request body that has not been read.
pub(crate) struct Unread<B> {
    body: B,
    declared: Option<u64>,
    /// Set for requests through a socket.
    counted: Option<(Arc<Throttle>, User)>,
}

/// A complete request body.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    /// Reserves the bytes until the request ends.
    _held: Option<Permit>,
}

impl<B> Unread<B>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Wraps a body whose bytes are accounted to `user`; in process they are not accounted.
    pub(crate) fn new(
        throttle: &Arc<Throttle>,
        user: Option<User>,
        headers: &HeaderMap,
        body: B,
    ) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Self {
            declared: declared.and_then(|value| value.parse().ok()),
            counted: user.map(|user| (throttle.clone(), user)),
            body,
        }
    }

    /// Reads the whole body.
    pub(crate) async fn read(self) -> Result<Received, Status> {
        if self.declared.is_some_and(|declared| declared > BODY_LIMIT as u64) {
            return Err(Status::too_large());
        }
        let mut body = pin!(self.body);
        let mut held = None;
        let mut whole = Buffer::default();
        loop {
            let next = body.frame();
            let frame = match &self.counted {
                None => next.await,
                Some((throttle, _)) => {
                    let limit = throttle.limits.body_stall_timeout;
                    time::timeout(limit, next).await.map_err(|_| Status::timed_out())?
                }
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| {
                let error = error.into();
                Status::bad_request(format!("unable to read the request body: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let length = whole.len() + data.len();
            if length > BODY_LIMIT {
                return Err(Status::too_large());
            }
            if let Some((throttle, user)) = &self.counted {
                throttle.reserve_body(user, &mut held, length)?;
            }
            whole.push(data);
        }
        Ok(Received { bytes: whole.into_bytes(), _held: held })
    }
}

/// The received frames. A single frame, the usual case, is not copied; many small ones share one
/// allocation.
#[derive(Default)]
enum Buffer {
    #[default]
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl Buffer {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, data: Bytes) {
        match self {
            Self::Empty => *self = Self::One(data),
            Self::One(first) => {
                let mut bytes = BytesMut::with_capacity(2 * (first.len() + data.len()));
                bytes.extend_from_slice(first);
                bytes.extend_from_slice(&data);
                *self = Self::Many(bytes);
            }
            Self::Many(bytes) => bytes.extend_from_slice(&data),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes.freeze(),
        }
    }
}
