//! Continue tokens, old resourceVersions and watches after a compaction.

use super::super::random::Random;
use super::super::steps::{TABLE, collection};
use super::{delete, get, namespaced, object, post, put, read, touch, watch};
use crate::sequence::Step;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let path = collection(kind);
    let mut steps = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let step = post(&path, object(random, kind, name)).saving(format!("o{at}"));
        steps.push(step.saving_field(&format!("v{at}"), "/metadata/resourceVersion"));
    }
    for limit in 1..4 {
        let selector = *random.pick(&["", "", "&labelSelector=app%3Dx"]);
        steps.push(
            get(format!("{path}?limit={limit}{selector}"))
                .saving_field(&format!("t{limit}"), "/metadata/continue")
                .saving_field("before", "/metadata/resourceVersion"),
        );
    }
    for _ in 0..4 {
        let name = *random.pick(&NAMES);
        steps.push(touch(random, kind, name));
    }
    steps.push(Step { compact: true, ..Step::default() });
    while steps.len() < 38 {
        let at = random.below(NAMES.len());
        let token = 1 + random.below(3);
        match random.below(15) {
            0 | 1 => steps.push(
                get(format!("{path}?limit=2&continue=${{t{token}}}"))
                    .saving_field(&format!("t{token}"), "/metadata/continue"),
            ),
            2 => steps
                .push(get(format!("{path}?resourceVersion=${{v{at}}}&resourceVersionMatch=Exact"))),
            3 => steps.push(get(format!(
                "{path}?resourceVersion=${{v{at}}}&resourceVersionMatch=NotOlderThan&limit=2"
            ))),
            4 => steps.push(get(format!("{path}?resourceVersion=${{v{at}}}"))),
            5 | 6 => {
                let name = format!("w{}", steps.len());
                let options = *random.pick(&[
                    "",
                    "&allowWatchBookmarks=true",
                    "&labelSelector=app%3Dx",
                    "&fieldSelector=metadata.name%3Da",
                    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                    "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                ]);
                let version = *random.pick(&["v$", "v$", "before", "now"]);
                let version = version.replace('$', &at.to_string());
                let query = format!("watch=1&resourceVersion=${{{version}}}{options}");
                let mut step = watch(&name, format!("{path}?{query}"));
                if random.percent(20) {
                    step = step.accepting(TABLE);
                }
                steps.push(step);
                steps.push(read(&name));
            }
            7 => steps.push(get(format!("{path}/{}?resourceVersion=${{v{at}}}", NAMES[at]))),
            8 => {
                let step = touch(random, kind, NAMES[at]);
                steps.push(step.saving_field("now", "/metadata/resourceVersion"));
            }
            9 => {
                let step = put(format!("{path}/{}", NAMES[at]), &format!("o{at}"));
                steps.push(step.setting("/metadata/labels/after", "yes".into()));
            }
            10 => {
                // A page from before the compaction, whatever resourceVersion its token has.
                let more = *random.pick(&["&resourceVersion=0", "&resourceVersion=${before}"]);
                steps.push(get(format!("{path}?limit=1&continue=${{t{token}}}{more}")));
            }
            11 => steps.push(get(format!(
                "{path}?resourceVersion=${{before}}&resourceVersionMatch=Exact&limit=2"
            ))),
            12 => steps.push(delete(format!("{path}/{}", NAMES[at]))),
            13 => {
                // This request waits until the watch cache behind the next one is current.
                steps.push(get(&path).saving_field("now", "/metadata/resourceVersion"));
                steps.push(get(format!("{path}?resourceVersion=0&limit=2")));
            }
            _ => steps.push(
                get(format!("{path}?limit=2"))
                    .saving_field("t1", "/metadata/continue")
                    .saving_field("now", "/metadata/resourceVersion"),
            ),
        }
    }
    steps
}
