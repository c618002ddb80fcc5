//! Fuzzes the parser of FieldsV1 documents.

#![no_main]

#[path = "../../crates/evenkeel-apply/tests/fuzz/entries.rs"]
#[expect(dead_code, reason = "each target calls one entry point")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::fields_v1(data));
