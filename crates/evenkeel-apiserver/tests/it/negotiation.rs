//! Content negotiation: tables, partial object metadata, YAML, protobuf, compression.

use std::io::Read as _;

use http::Method;
use serde_json::json;

use crate::harness::{
    CONFIG_MAPS, Cluster, METADATA, METADATA_LIST, PODS, TABLE, WIDGETS, config_map, pod, text,
    version, widget,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn with_a() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    cluster
}

/// Encodes a length-delimited field of a protobuf message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "this helper encodes only one byte of length");
    [&[number << 3 | 2, length], content].concat()
}

/// Encodes a Kubernetes protobuf body: the magic number, the type and the object.
fn protobuf(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, object)].concat()
}

#[tokio::test(start_paused = true)]
async fn table_has_the_columns_of_the_kind() {
    let cluster = with_a().await;
    tokio::time::advance(std::time::Duration::from_secs(150)).await;
    let table = cluster.get_as(A, TABLE).await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(version(&table), version(&cluster.get(A).await.expect(200)));
    let columns: Vec<String> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{}:{}:{}", text(&c["name"]), text(&c["type"]), text(&c["format"])))
        .collect();
    assert_eq!(columns, ["Name:string:name", "Data:string:", "Age:string:"]);
    let row = &table["rows"][0];
    assert_eq!(row["cells"], json!(["a", 1, "2m30s"]));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn include_object_selects_the_object_in_table_rows() {
    let cluster = with_a().await;
    let row = |table: serde_json::Value| table["rows"][0]["object"].clone();
    let none = cluster.get_as(&format!("{A}?includeObject=None"), TABLE).await.expect(200);
    assert_eq!(row(none), serde_json::Value::Null);
    let whole = cluster.get_as(&format!("{A}?includeObject=Object"), TABLE).await.expect(200);
    assert_eq!(row(whole)["data"], json!({"k": "v"}));
    cluster.get_as(&format!("{A}?includeObject=X"), TABLE).await.expect_error(
        400,
        "BadRequest",
        "Unable to convert to Table as requested: includeObject: Invalid value: \"X\": must be \
         'Metadata', 'Object', 'None', or empty",
    );
}

#[tokio::test(start_paused = true)]
async fn table_of_a_list_has_continue_token() {
    let cluster = with_a().await;
    cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect(201);
    let table = cluster.get_as(&format!("{CONFIG_MAPS}?limit=1"), TABLE).await.expect(200);
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    assert!(table["metadata"]["continue"].is_string());
}

#[tokio::test(start_paused = true)]
async fn pods_and_custom_resources_have_their_own_columns() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(PODS, pod("p")).await.expect(201);
    let table = cluster.get_as(PODS, TABLE).await.expect(200);
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["p", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"])
    );
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    let table = cluster.get_as(WIDGETS, TABLE).await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["w", "red"]));
}

#[tokio::test(start_paused = true)]
async fn accept_falls_back_from_table_to_object() {
    let cluster = with_a().await;
    let accept = format!("{TABLE},{},application/json", TABLE.replace("v=v1;", "v=v1beta1;"));
    assert_eq!(cluster.get_as(A, &accept).await.expect(200)["kind"], "Table");
    let accept = "application/json;as=Table;v=v9;g=meta.k8s.io,application/json";
    assert_eq!(cluster.get_as(A, accept).await.expect(200)["kind"], "ConfigMap");
}

#[tokio::test(start_paused = true)]
async fn partial_object_metadata_is_returned() {
    let cluster = with_a().await;
    let object = cluster.get_as(A, METADATA).await.expect(200);
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(object["metadata"], cluster.get(A).await.expect(200)["metadata"]);
    assert_eq!(object.as_object().unwrap().len(), 3);

    let list = cluster.get_as(CONFIG_MAPS, METADATA_LIST).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0], object);
    assert_eq!(version(&list), cluster.server.revision());
}

#[tokio::test(start_paused = true)]
async fn partial_object_metadata_must_match_object_or_list() {
    let cluster = with_a().await;
    cluster.get_as(CONFIG_MAPS, METADATA).await.expect_error(
        406,
        "NotAcceptable",
        "you requested PartialObjectMetadata, but the requested object is a list \
         (*core.ConfigMapList)",
    );
    cluster.get_as(A, METADATA_LIST).await.expect_error(
        406,
        "NotAcceptable",
        "you requested PartialObjectMetadataList, but the requested object is not a list \
         (*core.ConfigMap)",
    );
}

#[tokio::test(start_paused = true)]
async fn yaml_is_accepted_and_returned() {
    let cluster = Cluster::new().await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n";
    let headers = [("content-type", "application/yaml")];
    let created = cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await.expect(201);
    assert_eq!(created["data"], json!({"k": "1"}));

    let response = cluster.get_as(A, "application/yaml").await;
    assert_eq!(response.header("content-type"), "application/yaml");
    let shown = response.text();
    assert!(shown.starts_with("apiVersion: v1\ndata:\n  k: \"1\"\nkind: ConfigMap\n"), "{shown}");
    // Writing the returned YAML back changes nothing.
    let again = cluster.send(Method::PUT, A, &headers, shown).await.expect(200);
    assert_eq!(again, created);
}

