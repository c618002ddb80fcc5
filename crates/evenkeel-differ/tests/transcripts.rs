//! Replays kube-apiserver's recorded responses against the embedded server.
//!
//! `transcripts/open.txt` lists the transcripts that still have differences, and how many. The
//! numbers must match exactly: a new difference fails, and so does an outdated line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_apiserver::ApiServer;
use evenkeel_differ::generate::shared;
use evenkeel_differ::transcript::Transcript;
use evenkeel_differ::{KnownDifferences, Sequence, Server, generate, render_report};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn open() -> BTreeMap<String, usize> {
    let text =
        std::fs::read_to_string(folder("transcripts").join("open.txt")).expect("open.txt exists");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').expect("a name and a number");
            (name.to_owned(), count.trim().parse().expect("a number"))
        })
        .collect()
}

// With a paused clock, waiting for a missing event takes no time.
#[tokio::test(start_paused = true)]
async fn embedded_server_responds_as_recorded() {
    let server = ApiServer::builder().seed(1).rbac().build().await.unwrap();
    let server = Server::ours(server);
    shared::create(&server).await.unwrap();
    let known = KnownDifferences::built_in().unwrap();
    let transcripts = Transcript::load_folder(&folder("transcripts")).unwrap();
    assert!(!transcripts.is_empty());
    let mut open = open();
    let mut wrong = String::new();
    for transcript in transcripts {
        let finding = transcript.replay(&server, &known).await.unwrap();
        let name = &transcript.sequence.name;
        let expected = open.remove(name).unwrap_or(0);
        if finding.unexplained.len() != expected {
            wrong.push_str(&format!(
                "{name}: {} differences instead of {expected}\n{}\n",
                finding.unexplained.len(),
                render_report(&transcript.sequence, &finding),
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(open.is_empty(), "open.txt lists transcripts that do not exist: {open:?}");
}

#[test]
fn transcripts_match_the_current_sequences() {
    let transcripts = Transcript::load_folder(&folder("transcripts")).unwrap();
    let recorded: BTreeMap<_, _> =
        transcripts.into_iter().map(|t| (t.sequence.name.clone(), t.sequence)).collect();
    for sequence in Sequence::load_folder(&folder("sequences")).unwrap() {
        if sequence.live {
            continue;
        }
        let known = recorded.get(&sequence.name);
        assert_eq!(known, Some(&sequence), "run `evenkeel-differ record`");
    }
    for (name, sequence) in &recorded {
        if let Some(generated) = generate::by_name(name) {
            assert_eq!(*sequence, generated, "run `evenkeel-differ record`");
        }
    }
}
