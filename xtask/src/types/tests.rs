//! The generators of both tables.

use std::fs;

use super::{data_dir, generate, generate_printed, printed_table_path, table_path};

#[test]
fn committed_table_matches_the_sources() {
    let data = data_dir();
    if !data.is_dir() {
        let reason = format!("no documents at {} (EVENKEEL_K8S_DATA)", data.display());
        return evenkeel_upstream::report_skipped(1, "test of the table of types", reason);
    }
    let generated = generate(&data).unwrap();
    let committed = fs::read_to_string(table_path()).unwrap();
    // Not assert_eq!, which would print two texts of 150 kB.
    assert!(generated == committed, "the table is stale: run `cargo run -p xtask -- types`");
}

#[test]
fn committed_table_of_printed_names_matches_its_source() {
    let committed = fs::read_to_string(printed_table_path()).unwrap();
    assert!(
        generate_printed().unwrap() == committed,
        "the table is stale: run `cargo xtask types`"
    );
}
