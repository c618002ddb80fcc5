//! The generator of the type table.

use std::fs;

use super::{data_dir, generate, table_path};

#[test]
fn the_committed_table_is_what_the_sources_give() {
    let data = data_dir();
    if !data.is_dir() {
        println!("skipped: no Kubernetes documents at {} (EVENKEEL_K8S_DATA)", data.display());
        return;
    }
    let made = generate(&data).unwrap();
    let committed = fs::read_to_string(table_path()).unwrap();
    // Not assert_eq!: the difference of two 150 kB texts helps nobody.
    assert!(made == committed, "the table is stale: run `cargo run -p xtask -- types`");
}
