//! The ResourceQuota controller: keeps the status of quotas.
//!
//! The API server charges writes to `status.used` and only ever raises it. This controller sets
//! `status.hard`, and counts again when an object is deleted or uses less, and every five minutes.
//! Its writes carry the resourceVersion of the quota that it read before it counted, so that no
//! charge in between is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::cache::{Cache, Subscription, TypeOptions};
use evenkeel::client::Client;
use evenkeel::predicate::Predicate;
use evenkeel::{
    Action, BoxError, Context, ControllerHandle, Kind, Manager, ObjectEvent, Reconciler, Result,
};
use evenkeel_kinds::compute::ResourceList;
use evenkeel_kinds::quota::{self, Evaluator};
use evenkeel_types::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;

use crate::discovery::{Type, Types};
use crate::options::ClusterOptions;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "resourcequota-controller";

/// How often quotas are counted without an event, as upstream.
const RESYNC: Duration = Duration::from_secs(300);

/// How soon a quota is counted again that names a resource that is not served, as upstream.
const REDISCOVER: Duration = Duration::from_secs(30);

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let handle: Arc<OnceLock<ControllerHandle>> = Arc::default();
    let registered = manager
        .controller(Quotas { handle: handle.clone(), ..Quotas::default() })
        .named(NAME)
        .filter_object(Predicate::new(is_specified_anew))
        .reads::<Pod>()
        .reads::<Service>()
        .reads::<PersistentVolumeClaim>()
        .workers(5)
        .register()?;
    handle.get_or_init(|| registered);
    Ok(())
}

/// Returns whether the event is more than a charge: counting after each would be work for nothing.
fn is_specified_anew(event: &ObjectEvent) -> bool {
    let spec = |json: &[u8]| serde_json::from_slice::<Value>(json).ok()?.get("spec").cloned();
    match (event.old(), event.new()) {
        (Some(old), Some(new)) => spec(old.json()) != spec(new.json()),
        _ => true,
    }
}

#[derive(Default)]
struct Quotas {
    /// The handle of this controller, once it is registered.
    handle: Arc<OnceLock<ControllerHandle>>,
    types: Mutex<Option<Arc<Types>>>,
    /// Watches of the types that quotas count.
    watched: Mutex<BTreeMap<Kind, Subscription>>,
}

impl Reconciler for Quotas {
    type Object = ResourceQuota;

    async fn reconcile(&self, cx: &Context<ResourceQuota>) -> Result<Action> {
        let Some(found) = cx.object() else { return Ok(Action::done()) };
        let namespace = cx.key().namespace().unwrap_or_default();
        let spec = found.spec.clone().unwrap_or_default();
        let hard = parse(spec.hard.as_ref());
        let (types, complete) = self.counted_types(cx.client(), &hard).await?;
        let mut objects = Vec::new();
        for kind in &types {
            self.watch(cx.client().cache(), kind)?;
            objects.push(list(cx.client(), kind, namespace).await?);
        }
        let evaluators = types.iter().filter_map(|kind| Evaluator::of(kind.group(), kind.plural()));
        let scopes = quota::scopes(&serde_json::to_value(&spec)?);
        let now = cx.clock().now().as_second();
        let used = quota::total_usage(&hard, &scopes, evaluators.zip(objects), now);
        let status = found.status.clone().unwrap_or_default();
        if parse(status.hard.as_ref()) != hard || parse(status.used.as_ref()) != used {
            let status = ResourceQuotaStatus { hard: spec.hard, used: Some(print(&used)) };
            let next = ResourceQuota { status: Some(status), ..(*found).clone() };
            cx.client().subresource::<ResourceQuota>(cx.key(), "status").update(&next).await?;
        }
        Ok(Action::requeue_after(if complete { RESYNC } else { REDISCOVER }))
    }
}

impl Quotas {
    /// Returns the types of the objects that a quota counts, and whether that accounts for all of
    /// its limits. Types are discovered again if it does not.
    async fn counted_types(
        &self,
        client: &Client,
        hard: &ResourceList,
    ) -> Result<(Vec<Kind>, bool)> {
        let known = self.types.lock().clone();
        if let Some(known) = known {
            let (kinds, complete) = counted(&known, hard);
            if complete {
                return Ok((kinds, true));
            }
        }
        let types = Arc::new(Types::discover(client.kube()).await?);
        *self.types.lock() = Some(types.clone());
        Ok(counted(&types, hard))
    }

