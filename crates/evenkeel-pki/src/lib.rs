//! Certificates and kubeconfig of a Kubernetes API server.
//!
//! [`certificates`] issues, loads and saves certificates, [`kubeconfig`] writes the file that a client
//! connects with, [`signing_key`] keeps the key of service account tokens, [`tls`] configures
//! servers, and [`x509`] reads certificates: the user in the subject, validity and public key.
//! The wall clock is injected: the current time is an argument.
//!
//! ```
//! use evenkeel_pki::MASTERS;
//! use evenkeel_pki::certificates::Authority;
//! use evenkeel_pki::kubeconfig::{Credential, Kubeconfig};
//!
//! # fn main() -> Result<(), evenkeel_pki::certificates::Error> {
//! let now_unix = 1_800_000_000;
//! let authority = Authority::generate("my-cluster", now_unix)?;
//! let admin = authority.issue_client("admin", Some(MASTERS))?;
//! let kubeconfig = Kubeconfig {
//!     context: "my-cluster",
//!     server: "https://127.0.0.1:6443",
//!     authority_pem: &authority.certificate_pem(),
//!     credential: Credential::Certificate(&admin),
//! };
//! assert!(kubeconfig.render().contains("client-certificate-data"));
//! # Ok(())
//! # }
//! ```

pub mod certificates;

pub mod kubeconfig;

pub mod signing_key;

pub mod tls;

pub mod x509;

#[cfg(test)]
mod test_support;

/// The group that is always authorized.
pub const MASTERS: &str = "system:masters";
