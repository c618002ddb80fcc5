//! Fuzzes the parser of certificates and certificate requests.

#![no_main]

#[path = "../../crates/evenkeel-pki/tests/fuzz/entries.rs"]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::x509(data));
