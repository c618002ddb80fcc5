//! A streamed response with a read timeout.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use super::Error;
use crate::connect::{ResponseBody, Transport};

/// The maximum size of the body of an error response.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// The body of a successful response.
pub(super) struct Connection {
    body: ResponseBody,
    read_timeout: Duration,
}

impl Connection {
    /// Sends a request. `read_timeout` applies to the head and to each frame of the body.
    pub(super) async fn open(
        transport: &Transport,
        request: Request<Body>,
        read_timeout: Duration,
    ) -> Result<Self, Error> {
        let response = timeout(read_timeout, transport.send(request))
            .await
            .map_err(|_| Error::ReadTimeout(read_timeout))?
            .map_err(|error| Error::unreachable(&error))?;
        let (head, body) = response.into_parts();
        let mut connection = Self { body, read_timeout };
        if head.status.is_success() {
            return Ok(connection);
        }
        let mut text = Vec::new();
        // A truncated body is sufficient for the error message.
        while let Ok(Some(frame)) = connection.frame().await {
            text.extend_from_slice(&frame);
            if text.len() > ERROR_BODY_MAX {
                break;
            }
        }
        Err(Error::response(head.status, &head.headers, &text))
    }

    /// Returns the next frame; `None` at a clean end.
    pub(super) async fn frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = timeout(self.read_timeout, self.body.frame())
                .await
                .map_err(|_| Error::ReadTimeout(self.read_timeout))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Error::lost(&*error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Changes the read timeout.
    pub(super) fn set_read_timeout(&mut self, read_timeout: Duration) {
        self.read_timeout = read_timeout;
    }
}
