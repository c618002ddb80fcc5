//! Response bodies: empty, buffered, or produced as the client reads.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::audit::Completion;
use crate::throttle::Permit;

/// A response body of the API server.
///
/// Large lists and watches are streams: nothing is encoded before the client reads it, so a slow
/// client delays its own response and uses no memory of the server.
#[derive(Default)]
pub struct Body {
    kind: Kind,
    /// Records the end of the response when it is dropped.
    completion: Option<Completion>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(Unfold),
}

type Step = Pin<Box<dyn Future<Output = Option<(Bytes, Unfold)>> + Send>>;

/// One step of a stream: the bytes to send and how to produce the next ones.
pub(crate) struct Unfold(Step);

impl Unfold {
    pub(crate) fn new(step: impl Future<Output = Option<(Bytes, Self)>> + Send + 'static) -> Self {
        Self(Box::pin(step))
    }
}

/// Produces the chunks of a stream, one after the other.
pub(crate) trait Chunks: Send + 'static {
    /// Returns the next chunk, or `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

impl Body {
    fn of(kind: Kind) -> Self {
        Self { kind, completion: None }
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self::of(Kind::Full(bytes.into()))
    }

    /// Holds `permit` until the last of the buffered bytes is sent. Streams buffer nothing.
    pub(crate) fn with_permit(self, permit: Permit) -> Self {
        match self.kind {
            Kind::Full(bytes) => {
                Self::full(Bytes::from_owner(PermittedBytes { bytes, _permit: permit }))
            }
            other => Self::of(other),
        }
    }

    /// Records the end of the response when the last byte is sent; a response that is buffered is
    /// complete now.
    pub(crate) fn with_completion(self, completion: Completion) -> Self {
        let streams = matches!(self.kind, Kind::Stream(_));
        Self { completion: streams.then_some(completion), ..self }
    }

    pub(crate) fn stream(chunks: impl Chunks) -> Self {
        Self::of(Kind::Stream(unfold(chunks)))
    }
}

struct PermittedBytes {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for PermittedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn unfold(mut chunks: impl Chunks) -> Unfold {
    Unfold::new(async move {
        let chunk = chunks.next().await?;
        Some((chunk, unfold(chunks)))
    })
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = Kind::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Kind::Stream(step) => match step.0.as_mut().poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => {
                    self.kind = Kind::Empty;
                    self.completion = None;
                    Poll::Ready(None)
                }
                Poll::Ready(Some((bytes, next))) => {
                    *step = next;
                    Poll::Ready(Some(Ok(Frame::data(bytes))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Empty => f.write_str("Body(empty)"),
            Kind::Full(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}
