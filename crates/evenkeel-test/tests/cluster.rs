//! Tests of `TestCluster` itself.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use evenkeel::manifest;
use evenkeel::prelude::*;
use evenkeel_test::{Rule, TestCluster};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

struct Marker;

impl Reconciler for Marker {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let Some(map) = cx.object() else { return Ok(Action::done()) };
        let mut marked = (*map).clone();
        marked.data.get_or_insert_default().insert("seen".into(), "yes".into());
        if marked.data != map.data {
            cx.client().update(&marked).await?;
        }
        Ok(Action::done())
    }
}

#[tokio::test]
async fn operator_runs_on_its_own_cluster() {
    let mut cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
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
    cluster.client().delete_by_key::<ConfigMap>(&key).await.unwrap();
    cluster.eventually_gone::<ConfigMap>(&key).await;
    cluster.stop().await;
}

#[tokio::test]
async fn manager_with_rules_is_forbidden_everything_else() {
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
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
async fn access_report_compares_requests_with_rules() {
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    let rules = [
        Rule::new("", &["configmaps"], &["get", "create", "update"]),
        Rule::new("apps", &["deployments/status"], &["patch"]),
    ];
    let manager = cluster.manager_with("operator", &rules).await;
    let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
    let created = manager.client().create(&map).await.unwrap();
    manager.client().live().get::<ConfigMap>(&Key::of(&*created)).await.unwrap();
    manager.client().delete(&*created).await.unwrap_err();
    // An apply that creates needs the verb create, too.
    let secret = cluster.parse::<Secret>("metadata: {name: a}");
    manager.client().apply(&secret).await.unwrap_err();

    let Some(report) = cluster.access_report("operator") else { return cluster.stop().await };
    let verbs = |accesses: &[evenkeel_test::CountedAccess]| -> Vec<String> {
        accesses.iter().map(|it| format!("{} {}", it.access.verb, it.access.resource)).collect()
    };
    assert_eq!(verbs(&report.used), ["create configmaps", "get configmaps"], "{report}");
    assert_eq!(verbs(&report.denied), ["delete configmaps", "patch secrets"], "{report}");
    let unused: Vec<_> = report.unused.iter().map(ToString::to_string).collect();
    assert_eq!(
        unused,
        ["update configmaps in API group \"\"", "patch deployments/status in API group \"apps\""]
    );
    let check = || cluster.assert_least_privilege("operator");
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).unwrap_err();
    let message = failed.downcast_ref::<String>().unwrap();
    assert!(message.contains("never used: update configmaps"), "{message}");
    assert!(message.contains("denied: delete configmaps"), "{message}");

    // With exactly the rules it needs, it passes.
    let rules = [Rule::new("", &["configmaps"], &["get"])];
    let exact = cluster.manager_with("exact", &rules).await;
    exact.client().live().get::<ConfigMap>(&Key::of(&*created)).await.unwrap();
    cluster.assert_least_privilege("exact");
    cluster.stop().await;
}

#[tokio::test]
async fn rejected_crd_reports_the_reason() {
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    let text = "metadata: {name: wrong.example.com}\nspec: {group: example.com, scope: Cluster, \
                names: {kind: Widget, plural: widgets}, versions: []}";
    let error = cluster.install_yaml(text).await.unwrap_err();
    assert!(error.to_string().contains("must be spec.names.plural"), "{error}");
    cluster.stop().await;
}

/// Runs a test that must fail and returns its panic message.
fn failure(test: impl Future<Output = ()>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = std::panic::AssertUnwindSafe(|| runtime.block_on(test));
    let panic = std::panic::catch_unwind(run).expect_err("the test should have failed");
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn eventually_timeout_shows_the_last_seen_object() {
    let message = failure(async {
        let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
        let map = cluster.parse::<ConfigMap>("metadata: {name: a}\ndata: {k: last-seen}");
        cluster.client().create(&map).await.unwrap();
        cluster.eventually::<ConfigMap>(&Key::of(&map), |_| false).await;
    });
    assert!(message.contains("tests/cluster.rs"), "{message}");
    assert!(message.contains("last-seen"), "{message}");
}

/// Increments a counter in the object that it reconciles, so that each write causes a reconcile.
struct Spinner;

impl Reconciler for Spinner {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let Some(map) = cx.object().filter(|map| map.name_any() == "wheel") else {
            return Ok(Action::done());
        };
        let mut next = (*map).clone();
        let data = next.data.get_or_insert_default();
        let turns = data.get("turns").and_then(|turns| turns.parse().ok()).unwrap_or(0_u64);
        data.insert("turns".to_owned(), (turns + 1).to_string());
        cx.client().update(&next).await?;
        Ok(Action::done())
    }
}

/// Starts a cluster in virtual time with a spinning controller.
async fn start_spinning() -> (TestCluster, Key) {
    let mut cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    let manager = cluster.manager("spinner");
    manager.controller(Spinner).named("spinner").register().unwrap();
    cluster.run(&manager);
    let wheel = cluster.parse::<ConfigMap>("metadata: {name: wheel}");
    cluster.client().create(&wheel).await.unwrap();
    (cluster, Key::of(&wheel))
}

