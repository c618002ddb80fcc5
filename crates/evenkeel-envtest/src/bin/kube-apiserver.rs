//! `kube-apiserver` for envtest.

use std::{convert::Infallible, process::ExitCode};

use evenkeel_envtest::{
    answers::{Answer, Answers},
    apiserver::{self, Startup},
    process::{self, BoxError},
};

fn main() -> ExitCode {
    process::exit_code(run())
}

fn run() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(apiserver::main(process::arguments()?, service))
}

async fn service(_startup: Startup) -> Result<Answers, Infallible> {
    const fn ok(path: &'static str) -> Answer {
        Answer { path, content_type: "text/plain; charset=utf-8", body: "ok" }
    }
    Ok(Answers(const { &[ok("/healthz"), ok("/livez"), ok("/readyz")] }))
}