#[tokio::test(start_paused = true)]
async fn protobuf_bodies_are_decoded() {
    let cluster = Cluster::new().await;
    let data = [field(1, b"k"), field(2, b"v")].concat();
    let object = [field(1, &field(1, b"a")), field(2, &data)].concat();
    let headers = [("content-type", PROTOBUF)];
    let body = protobuf("v1", "ConfigMap", &object);
    let created = cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await.expect(201);
    assert_eq!(created["metadata"]["name"], "a");
    assert_eq!(created["data"], json!({"k": "v"}));

    // DeleteOptions with a uid that does not match.
    let options = field(2, &field(1, b"x"));
    let body = protobuf("v1", "DeleteOptions", &options);
    let status = cluster.send(Method::DELETE, A, &headers, body).await.expect(409);
    assert!(text(&status["message"]).contains("the UID in the precondition (x)"));
    let body = protobuf("v1", "DeleteOptions", &[]);
    cluster.send(Method::DELETE, A, &headers, body).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn malformed_protobuf_is_rejected() {
    let cluster = Cluster::with_widgets().await;
    let headers = [("content-type", PROTOBUF)];
    let whole = protobuf("v1", "ConfigMap", &field(1, &field(1, b"a")));
    for end in 0..whole.len() {
        let body = whole[..end].to_vec();
        let response = cluster.send(Method::POST, CONFIG_MAPS, &headers, body).await;
        assert!(matches!(response.status, 400 | 422), "{end}: {}", response.text());
    }
    cluster.send(Method::POST, WIDGETS, &headers, whole).await.expect(415);
}

#[tokio::test(start_paused = true)]
async fn protobuf_is_returned_if_preferred() {
    let cluster = with_a().await;
    let response = cluster.get_as(A, PROTOBUF).await;
    assert_eq!((response.status, response.header("content-type")), (200, PROTOBUF));
    let head = [b"k8s\0".to_vec(), field(1, &[field(1, b"v1"), field(2, b"ConfigMap")].concat())];
    assert!(response.bytes.starts_with(&head.concat()), "{:?}", response.bytes);
    // The returned bytes are accepted as a body.
    let headers = [("content-type", PROTOBUF)];
    let again = cluster.send(Method::PUT, A, &headers, response.bytes).await.expect(200);
    assert_eq!(again, cluster.get(A).await.expect(200));

    for (accept, expected) in [
        (format!("{PROTOBUF},application/json"), PROTOBUF),
        (format!("application/json,{PROTOBUF}"), "application/json"),
    ] {
        assert_eq!(cluster.get_as(A, &accept).await.header("content-type"), expected);
    }
    cluster.get_as(&format!("{CONFIG_MAPS}/none"), PROTOBUF).await.headers
        [http::header::CONTENT_TYPE]
        .to_str()
        .map(|media_type| assert_eq!(media_type, PROTOBUF))
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn unsupported_media_types_are_rejected_with_the_supported_ones() {
    let cluster = with_a().await;
    let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    cluster.get_as(A, "text/html").await.expect_error(
        406,
        "NotAcceptable",
        &format!("406: Not Acceptable\n\nAvailable representations: {all}"),
    );
    cluster.get_as(A, "application/json;as=Foo;v=v1;g=meta.k8s.io").await.expect_error(
        406,
        "NotAcceptable",
        &format!("only the following media types are accepted: {all}"),
    );
    for media_type in ["text/plain", "application/cbor"] {
        let headers = [("content-type", media_type)];
        cluster.send(Method::POST, CONFIG_MAPS, &headers, "x").await.expect_error(
            415,
            "UnsupportedMediaType",
            &format!(
                "the body of the request was in an unknown format - accepted media types \
                 include: {all}"
            ),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn json_is_indented_for_pretty_and_curl() {
    let cluster = with_a().await;
    let compact = cluster.get(A).await.text();
    let pretty = cluster.get(&format!("{A}?pretty=true")).await.text();
    assert!(!compact.contains("\n "), "{compact}");
    assert!(pretty.starts_with("{\n  \""), "{pretty}");
    let curl = cluster.send(Method::GET, A, &[("user-agent", "curl/8.0")], "").await.text();
    assert_eq!(curl, pretty);
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(parse(&compact), parse(&pretty));
}

#[tokio::test(start_paused = true)]
async fn large_responses_are_compressed_if_accepted() {
    let cluster = Cluster::new().await;
    let large = "x".repeat(200 * 1024);
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": large}))).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("small", json!({}))).await.expect(201);
    let gzip = [("accept-encoding", "deflate, gzip;q=1.0")];
    for path in [A, CONFIG_MAPS] {
        let plain = cluster.get(path).await;
        assert_eq!(plain.header("content-encoding"), "");
        let packed = cluster.send(Method::GET, path, &gzip, "").await;
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert_eq!(packed.header("vary"), "Accept-Encoding");
        assert!(packed.bytes.len() * 10 < plain.bytes.len());
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*packed.bytes).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain.bytes);
    }
    let small = cluster.send(Method::GET, &format!("{CONFIG_MAPS}/small"), &gzip, "").await;
    assert_eq!(small.header("content-encoding"), "");
}