fn assert_reports_the_spin(message: &str) {
    let named = "controller \"spinner\" spins: it reconciled ConfigMap default/wheel ";
    assert!(message.contains(named), "{message}");
    assert!(message.contains("data.turns"), "the message should name the field: {message}");
}

#[test]
fn spinning_controller_fails_eventually() {
    assert_reports_the_spin(&failure(async {
        let (cluster, key) = start_spinning().await;
        cluster.eventually::<ConfigMap>(&key, |_| false).await;
    }));
}

#[test]
fn spinning_controller_fails_a_test_that_only_sleeps() {
    assert_reports_the_spin(&failure(async {
        let (cluster, _) = start_spinning().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        cluster.stop().await;
    }));
    assert_reports_the_spin(&failure(async {
        let (_cluster, _) = start_spinning().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }));
}

#[test]
fn requeue_without_delay_is_reported_as_a_spin() {
    let message = failure(async {
        let mut cluster =
            TestCluster::builder().api_only().virtual_time(1).spin_limit(300).start().await;
        let manager = cluster.manager("eager");
        let eager = reconciler_fn(|_: Arc<ConfigMap>, _| async {
            Ok(Action::requeue_after(Duration::ZERO))
        });
        manager.controller(eager).named("eager").register().unwrap();
        cluster.run(&manager);
        let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
        cluster.client().create(&map).await.unwrap();
        cluster.eventually_gone::<ConfigMap>(&Key::of(&map)).await;
    });
    let named = "controller \"eager\" spins: it reconciled ConfigMap default/a ";
    assert!(message.contains(named), "{message}");
}

#[tokio::test]
async fn two_clusters_in_one_test_share_virtual_time() {
    let one = TestCluster::builder().api_only().virtual_time(1).start().await;
    let other = TestCluster::builder().api_only().virtual_time(2).start().await;
    let map = one.parse::<ConfigMap>("metadata: {name: a}");
    one.client().create(&map).await.unwrap();
    assert!(other.client().get::<ConfigMap>(&Key::of(&map)).await.unwrap().is_none());
    one.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn virtual_time_works_with_an_already_paused_clock() {
    TestCluster::builder().api_only().virtual_time(1).start().await.stop().await;
}

#[tokio::test]
async fn test_client_reads_undeclared_types() {
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
    cluster.client().create(&map).await.unwrap();
    assert!(cluster.client().get::<ConfigMap>(&Key::of(&map)).await.unwrap().is_some());
    assert!(cluster.client().list::<Secret>().await.unwrap().is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn warnings_are_logged_without_a_subscriber() {
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    assert!(tracing::enabled!(tracing::Level::WARN));
    cluster.stop().await;
}

#[tokio::test]
async fn rules_export_as_a_cluster_role() {
    let rules = [
        Rule::new("", &["configmaps", "configmaps/status"], &["get", "list"]),
        Rule::new("apps", &["*"], &["*"]),
    ];
    let yaml = manifest::yaml(&Rule::cluster_role("operator", &rules)).unwrap();
    let cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
    let created = cluster.client().create(&cluster.parse::<ClusterRole>(&yaml)).await.unwrap();
    let granted = created.rules.as_ref().unwrap();
    assert_eq!(granted.len(), 2);
    assert_eq!(granted[0].api_groups.as_deref(), Some(&[String::new()][..]));
    assert_eq!(granted[1].verbs, ["*"]);
    cluster.stop().await;
}

/// Calls a server over a socket in each reconcile.
struct SocketCaller(SocketAddr);

impl Reconciler for SocketCaller {
    type Object = ConfigMap;

    async fn reconcile(&self, _: &Context<ConfigMap>) -> Result<Action> {
        let mut stream = tokio::net::TcpStream::connect(self.0).await?;
        stream.write_all(b"?").await?;
        stream.read_exact(&mut [0]).await?;
        Ok(Action::done())
    }
}

#[test]
fn external_call_in_virtual_time_is_explained() {
    // Accepts a connection and responds only after the client has closed it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        let _ = stream.write_all(b"!");
    });
    let message = failure(async {
        let mut cluster = TestCluster::builder().api_only().virtual_time(1).start().await;
        let manager = cluster.manager("caller");
        manager.controller(SocketCaller(address)).named("caller").register().unwrap();
        cluster.run(&manager);
        let map = cluster.parse::<ConfigMap>("metadata: {name: a}");
        cluster.client().create(&map).await.unwrap();
        cluster.eventually::<ConfigMap>(&Key::of(&map), |map| map.data.is_some()).await;
    });
    server.join().unwrap();
    assert!(message.contains("A reconcile of \"caller\" is still running"), "{message}");
    assert!(message.contains("without `virtual_time`"), "{message}");
}
