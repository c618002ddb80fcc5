//! Fuzzes the parser of certificates on stable Rust: random edits of real certificates, from a fixed
//! seed.
//!
//! `EVENKEEL_FUZZ_ROUNDS` is the number of inputs. The cargo-fuzz target in `fuzz`, which is
//! coverage-guided, calls the same function.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

#[path = "fuzz/entries.rs"]
mod entries;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_types::random::SplitMix64;

#[test]
fn certificates_and_requests() {
    let rounds = std::env::var("EVENKEEL_FUZZ_ROUNDS").ok().map_or(20_000, |n| n.parse().unwrap());
    let seeds = seeds();
    let mut random = SplitMix64(1);
    let mut below =
        move |bound: usize| usize::try_from(random.next() % bound.max(1) as u64).unwrap();
    for seed in &seeds {
        entries::x509(seed);
    }
    for _ in 0..rounds {
        let mut bytes = seeds[below(seeds.len())].clone();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            match below(5) {
                // Tags and lengths are single bytes, mostly: one that differs moves all that follows.
                0 => bytes[at] = u8::try_from(below(256)).unwrap(),
                1 => bytes[at] ^= 1 << below(8),
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..(at + below(9)).min(bytes.len()))),
                _ => {
                    let other = &seeds[below(seeds.len())];
                    let from = below(other.len());
                    let part = other[from..(from + below(64)).min(other.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        entries::x509(&bytes);
    }
}

/// The certificates and requests of the fixtures, as DER.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/x509/fixtures");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let der = |text: String| {
        let lines = text.lines().skip_while(|line| !line.starts_with("-----BEGIN")).skip(1);
        let body: String = lines.take_while(|line| !line.starts_with("-----END")).collect();
        STANDARD.decode(body).unwrap()
    };
    texts.map(der).collect()
}
