//! `types`: generates the table of built-in types that `evenkeel-types` compiles in, and that of the
//! names in error messages (`printed.rs`).
//!
//! Joins three sources: `gofacts/facts.txt` (Go struct tags), `openapi-v2.json` (required fields,
//! list and map types) and `protobuf-fields.json` (field numbers and messages). Where two sources
//! contain the same fact they must agree, or nothing is written.

mod facts;
mod join;
mod print;
mod printed;
#[cfg(test)]
mod tests;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Why the table cannot be generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {source}")]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{file} line {line}: {reason}")]
    Facts { file: &'static str, line: usize, reason: String },
    #[error("the sources disagree:\n{0}")]
    Disagreement(String),
}

/// Generates both tables and writes them into the crates that use them.
pub(crate) fn write() -> Result<(), Error> {
    let tables =
        [(table_path(), generate(&data_dir())?), (printed_table_path(), generate_printed()?)];
    for (path, table) in tables {
        fs::write(&path, table).map_err(|source| Error::Io { path, source })?;
    }
    Ok(())
}

/// Returns the text of the table of printed names.
pub(crate) fn generate_printed() -> Result<String, Error> {
    printed::generate(&read(&root().join("xtask/gofacts/printed.txt"))?)
}

/// Returns the text of the table.
pub(crate) fn generate(data: &Path) -> Result<String, Error> {
    let facts = facts::parse(&read(&root().join("xtask/gofacts/facts.txt"))?)?;
    let openapi = read_json(&data.join("openapi-v2.json"))?;
    let protobuf = read_json(&data.join("protobuf-fields.json"))?;
    let packages = join::join(facts, &openapi, &protobuf)?;
    Ok(print::print(&packages))
}

/// Returns the directory of the published Kubernetes documents, which are not in the repository.
pub(crate) fn data_dir() -> PathBuf {
    match env::var_os("EVENKEEL_K8S_DATA") {
        Some(path) => path.into(),
        None => root().join("../shared/data/kubernetes-1.36"),
    }
}

pub(crate) fn table_path() -> PathBuf {
    root().join("crates/evenkeel-types/src/table/types.txt")
}

pub(crate) fn printed_table_path() -> PathBuf {
    root().join("crates/evenkeel-kinds/src/validate/printed/table.rs")
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn read_json(path: &Path) -> Result<Value, Error> {
    serde_json::from_str(&read(path)?)
        .map_err(|source| Error::Json { path: path.to_owned(), source })
}
