//! `upstream`: builds, starts and finds upstream Kubernetes executables.

use std::error::Error;
use std::io::{Read as _, Write as _};

use evenkeel_upstream::{Cluster, Program, UpstreamOptions, locate};

const USAGE: &str = "usage: cargo run -p xtask -- upstream <build|start|path> [programs]

  build    build etcd, kubectl, kube-apiserver and kube-controller-manager, or [programs], with Go
  start    run etcd and kube-apiserver on loopback until Enter, Ctrl-C or the end of input;
           with --controllers, run kube-controller-manager too
  path     print the paths of the executables, or what is missing";

pub(crate) fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    match arguments.first().map(String::as_str) {
        Some("build") => build(&arguments[1..]),
        Some("start") => start(arguments.iter().any(|argument| argument == "--controllers")),
        Some("path") => {
            let found = locate()?;
            print_line(&format!("etcd {}", found.etcd.display()));
            print_line(&format!("kube-apiserver {}", found.kube_apiserver.display()));
            for (name, path) in [
                ("kube-controller-manager", &found.kube_controller_manager),
                ("kubectl", &found.kubectl),
            ] {
                let path = path.as_ref().map(|path| path.display().to_string());
                print_line(&format!("{name} {}", path.unwrap_or_else(|| "(not found)".to_owned())));
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn build(names: &[String]) -> Result<(), Box<dyn Error>> {
    let mut programs = Vec::new();
    for name in names {
        let program = Program::ALL.into_iter().find(|program| program.name() == name);
        programs.push(program.ok_or_else(|| format!("unknown program {name}"))?);
    }
    if programs.is_empty() {
        programs = Program::ALL.to_vec();
    }
    let dir = evenkeel_upstream::build(&programs, print_line)?;
    print_line(&format!("executables are in {}", dir.display()));
    Ok(())
}

fn start(controllers: bool) -> Result<(), Box<dyn Error>> {
    let binaries = locate()?;
    let mut options = UpstreamOptions::default();
    options.controllers = controllers;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = runtime.block_on(Cluster::start(&binaries, &options))?;
    print_line(&format!("ready at https://{}", cluster.address()));
    print_line(&format!("export KUBECONFIG={}", cluster.kubeconfig().display()));
    print_line("Press Enter or Ctrl-C to stop.");
    let mut byte = [0];
    // Ctrl-C kills this process; the process guards then stop the programs.
    let _ = std::io::stdin().read(&mut byte);
    drop(cluster);
    Ok(())
}

fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
