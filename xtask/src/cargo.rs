//! Cargo within `cargo xtask`.

use std::process::Command;

/// Returns a command for cargo, without the variables that cargo has set for this program: the build
/// scripts that depend on them would run again, and what depends on those would be built again, at
/// each change between `cargo xtask` and `cargo`.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}
