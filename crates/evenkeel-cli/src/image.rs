//! `evenkeel image`: a container image from a static executable, without a container runtime.

mod elf;

mod oci;

mod tar;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::output;

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel image --binary target/release/web-operator && docker load < web-operator.tar
  evenkeel image --dockerfile > Dockerfile")]
pub(crate) struct Image {
    /// Executable to put into the image; by default `cargo build --release` builds a static one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// File to write [default: the name of the executable with .tar]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name and tag of the image [default: the name of the executable, tag latest]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<String>,
    /// Print a Dockerfile for the same image instead
    #[arg(long)]
    dockerfile: bool,
}

/// Builds in two stages; the image contains only the executable, as an image of `evenkeel image`.
const DOCKERFILE: &str = "\
FROM rust:1 AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target $(rustc -vV | sed -n 's/host: //p') \\
 && cp target/*/release/NAME /operator

FROM scratch
COPY --from=build /operator /operator
USER 65532:65532
ENTRYPOINT [\"/operator\"]
";

pub(crate) fn run(image: &Image) -> anyhow::Result<()> {
    if image.dockerfile {
        let name = package_name().unwrap_or_else(|| "operator".to_owned());
        return output::print(&DOCKERFILE.replace("NAME", &name));
    }
    let binary = match &image.binary {
        Some(path) => path.clone(),
        None => build()?,
    };
    let bytes =
        std::fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let name = binary.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let architecture = match elf::inspect(&bytes) {
        Ok(found) if found.is_static => found.architecture,
        Ok(_) => bail!(
            "{} is dynamically linked, and the image has no libraries\n\
             hint: build it with RUSTFLAGS='-C target-feature=+crt-static' and --target, or for a \
             musl target",
            binary.display()
        ),
        Err(error) => return Err(error.context(format!("{}", binary.display()))),
    };
    let tag = image.tag.clone().unwrap_or_else(|| format!("{name}:latest"));
    let archive = oci::archive(&oci::Contents { executable: &bytes, architecture, tag: &tag })?;
    let path = image.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar")));
    std::fs::write(&path, &archive).with_context(|| format!("cannot write {}", path.display()))?;
    output::progress(&format!(
        "Wrote {} ({:.1} MB): {tag} for linux/{architecture}. Load it with: docker load < {}",
        path.display(),
        archive.len() as f64 / 1e6,
        path.display(),
    ));
    Ok(())
}

/// Builds a static executable of the package in the current directory.
fn build() -> anyhow::Result<PathBuf> {
    let Some(name) = package_name() else {
        bail!(
            "there is no Cargo.toml with a package in the current directory\n\
             hint: run this in the package of the operator, or pass --binary FILE"
        );
    };
    let host = host()?;
    output::progress(&format!("Building {name} for {host}, statically linked."));
    let status = Command::new("cargo")
        .args(["build", "--release", "--bin", &name, "--target", &host])
        // With --target they do not apply to build scripts and procedural macros.
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the build failed");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(target_directory, PathBuf::from);
    Ok(target.join(host).join("release").join(name))
}

/// Returns the target directory of the workspace around the current directory.
fn target_directory() -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let is_root = |directory: &&Path| directory.join("Cargo.lock").is_file();
    current.ancestors().find(is_root).unwrap_or(&current).join("target")
}

/// Returns the target triple of the compiler's host.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not report its host")
}

/// Returns the name of the package in the current directory.
pub(crate) fn package_name() -> Option<String> {
    let manifest = std::fs::read_to_string("Cargo.toml").ok()?;
    let package = manifest.split_once("[package]")?.1;
    let package = package.split_once("\n[").map_or(package, |(package, _)| package);
    package.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "name").then(|| value.trim().trim_matches('"').to_owned())
    })
}
