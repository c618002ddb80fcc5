//! Fuzzes the evaluation of CEL expressions.

#![no_main]

#[path = "../../crates/evenkeel-cel/tests/fuzz/entries.rs"]
#[expect(dead_code, reason = "each target calls one entry point")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::cel_evaluate(data));
