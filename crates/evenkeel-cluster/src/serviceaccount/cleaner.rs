//! Deletes generated tokens in Secrets that are not used for a year, as upstream: they are marked as
//! invalid first, and deleted after another year.

use std::time::Duration;

use evenkeel::cache::TypeOptions;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use evenkeel_kinds::references;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use super::tokens::{ACCOUNT_UID, TYPE, account_of};
use crate::options::ClusterOptions;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "legacy-serviceaccount-token-cleaner-controller";

/// How long a token may be unused, and how long it stays marked:
/// `--legacy-service-account-token-clean-up-period`.
const PERIOD: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How often Secrets are checked.
const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(Cleaner)
        .named(NAME)
        .cached(TypeOptions::new().cluster_wide_secrets())
        .reads::<ServiceAccount>()
        .reads::<Pod>()
        .register()?;
    Ok(())
}

struct Cleaner;

impl Reconciler for Cleaner {
    type Object = Secret;

    async fn reconcile(&self, cx: &Context<Secret>) -> Result<Action> {
        let Some(secret) = cx.object().filter(|it| it.type_.as_deref() == Some(TYPE)) else {
            return Ok(Action::done());
        };
        if secret.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let now = cx.clock().now();
        let limit = now.checked_sub(PERIOD).unwrap_or(Timestamp::MIN);
        if is_unused(&secret, limit) && is_generated(cx, &secret).await? {
            let tracked = tracked_since(cx).await?;
            if tracked.is_some_and(|since| since < limit) && !is_mounted(cx, &secret).await? {
                clean(cx, &secret, now, limit).await?;
            }
        }
        Ok(Action::requeue_after(INTERVAL))
    }
}

fn day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Returns the day in a label, if the label is one.
fn label_day(secret: &Secret, label: &str) -> Option<Date> {
    secret.labels().get(label)?.parse().ok()
}

/// Returns whether a Secret was neither created nor used since `limit`.
fn is_unused(secret: &Secret, limit: Timestamp) -> bool {
    let created = secret.metadata.creation_timestamp.as_ref();
    let is_old = created.is_some_and(|created| created.0 < limit);
    is_old
        && match secret.labels().get(LAST_USED) {
            None => true,
            Some(_) => label_day(secret, LAST_USED).is_some_and(|used| used < day(limit)),
        }
}

/// Returns whether a Secret was generated for its service account, which then names it.
async fn is_generated(cx: &Context<Secret>, secret: &Secret) -> Result<bool> {
    let Some(account) = account_of(secret) else { return Ok(false) };
    let Some(account) = cx.client().get::<ServiceAccount>(&account).await? else {
        return Ok(false);
    };
    let uid = secret.annotations().get(ACCOUNT_UID).filter(|uid| !uid.is_empty());
    let is_same = uid.is_none_or(|uid| account.metadata.uid.as_ref() == Some(uid));
    let mut named = account.secrets.iter().flatten();
    Ok(is_same && named.any(|named| named.name == secret.metadata.name))
}

/// Returns since when the use of tokens is recorded: the day after the one in the ConfigMap.
async fn tracked_since(cx: &Context<Secret>) -> Result<Option<Timestamp>> {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let map = cx.client().live().get::<ConfigMap>(&Key::namespaced("kube-system", name)).await?;
    let since = map.and_then(|map| map.data?.get("since")?.parse::<Date>().ok());
    let next = since.and_then(|since| since.checked_add(1.day()).ok());
    Ok(next.and_then(|day| Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())))
}

async fn is_mounted(cx: &Context<Secret>, secret: &Secret) -> Result<bool> {
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    for pod in cx.client().list::<Pod>().in_namespace(namespace).await? {
        let pod = serde_json::to_value(&*pod)?;
        if references::secrets_of_pod(&pod).contains(&secret.name_any().as_str()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Marks a Secret as invalid, or deletes it if it is marked for long.
async fn clean(
    cx: &Context<Secret>,
    secret: &Secret,
    now: Timestamp,
    limit: Timestamp,
) -> Result<()> {
    let Some(since) = label_day(secret, INVALID_SINCE) else {
        let labels = json!({INVALID_SINCE: day(now).to_string()});
        let patch = json!({"metadata": {"uid": secret.metadata.uid, "labels": labels}});
        cx.client().patch::<Secret>(cx.key(), &Patch::Merge(patch)).await?;
        return Ok(());
    };
    if since >= day(limit) {
        return Ok(());
    }
    let version = secret.resource_version().unwrap_or_default();
    match cx.client().delete(secret).resource_version_precondition(&version).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}
