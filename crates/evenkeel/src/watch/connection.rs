//! An answer on its way: its status at once, its body frame by frame, never waited for in vain.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use super::Error;
use crate::connect::{Answer, Transport};

/// A failure's body is read up to here.
const LARGEST_FAILURE: usize = 64 * 1024;

/// The body of a successful answer.
pub(super) struct Connection {
    body: Answer,
    silence: Duration,
}

impl Connection {
    /// Sends a request. No part of the answer may take longer than `silence` to come.
    pub(super) async fn open(
        transport: &Transport,
        request: Request<Body>,
        silence: Duration,
    ) -> Result<Self, Error> {
        let answer = timeout(silence, transport.send(request))
            .await
            .map_err(|_| Error::Silent(silence))?
            .map_err(|error| Error::unreachable(&error))?;
        let (head, body) = answer.into_parts();
        let mut connection = Self { body, silence };
        if head.status.is_success() {
            return Ok(connection);
        }
        let mut text = Vec::new();
        // What came of the text is good enough if the rest does not.
        while let Ok(Some(frame)) = connection.frame().await {
            text.extend_from_slice(&frame);
            if text.len() > LARGEST_FAILURE {
                break;
            }
        }
        Err(Error::answer(head.status, &head.headers, &text))
    }

    /// The next bytes; none at a proper end.
    pub(super) async fn frame(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = timeout(self.silence, self.body.frame())
                .await
                .map_err(|_| Error::Silent(self.silence))?;
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

    /// Changes how long the server may be silent from here on.
    pub(super) fn allow_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }
}
