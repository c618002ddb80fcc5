//! TokenRequest: issues a token of a service account.

use std::sync::Arc;

use evenkeel_kinds::validate;
use evenkeel_schema::field;
use evenkeel_types::Gvk;
use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::managed_fields::SentKind;
use crate::clock_rng::rfc3339;
use crate::context::{Attributes, Operation, RequestContext};
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::checks::check_namespace;
use crate::pipeline::encode::Reply;
use crate::pipeline::{decode, persist};
use crate::request::query::WriteOptions;
use crate::status::{GroupResource, Status};
use crate::storage::{Key, Record};
use crate::tokens::NewToken;

const TOKEN_REQUEST: Gvk<'static> = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
static SENT: SentKind = SentKind::new(TOKEN_REQUEST);
/// The resource that upstream names in errors of a TokenRequest.
const NAMED: GroupResource<'static> =
    GroupResource { group: TOKEN_REQUEST.group, resource: TOKEN_REQUEST.kind };

/// The lifetime that kubelets request for pods by default, in seconds.
const POD_TOKEN_SECONDS: i64 = 3607;
/// The lifetime of such tokens: old clients do not read them again. A year, in seconds.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// An object that a token is bound to.
#[derive(Default)]
struct Bound {
    /// Kind in lower case, name and uid.
    claims: Vec<(&'static str, String, String)>,
    is_pod: bool,
}

/// Issues a token of the service account in the request's path.
pub(super) async fn request(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let mut request = decode::of_kind(cx, body, TOKEN_REQUEST, options.field_validation)?;
    check_namespace(cx, &mut request)?;
    let empty = json!({
        "metadata": {},
        "spec": {"audiences": null, "expirationSeconds": null, "boundObjectRef": null},
        "status": {"token": "", "expirationTimestamp": null},
    });
    SENT.set_managed_fields(cx, &mut request, empty, &options);
    cx.core.admission.mutate(&mut attributes(cx, &mut request)).await?;
    check_name(cx, &request)?;
    let account = persist::current(cx, cx.name()).await?;
    let uid = account.object().meta_str("uid").to_owned();
    let given_uid = request.meta_str("uid");
    if !given_uid.is_empty() && given_uid != uid {
        let why = format!(
            "the UID in the token request ({given_uid}) does not match the UID of the service \
             account ({uid})"
        );
        return Err(Status::conflict(NAMED, cx.name(), &why));
    }
    let tokens = &cx.core.authenticator.service_accounts;
    let now = cx.core.clock_rng.now();
    let mut audiences = strings(&request["spec"]["audiences"]);
    if audiences.is_empty() {
        audiences.clone_from(&tokens.audiences);
        request["spec"]["audiences"] = json!(audiences);
    }
    set_meta(&mut request, "name", Some(cx.name().into()));
    set_meta(&mut request, "namespace", Some(cx.namespace.clone().into()));
    set_meta(&mut request, "uid", Some(uid.clone().into()));
    set_meta(&mut request, "creationTimestamp", Some(rfc3339(now).into()));
    request["status"] = json!({"token": "", "expirationTimestamp": null});
    let errors = validate::create(TOKEN_REQUEST, &request);
    if !errors.is_empty() {
        return Err(Status::invalid(NAMED, "", &errors));
    }
    cx.core.admission.validate(&attributes(cx, &mut request)).await?;

    let bound = bound_object(cx, &request["spec"]["boundObjectRef"])?;
    let mut lifetime = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    if let Some(most) = tokens.max_expiration.filter(|most| lifetime > *most) {
        cx.warnings
            .add(format!("requested expiration of {lifetime} seconds shortened to {most} seconds"));
        lifetime = most;
        request["spec"]["expirationSeconds"] = most.into();
    }
    let extended = tokens.extend_expiration
        && bound.is_pod
        && lifetime == POD_TOKEN_SECONDS
        && audiences.iter().all(|audience| tokens.audiences.contains(audience));
    let token = NewToken {
        namespace: &cx.namespace,
        account: (cx.name(), &uid),
        bound: bound.claims,
        audiences: &audiences,
        lifetime: if extended { EXTENDED_SECONDS } else { lifetime },
        warn_after: extended.then_some(lifetime),
        id: cx.core.clock_rng.uid(),
    };
    cx.audit
        .annotate("authentication.kubernetes.io/issued-credential-id", format!("JTI={}", token.id));
    let token = tokens.issue(&token, now);
    let token = token.ok_or_else(|| Status::internal("failed to generate token"))?;
    let end = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(now);
    request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(end)});
    Ok(Reply::Other(StatusCode::CREATED, request))
}

fn attributes<'a>(cx: &'a RequestContext, request: &'a mut Value) -> Attributes<'a> {
    Attributes::new(cx, Operation::Create, Some(request), None)
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn check_name(cx: &RequestContext, request: &Value) -> Result<(), Status> {
    let given = request.meta_str("name");
    if given.is_empty() || given == cx.name() {
        return Ok(());
    }
    let detail = "must match the service account name if specified";
    let error = field::Error::invalid("metadata.name", given, detail);
    Err(Status::invalid(NAMED, cx.name(), &[error]))
}

/// Finds the object that the token is to be bound to.
fn bound_object(cx: &RequestContext, reference: &Value) -> Result<Bound, Status> {
    if !reference.is_object() {
        return Ok(Bound::default());
    }
    let text = |field: &str| reference[field].as_str().unwrap_or("");
    let name = text("name");
    let gvk = Gvk::from_api_version(text("apiVersion"), text("kind"));
    let (kind, plural, namespace) = match (gvk.group, gvk.kind) {
        ("", "Pod") => ("pod", "pods", cx.namespace.as_str()),
        ("", "Secret") => ("secret", "secrets", cx.namespace.as_str()),
        ("", "Node") => ("node", "nodes", ""),
        _ => {
            let (group, version, kind) = (gvk.group, gvk.version, gvk.kind);
            let message =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
    };
    let record = stored(cx, plural, namespace, name)
        .ok_or_else(|| Status::not_found(GroupResource { group: "", resource: plural }, name))?;
    let is_pod = kind == "pod";
    let mut claims = vec![(kind, name.to_owned(), record.uid.to_string())];
    if is_pod {
        let pod: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
        let spec = |field: &str| pod["spec"][field].as_str().unwrap_or("").to_owned();
        if spec("serviceAccountName") != cx.name() {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different \
                 serviceaccount name.",
                cx.name()
            )));
        }
        let node = spec("nodeName");
        if !node.is_empty() {
            // A node that does not exist is named without a uid.
            let uid = stored(cx, "nodes", "", &node).map(|record| record.uid.to_string());
            claims.push(("node", node, uid.unwrap_or_default()));
        }
    }
    let given = text("uid");
    if !given.is_empty() && *given != *record.uid {
        let named = GroupResource { group: gvk.group, resource: gvk.kind };
        let why = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The \
             object might have been deleted and then recreated"
        );
        return Err(Status::conflict(named, name, &why));
    }
    Ok(Bound { claims, is_pod })
}

fn stored(cx: &RequestContext, plural: &str, namespace: &str, name: &str) -> Option<Arc<Record>> {
    cx.core.builtin("", plural)?.table.get(&Key::new(namespace, name))
}
