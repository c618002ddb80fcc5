//! `etcd` for envtest: serves health checks only.

use std::process::ExitCode;

use evenkeel_envtest::{
    etcd,
    process::{self, BoxError},
};

fn main() -> ExitCode {
    process::exit_code(run())
}

fn run() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(etcd::main(process::arguments()?))
}
