//! ConversionReviews: the request that is sent, and the response that is expected.

use std::time::Duration;

use evenkeel_types::Gvk;
use evenkeel_types::go::{self, Quoted};
use serde_json::Value;

use crate::context::Core;
use crate::registry::custom::Conversion;
use crate::webhook::{Call, decode_review};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";

/// How long a conversion may take, as upstream limits it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The size of a response besides that of the converted objects.
const RESPONSE_BASE: usize = 16 * 1024 * 1024;

/// Sends encoded objects to the webhook and returns the converted ones. The error is the reason
/// only.
pub(super) async fn send(
    core: &Core,
    conversion: &Conversion,
    to: &str,
    objects: &[Vec<u8>],
) -> Result<Vec<Value>, String> {
    let version = conversion.review.ok_or("no supported conversion review versions")?;
    let target = conversion.target.as_ref().map_err(String::clone)?;
    let uid = core.clock_rng.uid();
    let body = encode(version, &uid, to, objects);
    let max_response = RESPONSE_BASE + 4 * body.len();
    let call = Call { target, body: body.into(), timeout: TIMEOUT, max_response };
    let body = core.webhooks.post(call).await?;
    decode(&body, version, &uid)
}

fn encode(version: &str, uid: &str, to: &str, objects: &[Vec<u8>]) -> Vec<u8> {
    let size: usize = objects.iter().map(|object| object.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 512);
    let to = Value::from(to);
    out.extend_from_slice(
        format!(
            r#"{{"kind":"{KIND}","apiVersion":"{GROUP}/{version}","request":{{"uid":"{uid}","desiredAPIVersion":{to},"objects":["#
        )
        .as_bytes(),
    );
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(object);
    }
    out.extend_from_slice(
        br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
    );
    out
}

fn decode(body: &[u8], version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let mut review = Value::Object(decode_review(body)?);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    let expected = format!("{GROUP}/{version}");
    let is_expected = api_version == expected && kind == KIND;
    // What is missing is verified later.
    let is_other =
        (!api_version.is_empty() && api_version != expected) || (!kind.is_empty() && kind != KIND);
    if is_other {
        return Err(format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            Quoted(&kind),
            Quoted(&api_version)
        ));
    }
    // The first version verified neither its own kind nor the uid.
    let strict = version == "v1";
    if strict && !is_expected {
        let gvk = Gvk::from_api_version(&api_version, &kind);
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind={KIND}, got {}/{}, Kind={kind}",
            gvk.group, gvk.version
        ));
    }
    let response = &mut review["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    let given = text(&response["uid"]);
    if strict && given != uid {
        return Err(format!("expected response.uid={}, got {}", Quoted(uid), Quoted(&given)));
    }
    let (status, message) =
        (text(&response["result"]["status"]), text(&response["result"]["message"]));
    if status != "Success" {
        return Err(match message.is_empty() {
            true => format!("response.result.status was '{status}', not 'Success'"),
            false => message,
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        Value::Null => Ok(Vec::new()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go struct field \
             ConversionResponse.response.convertedObjects of type []runtime.RawExtension",
            go::json_kind(&other)
        )),
    }
}
