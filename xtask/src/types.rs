//! `types`: generates the table of built-in types that `evenkeel-types` compiles in.
//!
//! Joins three sources: `gofacts/facts.txt` (Go struct tags), `openapi-v2.json` (required fields,
//! list and map types) and `protobuf-fields.json` (field numbers and messages). Where two sources
//! contain the same fact they must agree, or nothing is written.

mod facts;
mod join;
mod print;
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
    #[error("facts.txt line {line}: {reason}")]
    Facts { line: usize, reason: String },
    #[error("the sources disagree:\n{0}")]
    Disagreement(String),
}

/// Generates the table and writes it into the `evenkeel-types` crate.
pub(crate) fn write() -> Result<(), Error> {
    let table = generate(&data_dir())?;
    let path = table_path();
    fs::write(&path, table).map_err(|source| Error::Io { path, source })
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
