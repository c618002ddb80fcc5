//! Every field of the built-in kinds, one or two at a time: defaulting, validation and error
//! messages.

use evenkeel_types::Gvk;

use super::super::kinds::{KINDS, Kind};
use super::super::mutate;
use super::super::random::Random;
use super::super::steps::collection;
use super::{APPLY, MERGE, STRATEGIC, object, patch, post};
use crate::sequence::Step;

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let built_in: Vec<&Kind> = KINDS.iter().filter(|kind| !kind.custom).collect();
    let kinds = [*random.pick(&built_in), *random.pick(&built_in)];
    let mut steps = Vec::new();
    for kind in kinds {
        let object = object(random, kind, &name(kind));
        steps.push(post(collection(kind), object));
    }
    while steps.len() < 34 {
        let kind = *random.pick(&kinds);
        steps.push(step(random, kind));
    }
    steps
}

/// Names of cluster-scoped objects must not collide with those of other sequences.
fn name(kind: &Kind) -> String {
    if kind.namespaced { "a".to_owned() } else { "${ns}-a".to_owned() }
}

fn step(random: &mut Random, kind: &Kind) -> Step {
    let mut body = object(random, kind, &name(kind));
    let gvk = Gvk::from_api_version(kind.api_version, kind.kind);
    let ty = evenkeel_types::lookup(gvk).filter(|_| random.percent(85));
    match ty {
        Some(ty) => mutate::set_any_field(random, ty, &mut body),
        None => mutate::corrupt(random, &mut body),
    }
    let path = collection(kind);
    let named = format!("{path}/{}", name(kind));
    let validation = *random.pick(&["", "", "&fieldValidation=Strict", "&fieldValidation=Ignore"]);
    let dry = format!("?dryRun=All{validation}");
    // kube-apiserver panics when a headless Service changes to two IP families, and on a merge key
    // that is a list.
    let fatal = body.pointer("/spec/ipFamilyPolicy").is_some();
    let odd_keys = ty.is_none() || matches!(kind.plural, "secrets" | "configmaps");
    match random.below(10) {
        at if at < 6 || fatal => {
            // With an unused name.
            crate::sequence::set_at(&mut body, "/metadata/name", "${ns}-free".into());
            post(format!("{path}{dry}"), body)
        }
        7 if !odd_keys => patch(format!("{named}{dry}"), STRATEGIC, body),
        6 | 7 => patch(format!("{named}{dry}"), MERGE, body),
        8 => patch(format!("{named}{dry}&fieldManager=m&force=true"), APPLY, body),
        _ => Step::call("PUT", format!("{named}{dry}")).with_body(body),
    }
}
