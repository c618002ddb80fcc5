//! Vectors were written by Go (k8s.io/apimachinery 0.36, protobuf serializer) from these objects.

use serde_json::{Map, Value, json};

use super::{DecodeError, EncodeError, Encoder, decode, encode, encode_json};
use crate::{Custom, Gvk, Shape, Type, all, by_name, conform, json, lookup};

fn unhex(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Encodes an object without an envelope.
fn encode_bare(ty: &'static Type, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut printed = Vec::new();
    json::write(&mut printed, Some(ty), object);
    let mut out = Encoder::default();
    out.object(ty, &printed)?;
    Ok(out.take())
}

/// Decodes a message without an envelope.
fn decode_bare(ty: &'static Type, bytes: &[u8]) -> Result<Value, DecodeError> {
    super::decode::object(ty, bytes, 0)
}

/// Checks encoding and decoding against the same bytes.
#[track_caller]
fn check(hex: &str, json: &str) {
    let bytes = unhex(hex);
    let object: Value = serde_json::from_str(json).unwrap();
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.object, object);
    assert_eq!(
        (decoded.api_version, decoded.kind),
        (text(&object, "apiVersion"), text(&object, "kind"))
    );
    assert_eq!(encode(&object).unwrap(), bytes);
}

fn text(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap().to_owned()
}

#[test]
fn maps_bytes_times_and_field_sets() {
    check(
        "6b3873000a0f0a0276311209436f6e6669674d617012540a380a016112001a0022002a0032003800420808a5ebdc
         ca0610008a011c0a016d12001a0032003a0f0a0d7b22663a64617461223a7b7d7d420012050a0162120012060a01
         6b1201761a070a01781202686920001a002200",
        r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "creationTimestamp":
           "2026-01-02T03:04:05Z", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]},
           "immutable": false, "data": {"b": "", "k": "v"}, "binaryData": {"x": "aGk="}}"#,
    );
}

#[test]
fn embedded_messages_quantities_and_int_or_strings() {
    check(
        "6b3873000a090a0276311203506f6412d9010a100a0012001a0022002a0032003800420012af010a090a01761204
         12020a00127d0a016312002a0042200a0d0a0363707512060a043530306d0a0f0a066d656d6f727912050a033247
         6952280a1312110a001209080110001a037765621a0022001000180020ffffffffffffffffff01280030005a180a
         0c1a0a0a06080010501a001200100018002000280030006a007200800100880100900100a201001a002000320042
         004a0052005800600068007205200120ac028201008a01009a0100c201001a130a001a0022002a0032004a005a00
         72008801001a002200",
        r#"{"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"volumes": [{"name": "v",
           "emptyDir": {}}], "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m",
           "memory": "2Gi"}}, "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": -1},
           "readinessProbe": {"tcpSocket": {"port": 80}}}], "terminationGracePeriodSeconds": 0,
           "securityContext": {"supplementalGroups": [1, 300]}}, "status": {}}"#,
    );
}

#[test]
fn microseconds() {
    check(
        "6b3873000a1f0a16636f6f7264696e6174696f6e2e6b38732e696f2f763112054c6561736512230a100a0012001a
         0022002a00320038004200120f100f220b08a5ebdcca06108094ef3a1a002200",
        r#"{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {}, "spec":
           {"leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}}"#,
    );
}

#[test]
fn raw_extensions_contain_json() {
    check(
        "6b3873000a1d0a07617070732f76311212436f6e74726f6c6c65725265766973696f6e12290a100a0012001a0022
         002a0032003800420012130a117b2273706563223a5b312c6e756c6c5d7d18071a002200",
        r#"{"kind": "ControllerRevision", "apiVersion": "apps/v1", "metadata": {}, "data": {"spec": [1,
           null]}, "revision": 7}"#,
    );
}

#[test]
fn wrapped_lists() {
    check(
        "6b3873000a2e0a17617574686f72697a6174696f6e2e6b38732e696f2f763112135375626a656374416363657373
         52657669657712300a100a0012001a0022002a0032003800420012121a01752a0b0a016b12060a01610a01623200
         1a08080012001a0020001a002200",
        r#"{"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
           "spec": {"user": "u", "extra": {"k": ["a", "b"]}}, "status": {"allowed": false}}"#,
    );
}

