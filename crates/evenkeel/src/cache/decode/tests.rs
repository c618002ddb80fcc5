//! Conversion of JSON to entries.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::DynamicObject;

use super::*;

fn decoder(options: TypeOptions) -> EntryDecoder {
    EntryDecoder::new(Kind::of::<Deployment>(), options)
}

const OBJECT: &str = r#"{"metadata":{"name":"web","namespace":"shop","uid":"0d3b9e8f-8a54-4f1c-9d4e-ffee00112233","resourceVersion":"42","generation":3,"labels":{"tier":"front","app":"we\u0062"},"annotations":{"a":"b\"c"},"ownerReferences":[{"apiVersion":"example.com/v1","kind":"App","name":"x","uid":"u","controller":true},{"apiVersion":"v1","kind":"Node","name":"n","uid":"v"}],"finalizers":["example.com/f"],"deletionTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"kubectl"}]},"spec":{"replicas":2}}"#;

#[test]
fn header_matches_the_object() {
    let entry = decoder(TypeOptions::new()).entry(OBJECT.as_bytes()).unwrap();
    let meta = entry.meta();
    assert_eq!(meta.key(), &Key::namespaced("shop", "web"));
    assert_eq!(meta.uid().to_string(), "0d3b9e8f-8a54-4f1c-9d4e-ffee00112233");
    assert_eq!((meta.version().0, meta.generation()), (42, 3));
    assert_eq!(meta.labels().collect::<Vec<_>>(), [("app", "web"), ("tier", "front")]);
    assert_eq!((meta.label("tier"), meta.label("none")), (Some("front"), None));
    let owner = meta.controller().unwrap();
    assert_eq!((&*owner.group, &*owner.kind, &*owner.name), ("example.com", "App", "x"));
    assert_eq!((&*meta.owners()[1].group, meta.owners()[1].controller), ("", false));
    assert_eq!(meta.finalizers().collect::<Vec<_>>(), ["example.com/f"]);
    assert!(meta.is_deleting());
    assert_eq!(entry.annotations_json(), br#"{"a":"b\"c"}"#);
    assert_eq!(entry.annotations()["a"], "b\"c");
}

#[test]
fn list_item_gets_its_type_and_loses_only_managed_fields() {
    let entry = decoder(TypeOptions::new()).entry(OBJECT.as_bytes()).unwrap();
    let dynamic: DynamicObject = serde_json::from_slice(entry.json()).unwrap();
    let types = dynamic.types.unwrap();
    assert_eq!((&*types.api_version, &*types.kind), ("apps/v1", "Deployment"));
    let mut wanted: serde_json::Value = serde_json::from_str(OBJECT).unwrap();
    wanted["metadata"].as_object_mut().unwrap().remove("managedFields");
    wanted["apiVersion"] = "apps/v1".into();
    wanted["kind"] = "Deployment".into();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(entry.json()).unwrap(), wanted);

    // The same object from a watch, or pretty-printed, is the same entry.
    let again = decoder(TypeOptions::new()).entry(entry.json()).unwrap();
    assert_eq!((again.json(), again.meta()), (entry.json(), entry.meta()));
    let pretty = serde_json::to_vec_pretty(&wanted).unwrap();
    let pretty = decoder(TypeOptions::new()).entry(&pretty).unwrap();
    assert!(!pretty.json().contains(&b'\n'));
    assert_eq!(pretty.meta().key(), entry.meta().key());
    assert_eq!(pretty.annotations(), entry.annotations());
}

#[test]
fn managed_fields_are_kept_if_requested() {
    let entry = decoder(TypeOptions::new().keep_managed_fields()).entry(OBJECT.as_bytes()).unwrap();
    assert!(entry.object_meta().unwrap().managed_fields.is_some());
    let entry = decoder(TypeOptions::new()).entry(OBJECT.as_bytes()).unwrap();
    assert!(entry.object_meta().unwrap().managed_fields.is_none());
}

#[test]
fn a_transform_may_not_change_which_object_it_is() {
    for (path, fails) in
        [("/metadata/name", true), ("/metadata/uid", true), ("/spec/replicas", false)]
    {
        let options = TypeOptions::new().transform(move |object| {
            *object.pointer_mut(path).ok_or("nothing there")? = "other".into();
            Ok::<_, &str>(())
        });
        assert_eq!(decoder(options).entry(OBJECT.as_bytes()).is_err(), fails, "{path}");
    }
    let panics = TypeOptions::new().transform(|_| -> Result<(), String> { panic!("as wanted") });
    let rejected = decoder(panics).entry(OBJECT.as_bytes()).unwrap_err();
    assert_eq!(rejected.key(), Some(&Key::namespaced("shop", "web")));
    let bytes = TypeOptions::new().transform_bytes(|body| Ok::<_, String>(body.to_vec()));
    assert!(decoder(bytes).entry(OBJECT.as_bytes()).is_ok());
}

#[test]
fn an_eager_object_is_decoded_once_and_stays() {
    let entry = decoder(TypeOptions::new().eager::<Deployment>()).entry(OBJECT.as_bytes()).unwrap();
    let one = std::sync::Arc::as_ptr(&entry.decode::<Deployment>().unwrap());
    let other = std::sync::Arc::as_ptr(&entry.decode::<Deployment>().unwrap());
    assert_eq!(one, other);
    // Another type can be read without evicting it.
    assert!(entry.decode::<DynamicObject>().is_ok());
    assert_eq!(one, std::sync::Arc::as_ptr(&entry.decode::<Deployment>().unwrap()));
    assert!(entry.decode::<Pod>().is_err());
}
