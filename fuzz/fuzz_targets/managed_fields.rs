//! Fuzzes the decoder of `managedFields`.

#![no_main]

#[path = "../../crates/evenkeel-apply/tests/fuzz/entries.rs"]
#[expect(dead_code, reason = "each target calls one entry point")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::managed_fields(data));