#[test]
fn json_schemas() {
    check(
        "6b3873000a330a17617069657874656e73696f6e732e6b38732e696f2f76311218437573746f6d5265736f757263
         65446566696e6974696f6e12e6020a100a0012001a0022002a0032003800420012c3020a01671a0a0a0170120022
         014b2a002207436c75737465723aa6020a027631100118012299020a96020a00120022002a0032003a0042090a07
         7b2261223a317d49000000000000f83f500060007a00900100a201050a03227822a201030a0132c201260a240a00
         120022002a06737472696e6732003a00500060007a00900100a80200b80200c00200ea0199010a01701293010a00
         120022002a0032003a00500060007a00900100c20146121e0a00120022002a0032003a00500060007a00900100a8
         0200b80200c0020012240a00120022002a066f626a65637432003a00500060007a00900100a80200b80200c00200
         f20129080112250a00120022002a07696e746567657232003a00500060007a00900100a80200b80200c00200a802
         00b80200c00200f2010208008202080a01641203120165a80200b80200c00200380050001a0c12080a0012002200
         2a0020001a002200",
        r#"{"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata":
           {}, "spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster",
           "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
           {"default": {"a": 1}, "maximum": 1.5, "enum": ["x", 2], "items": {"type": "string"},
           "properties": {"p": {"items": [{}, {"type": "object"}], "additionalProperties": {"type":
           "integer"}}}, "additionalProperties": false, "dependencies": {"d": ["e"]}}}}]}, "status":
           {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null}}"#,
    );
}

#[test]
fn options_of_any_group() {
    check(
        "6b3873000a180a07617070732f7631120d44656c6574654f7074696f6e73120f080012030a017522064f72706861
         6e1a002200",
        r#"{"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 0, "preconditions":
           {"uid": "u"}, "propagationPolicy": "Orphan"}"#,
    );
}

#[test]
fn empty_lists_decode_as_null() {
    check(
        "6b3873000a0d0a0276311207506f644c69737412080a060a0012001a001a002200",
        r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": null}"#,
    );
}

#[test]
fn statuses() {
    check(
        "6b3873000a0c0a0276311206537461747573122d0a060a0012001a0012074661696c7572651a0022002a130a0012
         001a0022070a0012016d1a00280032003094031a002200",
        r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "details":
           {"causes": [{"message": "m"}]}, "code": 404}"#,
    );
}

#[test]
fn the_object_in_a_watch_event_of_go_is_decoded() {
    let event = unhex(
        "0a05414444454412300a2e6b3873000a0f0a0276311209436f6e6669674d617012130a110a016112001a002200
         2a003200380042001a002200",
    );
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let ty = lookup(Gvk::new("", "v1", "WatchEvent")).unwrap();
    assert_eq!(decode_bare(ty, &event).unwrap(), json!({"type": "ADDED", "object": config_map}));
}

/// Returns a value with every field set, down to a depth.
fn filled(ty: &'static Type, depth: u32) -> Value {
    let mut map = Map::new();
    for field in &ty.fields {
        // The type of an object is only in the envelope.
        if field.embed.is_some_and(|embed| ty.embeds[embed as usize].number == 0) {
            continue;
        }
        if let Some(value) = filled_shape(field.shape, depth) {
            map.insert(field.name.to_owned(), value);
        }
    }
    Value::Object(map)
}

fn filled_shape(shape: Shape, depth: u32) -> Option<Value> {
    Some(match shape {
        Shape::String => json!("text"),
        Shape::Bool => json!(true),
        Shape::Int32 => json!(i32::MIN),
        Shape::Int64 => json!(i64::MIN),
        Shape::Double => json!(0.25),
        Shape::Bytes => json!("aGk="),
        Shape::Any => json!(1),
        Shape::List(element) => {
            let item = filled_shape(element.shape(), depth)?;
            json!([item, item])
        }
        Shape::Map { value, .. } => {
            let item = filled_shape(value.shape(), depth)?;
            json!({"a": item, "b": item})
        }
        Shape::Struct(ty) => filled(ty.get(), depth.checked_sub(1)?),
        Shape::Custom(custom, _) => match custom {
            Custom::Time => json!("2026-01-02T03:04:05Z"),
            Custom::MicroTime => json!("2026-01-02T03:04:05.678901Z"),
            Custom::Quantity => json!("1500m"),
            Custom::IntOrString => json!("50%"),
            Custom::RawExtension | Custom::FieldsV1 | Custom::Json => json!({"a": [null, 1]}),
            Custom::JsonSchemaPropsOrArray => json!([{"type": "a"}, {}]),
            Custom::JsonSchemaPropsOrBool => json!({"type": "a"}),
            Custom::JsonSchemaPropsOrStringArray => json!(["a", ""]),
        },
    })
}

#[test]
fn every_kind_round_trips_empty_and_full() {
    let mut kinds = 0;
    for ty in all() {
        // Watch events have no `apiVersion` and `kind`.
        let Some(gvk) = ty.gvks.first().filter(|gvk| gvk.kind != "WatchEvent") else { continue };
        for mut object in [json!({}), filled(ty, 5)] {
            object["apiVersion"] = json!(gvk.api_version());
            object["kind"] = json!(gvk.kind);
            assert_eq!(conform(ty, &mut object), Ok(vec![]), "{gvk}");
            let bytes = match encode(&object) {
                Err(EncodeError::NoProtobuf(_)) if gvk.kind == "Table" => continue,
                encoded => encoded.unwrap(),
            };
            assert_eq!(decode(&bytes).unwrap().object, object, "{gvk}");
            // The order of members does not matter.
            let (api_version, kind) = (gvk.api_version(), gvk.kind);
            let sorted = encode_json(ty, &api_version, kind, crate::go::json(&object).as_bytes());
            assert_eq!(sorted.unwrap(), bytes, "{gvk}");
        }
        kinds += 1;
    }
    assert!(kinds > 150, "only {kinds} kinds");
}