    /// Counts the quotas of a namespace again when an object of the type is deleted or uses less.
    fn watch(&self, cache: &Cache, kind: &Kind) -> Result<()> {
        let mut watched = self.watched.lock();
        if watched.contains_key(kind) {
            return Ok(());
        }
        if !cache.is_declared(kind) {
            cache.declare(kind, TypeOptions::new().metadata_only().optional())?;
        }
        let (quotas, handle, counted) = (cache.clone(), self.handle.clone(), kind.clone());
        let subscription = cache.informer(kind)?.subscribe(move |event: ObjectEvent| {
            let key = event.object().meta().key();
            let (Some(namespace), Some(handle)) = (key.namespace(), handle.get()) else { return };
            let quotas = quotas.list(&Kind::of::<ResourceQuota>()).in_namespace(namespace);
            let Ok(quotas) = quotas.entries() else { return };
            if !quotas.is_empty() && releases(&counted, &event) {
                for quota in quotas {
                    handle.enqueue(quota.meta().key().clone(), "an object uses less");
                }
            }
        });
        watched.insert(kind.clone(), subscription);
        Ok(())
    }
}

/// Returns whether the object of an event uses less than before.
fn releases(kind: &Kind, event: &ObjectEvent) -> bool {
    let (Some(old), Some(new)) = (event.old(), event.new()) else {
        return event.new().is_none();
    };
    if old.meta().uid() != new.meta().uid() {
        return true;
    }
    // Of other types, only metadata may be known, and each object counts as one.
    let is_measured =
        kind.is("", "Pod") || kind.is("", "Service") || kind.is("", "PersistentVolumeClaim");
    let Some(evaluator) = Evaluator::of(kind.group(), kind.plural()).filter(|_| is_measured) else {
        return false;
    };
    let usage = |json: &[u8]| {
        let object: Value = serde_json::from_slice(json).ok()?;
        Some((evaluator.usage(&object, 0), object["spec"]["activeDeadlineSeconds"].clone()))
    };
    usage(old.json()) != usage(new.json())
}

/// Returns the types that count towards one of the limits, and whether that is all of them.
fn counted(types: &Types, hard: &ResourceList) -> (Vec<Kind>, bool) {
    let countable = |found: &&Type| found.kind.namespaced() && found.supports(&["list", "watch"]);
    let mut missing: Vec<&String> = hard.keys().collect();
    let mut kinds = Vec::new();
    for Type { kind, .. } in types.iter().filter(countable) {
        let Some(evaluator) = Evaluator::of(kind.group(), kind.plural()) else { continue };
        if hard.keys().any(|name| evaluator.counts(name)) {
            missing.retain(|name| !evaluator.counts(name));
            kinds.push(kind.clone());
        }
    }
    (kinds, missing.is_empty())
}

/// Lists the objects of a type. Those that only count as one are returned without their content.
async fn list(client: &Client, kind: &Kind, namespace: &str) -> Result<Vec<Value>> {
    let resource = kind.api_resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.kube().clone(), namespace, &resource);
    let measured = matches!(
        (kind.group(), kind.kind()),
        ("", "Pod" | "Service" | "PersistentVolumeClaim") | ("resource.k8s.io", "ResourceClaim")
    );
    let everything = ListParams::default();
    if !measured {
        let list = api.list_metadata(&everything).await?;
        return Ok(vec![Value::Null; list.items.len()]);
    }
    let list = api.list(&everything).await?;
    Ok(list.items.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

fn parse(texts: Option<&BTreeMap<String, Text>>) -> ResourceList {
    let quantity =
        |(name, text): (&String, &Text)| Some((name.clone(), Quantity::parse(&text.0).ok()?));
    texts.into_iter().flatten().filter_map(quantity).collect()
}

fn print(list: &ResourceList) -> BTreeMap<String, Text> {
    list.iter().map(|(name, quantity)| (name.clone(), Text(quantity.to_string()))).collect()
}
