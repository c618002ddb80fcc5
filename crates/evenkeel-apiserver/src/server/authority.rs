//! The server's own certificate authority, generated or loaded on first use.

use std::sync::Arc;

use evenkeel_pki::certificates::{self, Authority};

use super::{ApiServer, ServeError};

impl ApiServer {
    /// Returns the certificate of the server's own authority in PEM form, which clients verify the
    /// server with.
    ///
    /// # Errors
    ///
    /// If the authority cannot be loaded or generated.
    pub fn certificate_authority_pem(&self) -> Result<String, ServeError> {
        Ok(self.authority()?.certificate_pem())
    }

    /// Returns the server's own certificate authority: clients authenticate with certificates that
    /// it signs.
    ///
    /// # Errors
    ///
    /// If the authority cannot be loaded or generated.
    pub fn authority(&self) -> Result<Arc<Authority>, certificates::Error> {
        let mut authority = self.authority.lock();
        if let Some(authority) = &*authority {
            return Ok(authority.clone());
        }
        let now = self.core.clock_rng.now().as_second().unsigned_abs();
        let created = Arc::new(match &self.certificates {
            Some(directory) => Authority::load_or_generate(directory, "evenkeel", now)?,
            None => Authority::generate("evenkeel", now)?,
        });
        *authority = Some(created.clone());
        Ok(created)
    }
}
