//! `ServiceAccount`: every pod has an existing service account, mounts its token, and uses its image
//! pull secrets.
//!
//! The account `default` is created by a controller, so a pod in a new namespace waits for it.

use std::collections::HashSet;
use std::time::Duration;

use evenkeel_kinds::references::{self, is_mirror};
use serde_json::{Value, json};

use crate::context::{Attributes, HookFuture, Operation, Plugin, RequestContext};
use crate::object::Metadata as _;
use crate::status::Status;
use crate::storage::Key;

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const DEFAULT: &str = "default";
const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How often the account `default` is looked up.
const ATTEMPTS: usize = 10;

pub(super) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let Some(pod) = created_pod(attributes) else { return Ok(()) };
        if is_mirror(pod) {
            return check_mirror(pod).map_err(|why| forbidden(cx, pod, &why));
        }
        if account_name(pod).is_empty() {
            // Both names of the field, as a round trip through the internal version sets them.
            pod["spec"]["serviceAccountName"] = DEFAULT.into();
            pod["spec"]["serviceAccount"] = DEFAULT.into();
        }
        match find(cx, account_name(pod)) {
            Some(account) => admit(cx, pod, &account),
            None if account_name(pod) == DEFAULT => Ok(()),
            None => Err(not_found(cx, pod)),
        }
    }

    fn mutate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a mut Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let cx = attributes.cx;
        let pod = created_pod(attributes)?;
        let waits = account_name(pod) == DEFAULT && !is_mirror(pod) && find(cx, DEFAULT).is_none();
        waits.then(|| -> HookFuture<'a, Result<(), Status>> {
            Box::pin(async move {
                let interval = Duration::from_millis(100 + cx.core.clock_rng.random_below(100));
                for _ in 1..ATTEMPTS {
                    tokio::time::sleep(interval).await;
                    if let Some(account) = find(cx, DEFAULT) {
                        return admit(cx, pod, &account);
                    }
                }
                Err(not_found(cx, pod))
            })
        })
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let Some(pod) = attributes.object.as_deref().filter(|_| cx.resource.is("", "pods")) else {
            return Ok(());
        };
        match (attributes.operation, cx.subresource.as_deref()) {
            (Operation::Create, None) if is_mirror(pod) => {
                check_mirror(pod).map_err(|why| forbidden(cx, pod, &why))
            }
            (Operation::Create, None) => check(cx, pod, CONTAINERS, true),
            (Operation::Update, Some("ephemeralcontainers")) => {
                check(cx, pod, &[("ephemeralContainers", "ephemeral container")], false)
            }
            _ => Ok(()),
        }
    }
}

const CONTAINERS: &[(&str, &str)] =
    &[("initContainers", "init container"), ("containers", "container")];

/// Returns the pod that a request creates.
fn created_pod<'a>(attributes: &'a mut Attributes<'_>) -> Option<&'a mut Value> {
    let cx = attributes.cx;
    let is_pod = cx.resource.is("", "pods") && cx.subresource.is_none();
    let creates = is_pod && attributes.operation == Operation::Create;
    attributes.object.as_deref_mut().filter(|_| creates)
}

fn account_name(pod: &Value) -> &str {
    pod["spec"]["serviceAccountName"].as_str().unwrap_or("")
}

fn find(cx: &RequestContext, name: &str) -> Option<Value> {
    let accounts = cx.core.builtin("", "serviceaccounts")?;
    let record = accounts.table.get(&Key::new(&cx.namespace, name))?;
    serde_json::from_slice(&record.body).ok()
}

fn forbidden(cx: &RequestContext, pod: &Value, why: &str) -> Status {
    let name = match pod.meta_str("name") {
        "" => pod.meta_str("generateName"),
        name => name,
    };
    Status::forbidden(cx.resource.group_resource(), name, why)
}

fn not_found(cx: &RequestContext, pod: &Value) -> Status {
    let (namespace, name) = (&cx.namespace, account_name(pod));
    let why = format!(
        "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
    );
    forbidden(cx, pod, &why)
}

