//! Declarations of types and their options.

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::core::{Expression, Selector};
use serde::Deserialize;

use super::*;

fn cache() -> Cache {
    Cache::new(Client::new(Silent, "default"), CacheOptions::default())
}

fn shows(selector: &str) -> Selector {
    Expression::Equal("show".to_owned(), selector.to_owned()).into()
}

#[tokio::test]
async fn caching_all_secrets_requires_an_explicit_option() {
    let kind = Kind::of::<Secret>();
    let error = cache().declare(&kind, TypeOptions::new()).unwrap_err();
    assert!(error.to_string().contains("cluster_wide_secrets"), "{error}");
    for enough in [
        TypeOptions::new().namespaces(["default"]),
        TypeOptions::new().labels(shows("yes")),
        TypeOptions::new().fields("type=Opaque"),
        TypeOptions::new().metadata_only(),
        TypeOptions::new().cluster_wide_secrets(),
    ] {
        cache().declare(&kind, enough).unwrap();
    }
}

#[tokio::test]
async fn type_declared_twice_with_different_options_is_rejected() {
    let (cache, kind) = (cache(), Kind::of::<ConfigMap>());
    let options = TypeOptions::new().namespaces(["a"]).transform(|_| Ok::<_, String>(()));
    cache.declare(&kind, options.clone()).unwrap();
    cache.declare(&kind, options.clone()).unwrap();
    let error = cache.declare(&kind, options.clone().namespaces(["b"])).unwrap_err().to_string();
    assert!(error.contains("namespaces") && error.contains("\"a\"") && error.contains("\"b\""));
    let other = TypeOptions::new().namespaces(["a"]).transform(|_| Ok::<_, String>(()));
    assert!(matches!(cache.declare(&kind, other), Err(DeclareError::Conflict { .. })));
    assert!(cache.declare(&kind, options.metadata_only()).is_err());
}

#[tokio::test]
async fn namespaces_of_the_cache_apply_to_types_without_their_own() {
    let namespaces = Some(["shop".to_owned()].into());
    let options = CacheOptions { namespaces, ..CacheOptions::default() };
    let cache = Cache::new(Client::new(Silent, "default"), options);
    let (map, secret) = (Kind::of::<ConfigMap>(), Kind::of::<Secret>());
    cache.declare(&map, TypeOptions::new()).unwrap();
    cache.declare(&map, TypeOptions::new().namespaces(["shop"])).unwrap();
    assert!(cache.declare(&map, TypeOptions::new().namespaces(["pay"])).is_err());
    cache.declare(&secret, TypeOptions::new().namespaces(["pay"])).unwrap();
    assert!(cache.declare(&secret, TypeOptions::new()).is_err());
    cache.declare(&Kind::of::<Node>(), TypeOptions::new()).unwrap();
}

#[tokio::test]
async fn contradictory_options_are_rejected() {
    let map = Kind::of::<ConfigMap>();
    for (kind, options) in [
        (Kind::of::<Node>(), TypeOptions::new().namespaces(["a"])),
        (map.clone(), TypeOptions::new().namespaces([""])),
        (map.clone(), TypeOptions::new().fields("nonsense")),
        (map.clone(), TypeOptions::new().metadata_only().eager::<ConfigMap>()),
        (map.clone(), TypeOptions::new().view::<ConfigMap>().eager::<ConfigMap>()),
    ] {
        let error = cache().declare(&kind, options).unwrap_err();
        assert!(matches!(error, DeclareError::Invalid { .. }), "{error}");
    }
    let cache = cache();
    let none = |_: &Meta| Vec::new();
    cache.index_meta(&map, "x", none).unwrap();
    cache.declare(&map, TypeOptions::new().metadata_only()).unwrap();
    assert!(cache.index_meta(&map, "x", none).is_err(), "twice");
    assert!(cache.index::<ConfigMap>("y", |_| Vec::new()).is_err(), "needs whole objects");
    assert!(cache.set_namespaces(&map, ["a"]).is_err(), "declared for all");
}

#[tokio::test(start_paused = true)]
async fn metadata_only_type_stores_only_metadata_of_own_writes_too() {
    let mut test = TestCache::new(TypeOptions::new().metadata_only());
    test.list(5, [&*raw("a", "u1", 1, "secret")]);
    test.cache.wrote(test.informer.kind(), &raw("b", "u2", 9, "secret"));
    for name in ["a", "b"] {
        let entry = test.get(name).unwrap();
        assert!(!String::from_utf8_lossy(entry.json()).contains("secret"));
        assert_eq!(entry.object_meta().unwrap().name.as_deref(), Some(name));
        let error = test.cache.typed::<ConfigMap>(&entry).unwrap_err();
        assert!(error.to_string().contains("`metadata_only`"), "{error}");
    }
}

#[derive(Debug, Deserialize)]
struct View {
    data: BTreeMap<String, String>,
}

#[tokio::test(start_paused = true)]
async fn view_stores_only_its_fields() {
    let mut test = TestCache::new(TypeOptions::new().view::<View>());
    test.cache
        .index_as(test.informer.kind(), "value", |view: &View| {
            view.data.values().cloned().collect()
        })
        .unwrap();
    test.list(5, [&*raw("a", "u1", 1, "x"), br#"{"metadata":{"name":"b","namespace":"default"}}"#]);
    let entry = test.get("a").unwrap();
    assert_eq!(entry.json(), b"");
    let view: Arc<View> = test.cache.typed(&entry).unwrap();
    assert_eq!(view.data["value"], "x");
    assert!(test.cache.typed::<ConfigMap>(&entry).unwrap_err().to_string().contains("`view`"));
    assert_eq!(test.informer.list().index("value", "x").entries().unwrap().len(), 1);
    // Objects that do not decode as the view are rejected.
    assert!(test.get("b").is_none());
    assert!(test.informer.stats().rejected["default/b"].contains("data"));
}

#[tokio::test(start_paused = true)]
async fn index_added_later_covers_stored_objects_and_changes() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "x"), &*raw("b", "u2", 2, "y")]);
    test.cache
        .index::<ConfigMap>("value", |map| {
            map.data.iter().flat_map(|data| data.values().cloned()).collect()
        })
        .unwrap();
    test.writer.changed(&raw("b", "u2", 6, "x"));
    test.writer.changed(&raw("a", "u1", 7, "z"));
    test.writer.changed(&raw("c", "u3", 8, "x"));
    let names = |value: &str| -> Vec<String> {
        let found = test.informer.list().index("value", value).entries().unwrap();
        found.iter().map(|entry| entry.meta().key().name().to_owned()).collect()
    };
    assert_eq!(
        (names("x"), names("y"), names("z")),
        (vec!["b".into(), "c".into()], vec![], vec!["a".into()])
    );
    let unknown = test.informer.list().index("nope", "x").entries();
    assert!(matches!(unknown, Err(ReadError::NoIndex { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_is_found_under_any_namespace() {
    let cache = cache();
    let kind = Kind::of::<Node>();
    cache.declare(&kind, TypeOptions::new()).unwrap();
    let informer = cache.informer(&kind).unwrap();
    let mut writer = informer.0.0.writer(None);
    writer.begin(false);
    writer.listed(br#"{"metadata":{"name":"n","uid":"u","resourceVersion":"3"}}"#);
    writer.commit("5");
    for key in [Key::cluster("n"), Key::namespaced("default", "n")] {
        assert!(informer.get(&key).unwrap().is_some());
    }
    assert_eq!(informer.list().in_namespace("default").entries().unwrap().len(), 1);
}
