//! The errors of HTTP responses that are not a review, in the words of upstream's client.

use evenkeel_types::go::Quoted;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::connection::Response;

/// The text of a body that a message contains.
const MAX_TEXT: usize = 2048;

/// Returns the message of a response with an error code.
pub(super) fn message(response: &Response) -> String {
    let code = response.status.as_u16();
    if let Ok(status) = serde_json::from_slice::<Value>(&response.body)
        && status["kind"] == "Status"
        && let Some(message) = status["message"].as_str()
    {
        return message.to_owned();
    }
    let content_type = response
        .headers
        .get(CONTENT_TYPE)
        .map_or("text/", |value| value.to_str().unwrap_or_default());
    let text = if content_type.starts_with("text/") {
        let cut = &response.body[..response.body.len().min(MAX_TEXT)];
        String::from_utf8_lossy(cut).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => text,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if text.is_empty() || text == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
                .to_owned()
        }
        406 => text,
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later"
            .to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be \
                processing the request"
            .to_owned(),
        500.. => format!(
            "an error on the server ({}) has prevented the request from succeeding",
            Quoted(&text)
        ),
        _ => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}
