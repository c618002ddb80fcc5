//! Developer tasks of the workspace: `cargo xtask <task>`.

mod campaign;

mod cargo;

mod go;

mod mutants;

mod package;

mod policy;

mod simulations;

mod templates;

mod tidy;

mod types;

mod upstream;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <task>

tasks:
  campaign  run tests with many random seeds (see `campaign help`)
  contend   let client-go and the runtime compete for one Lease (needs Go)
  package   package the published crates, and build and test an operator with them
  policy    generate the table of bootstrap roles and bindings from an upstream kube-apiserver
  scrape    let Prometheus' parser and promtool read the metrics (needs Go)
  templates build and test the projects that `evenkeel new` creates
  tidy      check the source tree (`tidy --graph CRATE[::MODULE]` prints its modules)
  types     generate the tables of built-in types and of their names in error messages
  upstream  build, start or find upstream etcd and kube-apiserver (see `upstream help`)";

#[expect(clippy::print_stderr, reason = "a command line tool prints errors")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done: Result<(), Box<dyn std::error::Error>> = match arguments.first().map(String::as_str) {
        Some("campaign") => campaign::run(&arguments[1..]),
        Some("contend") => go::CONTEND.run(),
        Some("package") => package::run(&arguments[1..]),
        Some("policy") => policy::write(),
        Some("scrape") => go::SCRAPE.run(),
        Some("templates") => templates::run(&arguments[1..]),
        Some("tidy") => tidy::run(&arguments[1..]),
        Some("types") => types::write().map_err(Into::into),
        Some("upstream") => upstream::run(&arguments[1..]),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
