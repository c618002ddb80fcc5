//! Documents are decoded with the message tables alone.

use serde_json::{Map, Value, json};

use super::super::messages::{Kind, Message, V2, V3};

/// Splits a message into fields: the number and the bytes; varints and doubles as eight bytes.
fn split(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let varint = |bytes: &mut &[u8]| {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    };
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let content = match tag & 7 {
            0 => varint(&mut bytes).to_le_bytes().to_vec(),
            1 => {
                let (double, rest) = bytes.split_at(8);
                bytes = rest;
                double.to_vec()
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                content.to_vec()
            }
            wire => panic!("wire type {wire}"),
        };
        fields.push(((tag >> 3) as u32, content));
    }
    fields
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn object(message: &Message, bytes: &[u8]) -> Value {
    let mut map = Map::new();
    for (number, content) in split(bytes) {
        let known = message.fields.iter().find(|(_, known, _)| *known == number);
        if let Some((key, _, kind)) = known {
            match kind {
                Kind::Many(kind) => {
                    let list = map.entry(*key).or_insert_with(|| json!([]));
                    list.as_array_mut().unwrap().push(value(**kind, &content));
                }
                kind => drop(map.insert((*key).to_owned(), value(*kind, &content))),
            }
        } else {
            let named = message.named.iter().find(|(_, known, _)| *known == number).unwrap();
            let entry = split(&content);
            let name = entry.iter().find(|(number, _)| *number == 1).unwrap();
            let content = entry.iter().find(|(number, _)| *number == 2).unwrap();
            map.insert(text(&name.1), value(named.2, &content.1));
        }
    }
    Value::Object(map)
}

fn value(kind: Kind, bytes: &[u8]) -> Value {
    let eight = || u64::from_le_bytes(bytes.try_into().unwrap());
    match kind {
        Kind::Text => text(bytes).into(),
        Kind::Bool => (eight() != 0).into(),
        Kind::Integer => (eight() as i64).into(),
        Kind::Double => {
            let double = f64::from_bits(eight());
            if double.fract() == 0.0 { json!(double as i64) } else { json!(double) }
        }
        Kind::Any => serde_json::from_slice(&split(bytes)[0].1).unwrap(),
        Kind::One(message) => object(message, bytes),
        Kind::Many(_) => panic!("no list of lists"),
        Kind::Wrapped(kind) => {
            let items: Vec<Value> =
                split(bytes).iter().map(|(_, content)| value(*kind, content)).collect();
            // The documents contain lists only where they are empty.
            if items.len() == 1 { items[0].clone() } else { items.into() }
        }
        Kind::Choice(choice) => match split(bytes).first() {
            Some((number, content)) => {
                let (_, kind) = choice.fields.iter().find(|(known, _)| known == number).unwrap();
                value(*kind, content)
            }
            None => json!({}),
        },
    }
}

