//! What is left after a compaction: tokens, old versions and watches from before it.

use super::super::random::Random;
use super::super::steps::{TABLE, collection};
use super::{get, namespaced, object, post, put, read, touch, watch};
use crate::sequence::Step;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub(super) fn write(random: &mut Random) -> Vec<Step> {
    let kind = namespaced(random);
    let path = collection(kind);
    let mut steps = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let step = post(&path, object(random, kind, name)).saving(format!("o{at}"));
        steps.push(step.keeping(&format!("v{at}"), "/metadata/resourceVersion"));
    }
    for limit in 1..4 {
        steps.push(
            get(format!("{path}?limit={limit}"))
                .keeping(&format!("t{limit}"), "/metadata/continue")
                .keeping("before", "/metadata/resourceVersion"),
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
        match random.below(11) {
            0 | 1 => steps.push(
                get(format!("{path}?limit=2&continue=${{t{token}}}"))
                    .keeping(&format!("t{token}"), "/metadata/continue"),
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
                    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                ]);
                let query = format!("watch=1&resourceVersion=${{v{at}}}{options}");
                let mut step = watch(&name, format!("{path}?{query}"));
                if random.percent(20) {
                    step = step.accepting(TABLE);
                }
                steps.push(step);
                steps.push(read(&name));
            }
            7 => steps.push(get(format!("{path}/{}?resourceVersion=${{v{at}}}", NAMES[at]))),
            8 => steps.push(touch(random, kind, NAMES[at])),
            9 => {
                let step = put(format!("{path}/{}", NAMES[at]), &format!("o{at}"));
                steps.push(step.setting("/metadata/labels/after", "yes".into()));
            }
            _ => steps.push(get(format!("{path}?limit=2")).keeping("t1", "/metadata/continue")),
        }
    }
    steps
}
