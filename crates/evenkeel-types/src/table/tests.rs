//! The table of built-in types.

use super::{Custom, DefaultValue, ListType, Shape, all, by_name, lookup};
use crate::Gvk;

fn field(ty: &str, name: &str) -> &'static super::Field {
    by_name(ty).unwrap().field(name).unwrap()
}

#[test]
fn kinds_are_found_by_gvk_and_by_name() {
    let pod = lookup(Gvk::new("", "v1", "Pod")).unwrap();
    assert_eq!(pod.name, "io.k8s.api.core.v1.Pod");
    assert!(std::ptr::eq(pod, by_name("io.k8s.api.core.v1.Pod").unwrap()));
    assert_eq!((pod.short_name(), pod.go_type().as_str()), ("Pod", "v1.Pod"));
    assert!(lookup(Gvk::new("", "v2", "Pod")).is_none());
    assert!(by_name("io.k8s.api.core.v1.Nothing").is_none());
}

#[test]
fn options_are_served_in_every_group() {
    let options = lookup(Gvk::new("", "v1", "DeleteOptions")).unwrap();
    assert!(options.gvks.contains(&Gvk::new("apps", "v1", "DeleteOptions")));
    let custom = lookup(Gvk::new("example.com", "v1", "DeleteOptions")).unwrap();
    assert!(std::ptr::eq(options, custom));
}

#[test]
fn embedded_fields_are_part_of_the_flat_list() {
    let volume = by_name("io.k8s.api.core.v1.Volume").unwrap();
    let config_map = volume.field("configMap").unwrap();
    let embed = &volume.embeds[config_map.embed.unwrap() as usize];
    assert_eq!((embed.name, embed.number), ("VolumeSource", 2));
    assert!(volume.field("name").unwrap().embed.is_none());

    // Two levels deep: a rule within a rule with operations within a named one.
    let named = "io.k8s.api.admissionregistration.v1.NamedRuleWithOperations";
    assert!(field(named, "apiGroups").embed.is_some());
    // A type that is only embedded keeps the merge rules of the embedding type.
    let ports = field("io.k8s.api.core.v1.EphemeralContainer", "ports");
    assert_eq!(ports.list_keys().collect::<Vec<_>>(), ["containerPort", "protocol"]);
}

#[test]
fn fields_named_like_table_keywords_are_fields() {
    let secret = by_name("io.k8s.api.core.v1.Secret").unwrap();
    assert!(secret.field("kind").is_some() && secret.field("type").is_some());
    assert!(field("io.k8s.api.flowcontrol.v1.Subject", "kind").required);
}

#[test]
fn merge_rules_defaults_and_enums_are_parsed() {
    let spread = field("io.k8s.api.core.v1.PodSpec", "topologySpreadConstraints");
    assert_eq!(spread.list_type, Some(ListType::Map));
    assert_eq!(spread.list_keys().collect::<Vec<_>>(), ["topologyKey", "whenUnsatisfiable"]);
    assert_eq!(spread.merge_key, Some("topologyKey"));
    let volumes = field("io.k8s.api.core.v1.PodSpec", "volumes");
    assert_eq!(volumes.patch_strategies().collect::<Vec<_>>(), ["merge", "retainKeys"]);
    let protocol = field("io.k8s.api.core.v1.ContainerPort", "protocol");
    assert_eq!(protocol.default, DefaultValue::Json("\"TCP\""));
    assert_eq!(protocol.allowed().collect::<Vec<_>>(), ["SCTP", "TCP", "UDP"]);
    assert!(by_name("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").unwrap().atomic);
    assert!(by_name("io.k8s.api.flowcontrol.v1.Subject").unwrap().unions.is_some());
}

#[test]
fn expressions_are_formatted_as_in_go() {
    let go = |ty, name| field(ty, name).expr.go_type();
    assert_eq!(go("io.k8s.api.core.v1.ContainerPort", "protocol"), "v1.Protocol");
    assert_eq!(go("io.k8s.api.core.v1.PodSpec", "containers"), "[]v1.Container");
    assert_eq!(go("io.k8s.api.core.v1.Secret", "data"), "map[string][]uint8");
    assert_eq!(go("io.k8s.api.core.v1.ResourceRequirements", "limits"), "v1.ResourceList");
    assert_eq!(go("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "uid"), "types.UID");
}

#[test]
fn every_type_can_be_walked() {
    for ty in all() {
        assert!(ty.fields.is_sorted_by(|a, b| a.name < b.name), "{}", ty.name);
        assert!(ty.members_by_number.is_sorted_by(|a, b| a.0 < b.0), "{}", ty.name);
        // Walks have a bit per field.
        assert!(ty.fields.len() <= 128, "{}", ty.name);
        assert!(ty.custom.is_none() || ty.fields.is_empty(), "{}", ty.name);
        for field in &ty.fields {
            if let Shape::Struct(inner) | Shape::Custom(_, inner) = field.shape {
                assert!(by_name(inner.name).is_some());
            }
        }
    }
    assert!(all().len() > 700);
    let quantity = by_name("io.k8s.apimachinery.pkg.api.resource.Quantity").unwrap();
    assert_eq!(quantity.custom, Some(Custom::Quantity));
}
