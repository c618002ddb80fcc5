//! Fuzzes the parser, the checker and the evaluation on stable Rust: random edits of the expressions of
//! the corpus, from a fixed seed.
//!
//! `EVENKEEL_FUZZ_ROUNDS` is the number of inputs for each target. The cargo-fuzz targets in `fuzz`, which
//! are coverage-guided, call the same functions.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

#[path = "fuzz/entries.rs"]
#[expect(unreachable_pub, reason = "the targets use the same file")]
mod entries;

use std::path::Path;

use evenkeel_types::random::SplitMix64;

#[test]
fn compilation_has_no_panic_and_reports_positions() {
    fuzz(1, entries::cel_compile);
}

#[test]
fn estimates_have_ordered_bounds() {
    fuzz(2, entries::cel_estimate);
}

#[test]
fn evaluation_ends_at_its_limit_and_is_repeatable() {
    fuzz(3, entries::cel_evaluate);
}

/// Parts that edits insert.
const PARTS: [&str; 36] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    "?",
    ":",
    ",",
    "!",
    "-",
    "+",
    "*",
    " in ",
    "==",
    "&&",
    "||",
    "'",
    "self",
    "xs",
    "s",
    "m",
    ".all(x, ",
    ".map(x, ",
    ".filter(x, ",
    "9223372036854775807",
    "1u",
    "0.5",
    "null",
    "dyn(",
    ".?spec",
    "[?0]",
    ".optMap(x, ",
    "\\",
    "\u{1F431}",
];

fn fuzz(seed: u64, entry: fn(&[u8])) {
    let rounds = std::env::var("EVENKEEL_FUZZ_ROUNDS").ok().map_or(3_000, |n| n.parse().unwrap());
    let seeds = seeds();
    let mut random = SplitMix64(seed);
    let mut below =
        move |bound: usize| usize::try_from(random.next() % bound.max(1) as u64).unwrap();
    for expression in &seeds {
        entry(expression.as_bytes());
    }
    for _ in 0..rounds {
        let mut text: Vec<char> = seeds[below(seeds.len())].chars().collect();
        for _ in 0..=below(3) {
            let (from, to) = (below(text.len() + 1), below(text.len() + 1));
            let (from, to) = (from.min(to), from.max(to));
            let part: Vec<char> = match below(4) {
                0 => Vec::new(),
                1 => PARTS[below(PARTS.len())].chars().collect(),
                2 => seeds[below(seeds.len())].chars().collect(),
                _ => text[from..to].iter().rev().copied().collect(),
            };
            // Insertions are as likely as replacements.
            let to = if below(2) == 0 { from } else { to };
            text.splice(from..to, part);
        }
        text.truncate(2_000);
        entry(text.into_iter().collect::<String>().as_bytes());
    }
}

/// The expressions of the corpus that fit in a line.
fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut seeds = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ext| ext == "txt")) {
        let text = std::fs::read_to_string(file).unwrap();
        seeds.extend(text.lines().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned));
    }
    assert!(seeds.len() > 500, "the corpus was not found");
    seeds
}