fn pod() -> Vec<u8> {
    let ty = lookup(Gvk::new("", "v1", "Pod")).unwrap();
    let mut object = filled(ty, 2);
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    encode(&object).unwrap()
}

#[test]
fn damaged_bytes_never_panic() {
    let whole = pod();
    // The last four bytes, empty strings of the envelope, are optional.
    for end in (0..whole.len() - 4).step_by(7) {
        assert!(decode(&whole[..end]).is_err(), "cut at {end}");
    }
    for at in (4..whole.len()).step_by(5) {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let _ = decode(&bytes);
        }
    }
}

#[test]
fn depth_is_bounded() {
    let schema =
        by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let schema = schema.unwrap();
    let not = schema.field("not").unwrap().number;
    let nest = |levels: usize| {
        let mut bytes = Vec::new();
        for _ in 0..levels {
            let mut out = super::Writer::new(Vec::new());
            out.bytes(not, &bytes);
            bytes = out.finish();
        }
        decode_bare(schema, &bytes)
    };
    assert!(nest(100).is_ok());
    assert_eq!(nest(5000), Err(DecodeError::TooDeep));

    // The depth of JSON within protobuf is added to that of the message.
    let revision = lookup(Gvk::new("apps", "v1", "ControllerRevision")).unwrap();
    let deep = |levels: usize| {
        let mut out = super::Writer::new(Vec::new());
        let json = "[".repeat(levels) + &"]".repeat(levels);
        let mark = out.begin(2);
        out.bytes(1, json.as_bytes());
        out.end(mark);
        decode_bare(revision, &out.finish())
    };
    assert!(deep(127).is_ok());
    assert!(deep(128).is_err());
}

#[test]
fn declared_length_does_not_reserve_memory() {
    // Field 2 declares 2^62 bytes.
    let mut bytes = b"k8s\0".to_vec();
    bytes.extend([0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40]);
    assert_eq!(decode(&bytes), Err(DecodeError::UnexpectedEof));
    bytes.truncate(5);
    bytes.extend([0xff; 11]);
    assert_eq!(decode(&bytes), Err(DecodeError::Overflow));
}

#[test]
fn input_without_a_known_kind_is_rejected() {
    assert_eq!(decode(b""), Err(DecodeError::Empty));
    assert_eq!(decode(b"{}"), Err(DecodeError::NotProtobuf));
    assert_eq!(
        DecodeError::NotProtobuf.to_string(),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    let unknown = |error: &dyn ToString| error.to_string().contains("no kind \"Widget\"");
    assert!(unknown(&encode(&json!({"apiVersion": "a/v1", "kind": "Widget"})).unwrap_err()));
    let table = json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table"});
    assert!(matches!(encode(&table), Err(EncodeError::NoProtobuf(_))));
}

#[test]
fn unknown_fields_are_skipped_and_repeated_ones_merge() {
    let ty = lookup(Gvk::new("", "v1", "ConfigMap")).unwrap();
    let mut bytes =
        encode_bare(ty, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).unwrap();
    // Number 1000: a varint, eight bytes, some bytes, a group with a field, four bytes.
    bytes.extend([0xc0, 0x3e, 0x05]);
    bytes.extend([0xc1, 0x3e, 1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend([0xc2, 0x3e, 2, 0, 0]);
    bytes.extend([0xc3, 0x3e, 0x08, 0x01, 0xc4, 0x3e]);
    bytes.extend([0xc5, 0x3e, 1, 2, 3, 4]);
    bytes.extend(
        encode_bare(ty, &json!({"metadata": {"namespace": "n"}, "data": {"k": "2"}})).unwrap(),
    );
    let object = decode_bare(ty, &bytes).unwrap();
    // The second name is empty but present: the last one wins.
    assert_eq!(object, json!({"metadata": {"namespace": "n"}, "data": {"k": "2"}}));
}

#[test]
fn packed_lists_are_decoded() {
    let context = by_name("io.k8s.api.core.v1.PodSecurityContext").unwrap();
    let number = context.field("supplementalGroups").unwrap().number;
    let mut out = super::Writer::new(Vec::new());
    out.bytes(number, &[1, 0xac, 0x02]);
    let object = decode_bare(context, &out.finish()).unwrap();
    assert_eq!(object, json!({"supplementalGroups": [1, 300]}));
}

#[test]
fn wrong_wire_types_of_known_fields_are_rejected() {
    let ty = lookup(Gvk::new("", "v1", "ConfigMap")).unwrap();
    // Field 1, the metadata, as a varint.
    assert_eq!(
        decode_bare(ty, &[0x08, 0x01]),
        Err(DecodeError::WrongWireType { wire: 0, field: "metadata" })
    );
    assert_eq!(encode_bare(ty, &json!({"data": {"k": 1}})), Err(EncodeError::Mismatch("data")));
}