/// Adds what the account brings to the pod.
fn admit(cx: &RequestContext, pod: &mut Value, account: &Value) -> Result<(), Status> {
    let automount = |object: &Value| object["automountServiceAccountToken"].as_bool();
    if automount(&pod["spec"]).or(automount(account)).unwrap_or(true) {
        mount_token(cx, &mut pod["spec"]);
    }
    if list(&pod["spec"]["imagePullSecrets"]).next().is_none() {
        let secrets: Vec<Value> = list(&account["imagePullSecrets"])
            .map(|secret| json!({"name": secret["name"].as_str().unwrap_or("")}))
            .collect();
        if !secrets.is_empty() {
            pod["spec"]["imagePullSecrets"] = secrets.into();
        }
    }
    check(cx, pod, CONTAINERS, true)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Mounts a volume with a token in all containers that have nothing at its path.
fn mount_token(cx: &RequestContext, spec: &mut Value) {
    let present = list(&spec["volumes"])
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let is_new = present.is_none();
    let volume =
        present.unwrap_or_else(|| format!("{VOLUME_PREFIX}{}", cx.core.clock_rng.name_suffix()));
    let mut is_used = false;
    for (field, _) in CONTAINERS {
        let containers = spec.get_mut(*field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if list(&container["volumeMounts"]).any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mount = json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH});
            push(container, "volumeMounts", mount);
            is_used = true;
        }
    }
    if is_new && is_used {
        let volume = json!({
            "name": volume,
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }},
                    {"downwardAPI": {"items": [{
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }]}},
                ],
                "defaultMode": 0o644,
            },
        });
        push(spec, "volumes", volume);
    }
}

fn push(object: &mut Value, field: &str, item: Value) {
    match object[field].as_array_mut() {
        Some(items) => items.push(item),
        None => object[field] = json!([item]),
    }
}

/// Checks that the account of a pod exists and allows the Secrets that `containers` and, if
/// `whole`, the volumes and the pod itself refer to.
fn check(
    cx: &RequestContext,
    pod: &Value,
    containers: &[(&str, &str)],
    whole: bool,
) -> Result<(), Status> {
    let name = account_name(pod);
    if name.is_empty() {
        let why = format!(
            "no service account specified for pod {}/{}",
            cx.namespace,
            pod.meta_str("name")
        );
        return Err(forbidden(cx, pod, &why));
    }
    let account = find(cx, name).ok_or_else(|| not_found(cx, pod))?;
    let enforced = account["metadata"]["annotations"][ENFORCE_MOUNTABLE_SECRETS].as_str();
    // As Go's ParseBool.
    if !matches!(enforced, Some("1" | "t" | "T" | "TRUE" | "true" | "True")) {
        return Ok(());
    }
    check_secrets(&pod["spec"], &account, containers, whole).map_err(|why| forbidden(cx, pod, &why))
}

fn check_secrets(
    spec: &Value,
    account: &Value,
    containers: &[(&str, &str)],
    whole: bool,
) -> Result<(), String> {
    let names = |field: &str| -> HashSet<&str> {
        list(&account[field]).filter_map(|secret| secret["name"].as_str()).collect()
    };
    let (mountable, account_name) = (names("secrets"), account.meta_str("name"));
    let refuse = |what: String| {
        Err(format!(
            "{what} is not allowed because service account {account_name} does not reference that \
             secret"
        ))
    };
    for volume in list(&spec["volumes"]).filter(|_| whole) {
        if let Some(secret) = volume.get("secret").filter(|secret| secret.is_object()) {
            let name = secret["secretName"].as_str().unwrap_or("");
            if !mountable.contains(name) {
                return refuse(format!("volume with secret.secretName=\"{name}\""));
            }
        }
    }
    for (field, kind) in containers {
        for container in list(&spec[*field]) {
            let own = container["name"].as_str().unwrap_or("");
            for variable in list(&container["env"]) {
                let name = &variable["valueFrom"]["secretKeyRef"]["name"];
                if let Some(name) = name.as_str().filter(|name| !mountable.contains(name)) {
                    let variable = variable["name"].as_str().unwrap_or("");
                    return refuse(format!(
                        "{kind} {own} with envVar {variable} referencing \
                         secret.secretName=\"{name}\""
                    ));
                }
            }
            for source in list(&container["envFrom"]) {
                let name = &source["secretRef"]["name"];
                if let Some(name) = name.as_str().filter(|name| !mountable.contains(name)) {
                    return refuse(format!(
                        "{kind} {own} with envFrom referencing secret.secretName=\"{name}\""
                    ));
                }
            }
        }
    }
    let pull = names("imagePullSecrets");
    for (at, secret) in list(&spec["imagePullSecrets"]).enumerate().filter(|_| whole) {
        let name = secret["name"].as_str().unwrap_or("");
        if !pull.contains(name) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account \
                 {account_name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Checks a mirror pod, which is not changed and must not use secrets.
fn check_mirror(pod: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    if !references::secrets_of_pod(pod).is_empty() {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let mut sources =
        list(&spec["volumes"]).flat_map(|volume| list(&volume["projected"]["sources"]));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned());
    }
    Ok(())
}