/// Removes what gnostic's version 3 cannot encode: defaults that are not scalars. `names` is
/// whether the keys are property names.
fn without_defaults(document: &mut Value, names: bool) {
    match document {
        Value::Object(map) => {
            for (key, value) in map {
                let composite = matches!(value, Value::Object(_) | Value::Array(_));
                if key == "default" && !names && composite {
                    *value = json!({});
                } else {
                    without_defaults(value, key == "properties" && !names);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_defaults(item, false)),
        _ => {}
    }
}

/// Returns the first difference of two documents.
fn difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys = a.keys().chain(b.keys());
            keys.find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(a, b).map(|rest| format!("{key}/{rest}")),
                (a, b) => Some(format!("{key}: {a:?} {b:?}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| difference(a, b))
        }
        (a, b) => (a != b).then(|| format!("{a} {b}")),
    }
}

#[test]
fn document_round_trips() {
    let schema = json!({
        "type": "object",
        "required": ["a", ""],
        "properties": {
            "a": {"type": "array", "items": {"type": "string", "enum": ["<", 1, null]}},
            "b": {"additionalProperties": {"$ref": "#/definitions/c"}, "x-kubernetes-y": [{"z": 1}]},
            "c": {"additionalProperties": false, "default": "", "minimum": 0.5, "maximum": -1},
            "d": {"maxLength": 5, "pattern": "^é", "default": false, "nullable-not": 1},
            "x-name": {"default": 7},
        },
        "x-kubernetes-group-version-kind": [{"group": "", "kind": "K", "version": "v1"}],
    });
    let mut expected = schema.clone();
    expected["properties"]["d"].as_object_mut().unwrap().remove("nullable-not");
    let responses = |content: Value| json!({"200": content, "default": {"$ref": "#/r"}});
    let v2 = json!({
        "swagger": "2.0",
        "definitions": {"c": schema},
        "security": [{"BearerToken": []}],
        "paths": {"/a": {"get": {
            "operationId": "o",
            "parameters": [
                {"$ref": "#/p"},
                {"name": "q", "in": "query", "type": "boolean", "uniqueItems": true},
                {"name": "p", "in": "path", "type": "string", "required": true},
                {"name": "b", "in": "body", "schema": {"$ref": "#/definitions/c"}},
            ],
            "responses": responses(json!({"description": "OK", "schema": {"type": "string"}})),
        }}},
    });
    let mut read = object(&V2, &super::v2(&v2));
    assert_eq!(read["definitions"]["c"].take(), expected);
    let mut v2 = v2;
    v2["definitions"]["c"].take();
    assert_eq!(read, v2);

    let content = json!({"application/json": {"schema": {"$ref": "#/definitions/c"}}});
    let v3 = json!({
        "openapi": "3.0.0",
        "components": {"schemas": {"c": schema, "r": {"$ref": "#/c"}}},
        "paths": {"/a": {"put": {
            "parameters": [{"$ref": "#/p"}, {"name": "q", "in": "query", "schema": {"default": 1.5}}],
            "requestBody": {"content": content, "required": true},
            "responses": responses(json!({"description": "OK", "content": content})),
        }}},
    });
    let mut read = object(&V3, &super::v3(&v3));
    assert_eq!(read["components"]["schemas"]["c"].take(), expected);
    let mut v3 = v3;
    v3["components"]["schemas"]["c"].take();
    assert_eq!(read, v3);
}

#[tokio::test(start_paused = true)]
async fn server_documents_round_trip() {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty};
    use tower_service::Service as _;

    let server = crate::ApiServer::builder().seed(1).build().await.unwrap();
    let mut documents = vec!["/openapi/v2".to_owned()];
    let get = async |path: &str, accept: &str| {
        let request = http::Request::get(path).header("accept", accept);
        let response =
            server.service().call(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        // The requested name with `@` is not a valid media type; the response has the valid one.
        let media = response.headers()["content-type"].to_str().unwrap();
        let expected = accept.replace("@v1.0", ".v1.0");
        assert!(accept == "*/*" || media == expected, "{path}: {media}");
        let tag = response.headers().get("etag").cloned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (body, tag)
    };
    let (index, _) = get("/openapi/v3", "*/*").await;
    let index: Value = serde_json::from_slice(&index).unwrap();
    for entry in index["paths"].as_object().unwrap().values() {
        documents.push(entry["serverRelativeURL"].as_str().unwrap().to_owned());
    }
    assert!(documents.len() > 40, "{documents:?}");
    for path in documents {
        let (message, version) = if path == "/openapi/v2" { (&V2, "v2") } else { (&V3, "v3") };
        let media = format!("application/com.github.proto-openapi.spec.{version}@v1.0+protobuf");
        let (json, tag) = get(&path, "application/json").await;
        let (protobuf, same_tag) = get(&path, &media).await;
        assert_eq!(tag, same_tag, "{path}");
        let mut document: Value = serde_json::from_slice(&json).unwrap();
        if version == "v3" {
            without_defaults(&mut document, false);
        }
        assert_eq!(difference(&object(message, &protobuf), &document), None, "{path}");
    }
}
