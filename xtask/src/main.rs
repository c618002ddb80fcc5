//! Generators and checks of the workspace itself: `cargo run -p xtask -- <task>`.

fn main() {}
