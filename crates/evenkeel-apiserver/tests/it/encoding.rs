//! Encoding: key order, escapes and the trailing newline of JSON are Go's, and protobuf contains
//! the same data as JSON.

use evenkeel_types::protobuf;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, Cluster, METADATA, METADATA_LIST, TABLE, WIDGETS, config_map, pod, text, widget,
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[tokio::test(start_paused = true)]
async fn built_in_objects_are_encoded_in_go_struct_order() {
    let cluster = Cluster::new().await;
    let mut object = config_map("a", json!({"b": "<&>", "a": "\u{2028}"}));
    object["metadata"]["annotations"] = json!({"resourceVersion": ""});
    object["immutable"] = json!(false);
    let created = cluster.post(CONFIG_MAPS, object).await;
    let version = text(&created.body["metadata"]["resourceVersion"]).to_owned();
    let uid = text(&created.body["metadata"]["uid"]).to_owned();
    let created = created.text();
    assert!(
        created.starts_with(&format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a","namespace":"default","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":""#
        )),
        "{created}"
    );
    let end = r#"]},"immutable":false,"data":{"a":"\u2028","b":"\u003c\u0026\u003e"}}"#;
    assert!(created.ends_with(&format!("{end}\n")), "{created}");
    let managed =
        r#""managedFields":[{"manager":"unknown","operation":"Update","apiVersion":"v1","time":""#;
    assert!(created.contains(managed), "{created}");
    // Get, list and watch return the same bytes.
    let read = cluster.get(&format!("{CONFIG_MAPS}/a")).await.text();
    assert_eq!(read, created);
    let list = cluster.get(CONFIG_MAPS).await.text();
    let item =
        created.trim_end().strip_prefix(r#"{"kind":"ConfigMap","apiVersion":"v1","#).unwrap();
    assert!(
        list.starts_with(
            r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""#
        ),
        "{list}"
    );
    assert!(list.contains(&format!(r#""items":[{{{item}"#)) && list.ends_with("]}\n"), "{list}");
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_encoded_in_key_order() {
    let cluster = Cluster::with_widgets().await;
    let mut object = widget("w", json!({"color": "red"}));
    object["metadata"]["annotations"] = json!({"a": "<"});
    let created = cluster.post(WIDGETS, object).await.text();
    let head = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"a":"\u003c"},"creationTimestamp":""#;
    assert!(created.starts_with(head), "{created}");
    assert!(created.ends_with("\"},\"spec\":{\"color\":\"red\",\"replicas\":1}}\n"), "{created}");
    assert_eq!(cluster.get(&format!("{WIDGETS}/w")).await.text(), created);
    let list = cluster.get(WIDGETS).await;
    let version = text(&list.body["metadata"]["resourceVersion"]);
    assert_eq!(
        list.text(),
        format!(
            "{{\"apiVersion\":\"example.com/v1\",\"items\":[{}],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{version}\"}}}}\n",
            created.trim_end()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn generated_objects_are_encoded_in_go_struct_order() {
    let cluster = Cluster::new().await;
    assert_eq!(
        cluster.get(&format!("{CONFIG_MAPS}/a")).await.text(),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"a\\\" not found\",\"reason\":\"NotFound\",\"details\":{\"name\":\"a\",\"kind\":\"configmaps\"},\"code\":404}\n"
    );
    for (path, head) in [
        ("/apis", r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":""#),
        (
            "/apis/apps",
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#,
        ),
        (
            "/apis/apps/v1",
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"controllerrevisions","singularName":"controllerrevision","namespaced":true,"kind":"ControllerRevision","verbs":["#,
        ),
        ("/api/v1", r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":""#),
        ("/api", r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"#),
        ("/version", "{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n  \"emulationMajor\""),
    ] {
        let response = cluster.get(path).await.text();
        assert!(response.starts_with(head), "{path}: {response}");
        assert_eq!(response.ends_with('\n'), path != "/version", "{path}: {response}");
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let head = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":""#;
    let response = cluster.get_as("/apis", aggregated).await.text();
    assert!(response.starts_with(head), "{response}");
    let version = r#""versions":[{"version":"v1","resources":[{"resource":"controllerrevisions","responseKind":{"group":"","version":"","kind":"ControllerRevision"},"scope":"Namespaced","singularResource":"controllerrevision","verbs":["#;
    assert!(response.contains(version), "{response}");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let response = cluster.post(path, review).await.text();
    let head =
        r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{"#;
    assert!(response.starts_with(head) && response.ends_with("}\n"), "{response}");
    assert!(
        response.contains(
            r#""spec":{"nonResourceAttributes":{"path":"/","verb":"get"}},"status":{"allowed":true"#
        ),
        "{response}"
    );
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_are_encoded_in_go_struct_order() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    let path = format!("{WIDGETS}/w");
    let head = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"w","namespace":"default","uid":""#;
    let metadata = cluster.get_as(&path, METADATA).await.text();
    assert!(metadata.starts_with(head) && metadata.ends_with("}}\n"), "{metadata}");
    let list = cluster.get_as(WIDGETS, METADATA_LIST).await.text();
    let start = r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":""#;
    assert!(list.starts_with(start), "{list}");
    assert!(list.contains(&format!("\"items\":[{head}")) && list.ends_with("}}]}\n"), "{list}");
    let table = cluster.get_as(&path, TABLE).await.text();
    let start = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":""#;
    assert!(table.starts_with(start) && table.ends_with("}\n"), "{table}");
    let column =
        r#""columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"#;
    assert!(table.contains(column), "{table}");
    assert!(
        table.contains(&format!(r#""rows":[{{"cells":["w","red"],"object":{head}"#)),
        "{table}"
    );
    // Indented output has no trailing newline, as in Go.
    let pretty = cluster.get(&format!("{path}?pretty=true")).await.text();
    assert!(pretty.ends_with("\n}"), "{pretty}");
}

/// Gets a list as protobuf and decodes it.
async fn decoded(cluster: &Cluster, path: &str, accept: &str) -> Value {
    let response = cluster.get_as(path, accept).await;
    assert_eq!((response.status, response.header("content-type")), (200, PROTOBUF));
    protobuf::decode(&response.bytes).unwrap().object
}

fn metadata_in(media: &str) -> String {
    METADATA_LIST.replace("application/json", media)
}

#[tokio::test(start_paused = true)]
async fn protobuf_list_equals_json_list() {
    let cluster = Cluster::new().await;
    for name in ["a", "b"] {
        let path = "/api/v1/namespaces/default/pods";
        cluster.post(path, pod(name)).await.expect(201);
    }
    // Short lists are sent whole, long ones in chunks. The second request may use cached sizes.
    let (short, long) = ("x".repeat(10), "y".repeat(60 * 1024));
    for (count, content) in [(3, short), (25, long)] {
        for n in 0..count {
            let name = format!("{}-{n}", &content[..1]);
            let object = config_map(&name, json!({"k": content, "l": "\"<é\n"}));
            cluster.post(CONFIG_MAPS, object).await.expect(201);
        }
        for path in [CONFIG_MAPS, "/api/v1/namespaces/default/pods", "/api/v1/configmaps?limit=2"] {
            let list = cluster.get(path).await.expect(200);
            for _ in 0..2 {
                assert_eq!(decoded(&cluster, path, PROTOBUF).await, list, "{path}");
            }
        }
    }
    let packed = [("accept", PROTOBUF), ("accept-encoding", "gzip")];
    let packed = cluster.send(Method::GET, CONFIG_MAPS, &packed, "").await;
    assert_eq!((packed.status, packed.header("content-encoding")), (200, "gzip"));
}

#[tokio::test(start_paused = true)]
async fn protobuf_metadata_list_items_have_no_kind() {
    let cluster = Cluster::with_widgets().await;
    for n in 0..30 {
        let mut object = config_map(&format!("c-{n}"), json!({}));
        object["metadata"]["annotations"] = json!({"a": "z".repeat(50 * 1024)});
        cluster.post(CONFIG_MAPS, object).await.expect(201);
        cluster.post(WIDGETS, widget(&format!("w-{n}"), json!({"color": "red"}))).await.expect(201);
    }
    let sets = "/apis/apps/v1/daemonsets";
    for (path, media) in [CONFIG_MAPS, WIDGETS, sets].into_iter().flat_map(|path| {
        [(path, METADATA_LIST.to_owned()), (path, METADATA_LIST.replace("v=v1;", "v=v1beta1;"))]
    }) {
        let mut list = cluster.get_as(path, &media).await.expect(200);
        for item in list["items"].as_array_mut().into_iter().flatten() {
            let item = item.as_object_mut().unwrap();
            assert_eq!(item.remove("kind").unwrap(), "PartialObjectMetadata");
            assert!(text(&item.remove("apiVersion").unwrap()).starts_with("meta.k8s.io/v1"));
        }
        // Protobuf messages do not contain the version.
        list["apiVersion"] = "meta.k8s.io/v1".into();
        let media = media.replace("application/json", PROTOBUF);
        let accept = format!("{media},{},application/json", metadata_in("application/json"));
        for _ in 0..2 {
            let response = cluster.get_as(path, &accept).await;
            assert_eq!((response.status, response.header("content-type")), (200, PROTOBUF));
            let bytes = response.bytes.to_vec();
            let version: &[u8] = if media.contains("beta") {
                b"\x13meta.k8s.io/v1beta1"
            } else {
                b"\x0emeta.k8s.io/v1"
            };
            let at = bytes.windows(version.len()).position(|window| window == version);
            assert_eq!(at, Some(7), "{path} {media}");
            // The decoder supports only the version in the table of types.
            let bytes = match media.contains("beta") {
                true => {
                    let meta = bytes[5] - 5;
                    [&bytes[..5], &[meta], b"\x0a\x0emeta.k8s.io/v1", &bytes[27..]].concat()
                }
                false => bytes,
            };
            assert_eq!(protobuf::decode(&bytes).unwrap().object, list, "{path} {media}");
        }
    }
    let one = METADATA.replace("application/json", PROTOBUF);
    let response = cluster.get_as(&format!("{WIDGETS}/w-1"), &one).await;
    assert_eq!(response.header("content-type"), PROTOBUF);
    let object = protobuf::decode(&response.bytes).unwrap().object;
    assert_eq!(object, cluster.get_as(&format!("{WIDGETS}/w-1"), METADATA).await.expect(200));
    // Custom resources cannot be encoded as protobuf.
    let accept = format!("{PROTOBUF},application/json");
    let response = cluster.get_as(WIDGETS, &accept).await;
    assert_eq!((response.status, response.header("content-type")), (200, "application/json"));
}
