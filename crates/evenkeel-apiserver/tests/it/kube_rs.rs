//! kube-rs against the server: client, watcher and controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::CustomResourceExt as _;
use kube::runtime::controller::Action;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Controller, WatchStreamExt as _};
use kube::{Client, CustomResource, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use crate::harness::{Cluster, TIMEOUT};

/// A greeting that is written to a ConfigMap.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus"
)]
struct GreetingSpec {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
struct GreetingStatus {
    greeted: Option<String>,
}

fn client(cluster: &Cluster) -> Client {
    Client::new(cluster.server.service(), "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Installs the Greeting CRD and waits until it is established.
async fn define(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply("installer");
    let definition = Greeting::crd();
    definitions
        .patch(&definition.name_any(), &parameters, &Patch::Apply(&definition))
        .await
        .unwrap();
    let established =
        await_condition(definitions, "greetings.example.com", conditions::is_crd_established());
    timeout(TIMEOUT, established).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn typed_objects_are_created_read_updated_and_deleted() {
    let cluster = Cluster::new().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert_eq!(api.get("a").await.unwrap(), created);

    let mut changed = created.clone();
    changed.data = config_map("a", "2").data;
    let changed = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    let conflict = api.replace("a", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(&conflict, kube::Error::Api(status) if status.is_conflict()), "{conflict}");

    let patch = json!({"data": {"k": "3"}});
    let patched = api.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.data, config_map("a", "3").data);
    assert_ne!(patched.resource_version(), changed.resource_version());

    let list = api.list(&ListParams::default().limit(10)).await.unwrap();
    assert_eq!(list.items, [patched]);
    assert_eq!(list.types.kind, "ConfigMapList");

    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
    let missing = api.get("a").await.unwrap_err();
    assert!(matches!(&missing, kube::Error::Api(status) if status.is_not_found()), "{missing}");
}

#[tokio::test(start_paused = true)]
async fn raw_watch_is_decoded() {
    let cluster = Cluster::new().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    let from = cluster.server.revision().to_string();
    let mut events = api.watch(&WatchParams::default(), &from).await.unwrap().boxed();
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let event = timeout(TIMEOUT, events.try_next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Added(object) if *object == created), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn kube_discovery_finds_every_group() {
    let cluster = Cluster::new().await;
    let client = client(&cluster);
    define(&client).await;
    let plain = kube::Discovery::new(client.clone()).run().await.unwrap();
    let aggregated = kube::Discovery::new(client).run_aggregated().await.unwrap();
    for discovery in [plain, aggregated] {
        let group = discovery.get("example.com").unwrap();
        let (resource, _) = group.recommended_kind("Greeting").unwrap();
        assert_eq!((&*resource.plural, &*resource.version), ("greetings", "v1"));
        assert!(discovery.get("apps").unwrap().recommended_kind("Deployment").is_some());
    }
}

/// Watches ConfigMaps with kube's watcher and compares its events with the changes.
async fn follow(config: watcher::Config) {
    let cluster = Cluster::new().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    }
    let mut events = watcher(api.clone(), config).boxed();
    let mut seen = Vec::new();
    let mut step = 0;
    while step < 4 {
        let event = timeout(TIMEOUT, events.try_next()).await.unwrap().unwrap().unwrap();
        match event {
            watcher::Event::Init => seen.push("init".to_owned()),
            watcher::Event::InitApply(object) => seen.push(format!("had {}", object.name_any())),
            watcher::Event::InitDone => seen.push("done".to_owned()),
            watcher::Event::Apply(object) => seen.push(format!("now {}", object.name_any())),
            watcher::Event::Delete(object) => seen.push(format!("not {}", object.name_any())),
        }
        let synced = seen.last().is_some_and(|last| !last.starts_with("had") && last != "init");
        if synced {
            match step {
                0 => drop(api.create(&PostParams::default(), &config_map("d", "1")).await.unwrap()),
                1 => drop(api.delete("a", &DeleteParams::default()).await.unwrap()),
                2 => {
                    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
                    api.patch("b", &PatchParams::default(), &patch).await.unwrap();
                }
                _ => {}
            }
            step += 1;
        }
    }
    assert_eq!(seen, ["init", "had a", "had b", "had c", "done", "now d", "not a", "now b"]);
}

#[tokio::test(start_paused = true)]
async fn watcher_lists_pages_and_watches() {
    follow(watcher::Config::default().page_size(2)).await;
}

#[tokio::test(start_paused = true)]
async fn watcher_uses_a_streaming_list() {
    follow(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test(start_paused = true)]
async fn watcher_resumes_after_a_watch_ended() {
    let cluster = Cluster::new().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster));
    let config = watcher::Config::default().timeout(5);
    let mut objects = watcher(api.clone(), config).default_backoff().touched_objects().boxed();
    for round in 0..5 {
        let name = format!("c{round}");
        // The watch ends and its revision is compacted before the object is created.
        let (object, ()) =
            tokio::join!(timeout(Duration::from_secs(120), objects.try_next()), async {
                tokio::time::sleep(Duration::from_secs(7)).await;
                cluster.server.compact();
                api.create(&PostParams::default(), &config_map(&name, "1")).await.unwrap();
            });
        assert_eq!(object.unwrap().unwrap().unwrap().name_any(), name);
    }
}

async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let client = Client::clone(&client);
    let namespace = greeting.namespace().unwrap();
    let hello = format!("hello {}", greeting.spec.name);
    let mut object = config_map(&greeting.name_any(), &hello);
    object.metadata.owner_references = greeting.controller_owner_ref(&()).map(|owner| vec![owner]);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let parameters = PatchParams::apply("greeter").force();
    maps.patch(&greeting.name_any(), &parameters, &Patch::Apply(&object)).await?;

    let greetings: Api<Greeting> = Api::namespaced(client, &namespace);
    let status = json!({"status": GreetingStatus { greeted: Some(hello) }});
    greetings
        .patch_status(&greeting.name_any(), &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn controller_reconciles_a_derived_custom_resource() {
    let cluster = Cluster::new().await;
    let client = client(&cluster);
    define(&client).await;
    let greetings: Api<Greeting> = Api::default_namespaced(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let controller = Controller::new(greetings.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| panic!("a reconciliation failed: {error}"),
            Arc::new(client.clone()),
        )
        .for_each(|result| async {
            result.unwrap();
        });

    let user = async {
        let greeting = Greeting::new("g", GreetingSpec { name: "world".to_owned() });
        greetings.create(&PostParams::default(), &greeting).await.unwrap();
        let has_text = |hello: &'static str| {
            move |map: Option<&ConfigMap>| {
                map.and_then(|map| map.data.as_ref()?.get("k")).is_some_and(|text| text == hello)
            }
        };
        await_condition(maps.clone(), "g", has_text("hello world")).await.unwrap();

        // A change of the spec and a change of the owned ConfigMap are both reconciled.
        let patch = Patch::Merge(json!({"spec": {"name": "moon"}}));
        greetings.patch("g", &PatchParams::default(), &patch).await.unwrap();
        await_condition(maps.clone(), "g", has_text("hello moon")).await.unwrap();
        maps.delete("g", &DeleteParams::default()).await.unwrap();
        await_condition(maps.clone(), "g", has_text("hello moon")).await.unwrap();

        let actual = |greeting: Option<&Greeting>| {
            greeting
                .and_then(|greeting| greeting.status.as_ref()?.greeted.as_deref())
                .is_some_and(|greeted| greeted == "hello moon")
        };
        await_condition(greetings.clone(), "g", actual).await.unwrap();
    };
    tokio::select! {
        () = controller => panic!("the controller ended"),
        result = timeout(Duration::from_secs(300), user) => result.unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn derived_schema_is_enforced() {
    let cluster = Cluster::new().await;
    let client = client(&cluster);
    define(&client).await;
    let greetings: Api<kube::core::DynamicObject> =
        Api::default_namespaced_with(client, &kube::core::ApiResource::erase::<Greeting>(&()));
    let object = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "g"},
        "spec": {},
    }));
    let refused = greetings.create(&PostParams::default(), &object.unwrap()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert!(status.is_invalid(), "{status:?}");
    assert_eq!(status.message, "Greeting.example.com \"g\" is invalid: spec.name: Required value");
}
