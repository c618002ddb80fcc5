//! Splitting a list response into its items.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the objects and the metadata of a list with these frames.
fn read<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<String>, ListMeta), Error> {
    let mut items = Items::new();
    let mut objects = Vec::new();
    for frame in frames {
        items.push(Bytes::copy_from_slice(frame));
        while items.advance()? {
            objects.push(String::from_utf8(items.item().to_vec()).unwrap());
        }
    }
    items.finish().map(|meta| (objects, meta))
}

fn check(text: &str, objects: &[&str], version: &str, token: &str) {
    let meta = ListMeta { resource_version: version.to_owned(), r#continue: token.to_owned() };
    for size in [1, 2, 3, 7, text.len()] {
        let (found, found_meta) = read(text.as_bytes().chunks(size)).unwrap();
        assert_eq!(found, objects, "in frames of {size}");
        assert_eq!(found_meta, meta, "in frames of {size}");
    }
}

#[test]
fn fields_may_be_in_any_order() {
    check(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"x",
            "remainingItemCount":7},"items":[{"a":1},{"b":[{}]}]}"#,
        &[r#"{"a":1}"#, r#"{"b":[{}]}"#],
        "5",
        "x",
    );
    check(
        r#" { "items" : [ { } , {"a" : "}"} ] , "metadata" : { "resourceVersion" : "5" } } "#,
        &["{ }", r#"{"a" : "}"}"#],
        "5",
        "",
    );
}

#[test]
fn structure_within_strings_is_ignored() {
    check(
        r#"{"extra\"":"]}\\","items":[{"a":"\\\"}]{["},{"ключ":"значение"}],"n":-1.5e3,"t":true}"#,
        &[r#"{"a":"\\\"}]{["}"#, r#"{"ключ":"значение"}"#],
        "",
        "",
    );
}

#[test]
fn only_the_items_of_the_envelope_are_items() {
    check(r#"{"metadata":{"items":[{}]},"x":{"items":[{}]},"items":[]}"#, &[], "", "");
}

#[test]
fn empty_fields_may_be_null() {
    check(r#"{"items":null,"metadata":{"resourceVersion":"1"}}"#, &[], "1", "");
    check(r#"{"items":[],"metadata":null}"#, &[], "", "");
}

#[test]
fn non_lists_are_rejected() {
    for text in [
        "[]",
        "<html>",
        "{}",
        r#"{"kind":"Status","metadata":{}}"#,
        r#"{"items":{}}"#,
        r#"{"items":[1]}"#,
        r#"{"items":[{},]}"#,
        r#"{"items":[{}{}]}"#,
        r#"{"items":[]]}"#,
        r#"{"items":[]}}"#,
        r#"{"items":[],}"#,
        r#"{"items" []}"#,
        r#"{"metadata":[7],"items":[]}"#,
        r#"{,"items":[]}"#,
    ] {
        for size in [1, text.len()] {
            let error = read(text.as_bytes().chunks(size)).unwrap_err();
            assert!(matches!(error, Error::Unexpected(_)), "{text}: {error}");
        }
    }
}

#[test]
fn every_prefix_of_a_list_is_incomplete() {
    let text = r#"{"kind":"L","items":[{"a":"\"b"}],"metadata":{"continue":"x"}}"#;
    for end in 0..text.len() {
        let error = read([&text.as_bytes()[..end]]).unwrap_err();
        assert!(matches!(error, Error::Incomplete), "{}: {error}", &text[..end]);
    }
}

#[test]
fn unterminated_object_is_rejected() {
    let mut items = Items::new();
    items.push(Bytes::from_static(b"{\"items\":[{\"a\":\""));
    assert!(!items.advance().unwrap());
    let frame = Bytes::from(vec![b'x'; 1 << 20]);
    let frames = (0..100).take_while(|_| {
        items.push(frame.clone());
        items.advance().is_ok()
    });
    assert_eq!(frames.count(), 63);
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        r#"[\[\]{}",:\\ items]*"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-z\\\\\"{}]{0,5}", inner), 0..4)
                .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn items_equal_those_of_a_full_parse(
        objects in vec(vec(("[a-z]{0,5}", json()), 0..4), 0..6),
        extra in json(),
        pretty: bool,
        sizes in vec(prop_oneof![1_usize..40, 60_usize..400], 1..8),
    ) {
        let objects: Vec<serde_json::Value> = objects
            .into_iter()
            .map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into())
            .collect();
        let list = serde_json::json!({
            "kind": "L", "extra": extra, "items": objects,
            "metadata": {"resourceVersion": "12", "continue": "t"},
        });
        let text = if pretty {
            serde_json::to_vec_pretty(&list).unwrap()
        } else {
            serde_json::to_vec(&list).unwrap()
        };
        let mut rest = &text[..];
        let frames = sizes.iter().cycle().map_while(|&size| {
            let (frame, after) = rest.split_at_checked(size.min(rest.len()))?;
            rest = after;
            (!frame.is_empty()).then_some(frame)
        });
        let (found, meta) = read(frames).unwrap();
        let found: Vec<serde_json::Value> =
            found.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        prop_assert_eq!(found, objects);
        prop_assert_eq!(meta.resource_version, "12");
        prop_assert_eq!(meta.r#continue, "t");
    }

    #[test]
    fn parser_accepts_any_input_without_panic(frames in vec(vec(any::<u8>(), 0..30), 0..5)) {
        let _ = read(frames.iter().map(Vec::as_slice));
    }

    #[test]
    fn parser_accepts_any_list_like_input_without_panic(text in r#"\{"items":[\[\]{}",:n0 \\]{0,40}"#) {
        let _ = read([text.as_bytes()]);
    }
}
