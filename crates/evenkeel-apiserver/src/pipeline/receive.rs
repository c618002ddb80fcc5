//! Stage 4: the request body, for requests that may be carried out and want one.
//!
//! A body is read after its sender is known, so that a client without rights cannot make the
//! server keep anything. Bytes are counted for the user as they arrive.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::time;

use crate::core::Core;
use crate::limits::BODY_LIMIT;
use crate::status::Status;
use crate::throttle::{Permit, User};

/// A request body of which nothing has been read.
pub(crate) struct Unread<B> {
    body: B,
    declared: Option<u64>,
    /// Set if the request came through a socket.
    counted: Option<(Arc<Core>, User)>,
}

/// A whole request body.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    /// Counts the bytes until the request is over.
    _held: Option<Permit>,
}

impl<B> Unread<B>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Takes a body whose bytes count for `user`; in process they count for none.
    pub(crate) fn new(core: &Arc<Core>, user: Option<User>, headers: &HeaderMap, body: B) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Self {
            declared: declared.and_then(|value| value.parse().ok()),
            counted: user.map(|user| (core.clone(), user)),
            body,
        }
    }

    /// Reads the body to its end.
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
                Some((core, _)) => {
                    let limit = core.throttle.limits.body_stall_timeout;
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
            if let Some((core, user)) = &self.counted {
                core.throttle.reserve_body(user, &mut held, length)?;
            }
            whole.push(data);
        }
        Ok(Received { bytes: whole.into_bytes(), _held: held })
    }
}

/// Frames put together. A single one, which is the rule, is not copied; many small ones do not
/// keep an allocation each.
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
