//! The identity in a client certificate: user from the common name, groups from the organizations.
//!
//! Runs after the listener has verified the chain; a subject alone proves nothing.

use evenkeel_pki::x509::{self, Error};

use super::{CREDENTIAL_ID, Identity};
use crate::digest;

/// Returns the identity in the certificate `certificate` (DER).
///
/// Returns `None` if the subject has no common name: such a certificate does not authenticate, and
/// the request continues as if it had not been sent.
pub fn identity(certificate: &[u8]) -> Result<Option<Identity>, Error> {
    let Some(user) = x509::user(certificate)? else { return Ok(None) };
    let mut identity = Identity::authenticated(user.name, user.groups);
    identity.uid = user.uid;
    identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential_id(certificate)]);
    Ok(Some(identity))
}

fn credential_id(certificate: &[u8]) -> String {
    format!("X509SHA256={}", digest::hex(&digest::sha256(certificate)))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    use super::*;

    #[test]
    fn identity_carries_uid_and_the_digest_of_the_certificate() {
        let pem = include_str!("fixtures/uid.pem");
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let identity = identity(&certificate).unwrap().unwrap();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("carol", "7f2c"));
        assert_eq!(identity.groups, ["system:authenticated"]);
        // openssl x509 -in uid.pem -noout -fingerprint -sha256
        assert_eq!(
            identity.extra[CREDENTIAL_ID],
            ["X509SHA256=5e1deb3def8e22923e623c10c2867379519b927e0e3a564f03f36c125ea74ca0"]
        );
    }
}
