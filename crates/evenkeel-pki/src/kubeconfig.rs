//! The kubeconfig of a running server.
//!
//! It has one cluster, one user and one context. Every string is quoted and escaped, and the file
//! is written atomically.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::certificates::KeyedCertificate;

/// What a client needs to connect and authenticate.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// The name of the context, and of the cluster and user it joins.
    pub context: &'a str,
    /// The server's address, such as `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The authority to verify the server with, in PEM form.
    pub authority_pem: &'a str,
    /// The client's credential.
    pub credential: Credential<'a>,
}

/// The credential of a client.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Credential<'a> {
    /// A client certificate and its key.
    Certificate(&'a KeyedCertificate),
    /// A bearer token.
    Token(&'a str),
}

impl Kubeconfig<'_> {
    /// Returns the content of the file.
    pub fn render(&self) -> String {
        let context = quote(self.context);
        let server = quote(self.server);
        let authority = STANDARD.encode(self.authority_pem);
        let user = match self.credential {
            Credential::Certificate(certificate) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                STANDARD.encode(certificate.certificate_pem()),
                STANDARD.encode(certificate.key_pem()),
            ),
            Credential::Token(token) => format!("token: {}", quote(token)),
        };
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: {context}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {context}
  user:
    {user}
contexts:
- name: {context}
  context:
    cluster: {context}
    user: {context}
current-context: {context}
preferences: {{}}
"
        )
    }

    /// Writes the file with owner-only permissions. Concurrent readers of `path` see the old
    /// content or the new one, never a part.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_atomically(path, self.render().as_bytes(), 0o600)
    }
}

/// Keeps keys and tokens out of logs.
impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Certificate(_) => "Certificate(..)",
            Self::Token(_) => "Token(..)",
        })
    }
}

/// Atomically replaces the file at `path` by one with `content` and the permissions `mode`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let (mut file, temporary) = create_beside(path, mode)?;
    let result = file.write_all(content).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is reported; a leftover temporary file is harmless.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Creates a temporary file in the directory of `path`: a rename is atomic only within one file
/// system.
fn create_beside(path: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{number}", std::process::id()));
        let temporary = path.with_file_name(temporary);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary) {
            // A leftover of a process with the same id, as happens in containers.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|file| (file, temporary)),
        }
    }
}

/// Quotes `text` as a double-quoted YAML scalar in ASCII.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for unit in text.chars() {
        match unit {
            '"' | '\\' => quoted.extend(['\\', unit]),
            ' '..='~' => quoted.push(unit),
            _ => {
                let code = u32::from(unit);
                write!(quoted, "\\U{code:08x}").expect("writing to a String cannot fail");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
