//! What a test's cluster promises.

use std::time::Duration;

use evenkeel::prelude::*;
use evenkeel_test::{Rule, TestCluster};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

struct Marker;

impl Reconciler for Marker {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let Some(map) = cx.object() else { return Ok(Action::done()) };
        let mut marked = (*map).clone();
        marked.data.get_or_insert_default().insert("seen".into(), "yes".into());
        if marked.data != map.data {
            cx.update(&marked).await?;
        }
        Ok(Action::done())
    }
}

#[tokio::test]
async fn an_operator_runs_against_a_cluster_of_its_own() {
    let mut cluster = TestCluster::builder().bare().virtual_time(1).start().await;
    let manager = cluster.manager("marker");
    manager.controller(Marker).register().unwrap();
    cluster.run(&manager);
    let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
    cluster.client().create(&map).await.unwrap();
    let key = Key::of(&map);
    let seen = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data.contains_key("seen"));
    cluster.eventually::<ConfigMap>(&key, seen).await;
    cluster.consistently::<ConfigMap>(&key, Duration::from_secs(5), seen).await;
    let all = cluster.eventually_all::<ConfigMap>(|maps| maps.iter().any(|map| seen(map))).await;
    assert!(all.iter().any(|map| map.metadata.name.as_deref() == Some("a")));
    cluster.client().delete_named::<ConfigMap>(&key).await.unwrap();
    cluster.gone::<ConfigMap>(&key).await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_operator_may_do_what_its_rules_say_and_nothing_else() {
    let cluster = TestCluster::builder().bare().virtual_time(1).start().await;
    let rules = [Rule::new("", &["configmaps"], &["get", "create"])];
    let manager = cluster.manager_with("restricted", &rules).await;
    let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
    manager.client().create(&map).await.unwrap();
    let secret = cluster.parse::<Secret>("metadata: {name: a}");
    let error = manager.client().create(&secret).await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    let user = format!("system:serviceaccount:{}:restricted", cluster.namespace());
    assert!(error.to_string().contains(&user), "{error}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_definition_that_is_refused_says_why() {
    let cluster = TestCluster::builder().bare().virtual_time(1).start().await;
    let text = "metadata: {name: wrong.example.com}\nspec: {group: example.com, scope: Cluster, \
                names: {kind: Thing, plural: things}, versions: []}";
    let error = cluster.install_yaml(text).await.unwrap_err();
    assert!(error.to_string().contains("must be spec.names.plural"), "{error}");
    cluster.stop().await;
}

#[test]
fn waiting_in_vain_shows_what_was_last() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let cluster = TestCluster::builder().bare().virtual_time(1).start().await;
            let map = cluster.parse::<ConfigMap>("metadata: {name: a}\ndata: {k: last-seen}");
            cluster.client().create(&map).await.unwrap();
            cluster.eventually::<ConfigMap>(&Key::of(&map), |_| false).await;
        });
    }))
    .unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("tests/cluster.rs"), "{message}");
    assert!(message.contains("last-seen"), "{message}");
}
