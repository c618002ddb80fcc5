//! Discovery, health and version endpoints.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{CRDS, Cluster, TABLE, names, text, widget_crd};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the entry of `name` in an APIResourceList.
#[track_caller]
fn resource<'a>(list: &'a Value, name: &str) -> &'a Value {
    let resources = list["resources"].as_array().unwrap();
    let found = resources.iter().find(|resource| resource["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list}"))
}

#[tokio::test(start_paused = true)]
async fn core_group_lists_v1() {
    let cluster = Cluster::new().await;
    let versions = cluster.get("/api").await.expect(200);
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
}

#[tokio::test(start_paused = true)]
async fn groups_are_listed_in_upstream_order() {
    let cluster = Cluster::new().await;
    let list = cluster.get("/apis").await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let groups: Vec<String> =
        list["groups"].as_array().unwrap().iter().map(|group| text(&group["name"])).collect();
    assert_eq!(
        groups,
        [
            "apiregistration.k8s.io",
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "certificates.k8s.io",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn first_version_of_a_group_is_preferred() {
    let cluster = Cluster::new().await;
    let group = cluster.get("/apis/autoscaling").await.expect(200);
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "autoscaling",
            "versions": [
                {"groupVersion": "autoscaling/v2", "version": "v2"},
                {"groupVersion": "autoscaling/v1", "version": "v1"},
            ],
            "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn api_resource_has_names_scope_and_verbs() {
    let cluster = Cluster::new().await;
    let list = cluster.get("/api/v1").await.expect(200);
    assert_eq!(list["groupVersion"], "v1");
    let pods = resource(&list, "pods");
    assert_eq!(
        (&pods["singularName"], &pods["kind"], &pods["namespaced"], &pods["shortNames"]),
        (&json!("pod"), &json!("Pod"), &json!(true), &json!(["po"]))
    );
    assert_eq!(pods["categories"], json!(["all"]));
    assert_eq!(
        pods["verbs"],
        json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"])
    );
    assert_eq!(resource(&list, "nodes")["namespaced"], false);
    assert_eq!(resource(&list, "pods/status")["verbs"], json!(["get", "patch", "update"]));
    let scale =
        resource(&cluster.get("/apis/apps/v1").await.expect(200), "deployments/scale").clone();
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
}

#[tokio::test(start_paused = true)]
async fn aggregated_discovery_returns_the_requested_type_and_an_etag() {
    let cluster = Cluster::new().await;
    for path in ["/api", "/apis"] {
        let response = cluster.get_as(path, AGGREGATED).await;
        assert_eq!(response.header("content-type"), AGGREGATED);
        assert_eq!(response.header("vary"), "Accept");
        let tag = response.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{tag}");
        let list = response.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");

        let headers = [("accept", AGGREGATED), ("if-none-match", tag.as_str())];
        let again = cluster.send(Method::GET, path, &headers, "").await;
        assert_eq!((again.status, again.bytes.len()), (304, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_accepts_older_discovery_gets_the_newest() {
    let cluster = Cluster::new().await;
    let accept = format!(
        "{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
         application/json"
    );
    let response = cluster.get_as("/apis", &accept).await;
    assert_eq!(response.header("content-type"), AGGREGATED);
    assert_eq!(response.expect(200)["kind"], "APIGroupDiscoveryList");
}

#[tokio::test(start_paused = true)]
async fn aggregated_and_legacy_discovery_list_the_same_resources() {
    let cluster = Cluster::with_widgets().await;
    let mut plain = Vec::new();
    let mut paths = vec!["/api/v1".to_owned()];
    for group in cluster.get("/apis").await.expect(200)["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            paths.push(format!("/apis/{}", text(&version["groupVersion"])));
        }
    }
    for path in &paths {
        let list = cluster.get(path).await.expect(200);
        for resource in list["resources"].as_array().unwrap() {
            plain.push(format!("{}/{}", text(&list["groupVersion"]), text(&resource["name"])));
        }
    }
    let mut aggregated = Vec::new();
    for path in ["/api", "/apis"] {
        let list = cluster.get_as(path, AGGREGATED).await.expect(200);
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or("");
            for version in group["versions"].as_array().unwrap() {
                assert_eq!(version["freshness"], "Current");
                let version_name = text(&version["version"]);
                let prefix = match name {
                    "" => version_name,
                    group => format!("{group}/{version_name}"),
                };
                for resource in version["resources"].as_array().unwrap() {
                    let name = text(&resource["resource"]);
                    let subresources = resource["subresources"].as_array();
                    for sub in subresources.into_iter().flatten() {
                        aggregated.push(format!("{prefix}/{name}/{}", text(&sub["subresource"])));
                    }
                    // A resource that only has subresources has no kind.
                    if resource["responseKind"]["kind"] != "" {
                        aggregated.push(format!("{prefix}/{name}"));
                    }
                }
            }
        }
    }
    plain.sort();
    aggregated.sort();
    assert_eq!(plain, aggregated);
    assert!(plain.len() > 113, "{} resources and subresources", plain.len());
}

#[tokio::test(start_paused = true)]
async fn new_crd_changes_discovery_and_its_etag() {
    let cluster = Cluster::new().await;
    let before = cluster.get_as("/apis", AGGREGATED).await.header("etag").to_owned();
    cluster.get("/apis/example.com").await.expect(404);
    cluster.post(CRDS, widget_crd()).await.expect(201);

    let after = cluster.get_as("/apis", AGGREGATED).await;
    assert_ne!(before, after.header("etag"));
    let list = cluster.get("/apis/example.com/v1").await.expect(200);
    let widgets = resource(&list, "widgets");
    assert_eq!(
        (&widgets["kind"], &widgets["singularName"], &widgets["shortNames"]),
        (&json!("Widget"), &json!("widget"), &json!(["wg"]))
    );
    assert_eq!(resource(&list, "widgets/scale")["kind"], "Scale");

    cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
    cluster.get("/apis/example.com").await.expect(404);
    assert_eq!(before, cluster.get_as("/apis", AGGREGATED).await.header("etag"));
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_return_404_in_the_format_of_their_handler() {
    let cluster = Cluster::with_widgets().await;
    let nobodys = [
        "/foo",
        "/apis/nope.io",
        "/apis/nope.io/v1",
        "/apis/nope.io/v1/things",
        "/apis/example.com/v1/gadgets",
        "/apis/example.com/v9/widgets",
        "/livez/nope",
    ];
    for path in nobodys {
        let response = cluster.get(path).await;
        assert_eq!((response.status, &*response.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(response.header("content-type"), "text/plain; charset=utf-8", "{path}");
    }
    let known_groups = [
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/foos",
        "/api/v1/namespaces/default/foos",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/configmaps/a/b/c/d",
    ];
    for path in known_groups {
        let status = cluster.get(path).await.expect_error(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn health_endpoints_and_each_check_return_ok() {
    let cluster = Cluster::new().await;
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz?exclude=etcd"] {
        let response = cluster.get(path).await;
        assert_eq!((response.status, &*response.text()), (200, "ok"), "{path}");
    }
    let verbose = cluster.get("/readyz?verbose&exclude=etcd").await.text();
    assert!(verbose.contains("[+]ping ok\n"), "{verbose}");
    assert!(verbose.contains("[+]etcd excluded: ok\n"), "{verbose}");
    assert!(verbose.ends_with("[+]shutdown ok\nreadyz check passed\n"), "{verbose}");
    let hooks = ["start-apiextensions-controllers", "rbac/bootstrap-roles", "storage-readiness"];
    for hook in hooks {
        assert!(verbose.contains(&format!("[+]poststarthook/{hook} ok\n")), "{verbose}");
        assert_eq!(cluster.get(&format!("/livez/poststarthook/{hook}")).await.status, 200);
    }
    assert_eq!(cluster.get("/livez/shutdown").await.status, 404, "only /readyz has this check");
    let unknown = cluster.get("/livez?verbose&exclude=b&exclude=a&exclude=b").await.text();
    assert!(
        unknown.ends_with(
            "warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check \
             passed\n"
        ),
        "{unknown}"
    );
}

#[tokio::test(start_paused = true)]
async fn version_is_parseable_by_clients() {
    let cluster = Cluster::new().await;
    let version = cluster.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(text(&version["gitVersion"]).starts_with("v1.36."), "{version}");
}

#[tokio::test(start_paused = true)]
async fn every_path_of_the_index_is_served() {
    let cluster = Cluster::with_widgets().await;
    let index = cluster.get("/").await.expect(200);
    let paths: Vec<String> = index["paths"].as_array().unwrap().iter().map(text).collect();
    assert!(paths.contains(&"/apis/example.com/v1".to_owned()));
    for path in paths {
        assert_eq!(cluster.get(&path).await.status, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn non_resource_paths_are_read_only() {
    let cluster = Cluster::new().await;
    for path in ["/version", "/api", "/apis/apps/v1"] {
        cluster.post(path, json!({})).await.expect_error(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn component_statuses_are_reported() {
    const COMPONENTS: &str = "/api/v1/componentstatuses";
    let cluster = Cluster::new().await;
    cluster.server.mark_component_healthy("scheduler");
    let list = cluster.get(COMPONENTS).await.expect(200);
    assert_eq!(names(&list), ["controller-manager", "scheduler", "etcd-0"]);
    assert_eq!(list["items"][0]["conditions"][0]["status"], "False");
    assert_eq!(
        list["items"][0]["conditions"][0]["message"],
        "Get \"https://127.0.0.1:10257/healthz\": dial tcp 127.0.0.1:10257: connect: connection \
         refused"
    );
    let one = cluster.get(&format!("{COMPONENTS}/scheduler")).await.expect(200);
    assert_eq!(one["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
    let table = cluster.get_as(COMPONENTS, TABLE).await.expect(200);
    let cells: Vec<&Value> =
        table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][1]).collect();
    assert_eq!(cells, ["Unhealthy", "Healthy", "Healthy"]);
    cluster.get(&format!("{COMPONENTS}/x")).await.expect_error(
        404,
        "NotFound",
        "componentstatuses \"x\" not found",
    );
}
