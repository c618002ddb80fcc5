//! Fuzz entry points: one function for each kind of input, called with arbitrary bytes.
//!
//! They panic on a violated invariant. The test `fuzz.rs` and the targets in `fuzz/` call them.

#![expect(clippy::unwrap_used, reason = "a failure is a finding")]

use evenkeel_pki::x509;

/// DER of a certificate or a request: what is read of it lies within it, and a request that is read
/// is read the same again.
pub(crate) fn x509(data: &[u8]) {
    let user = x509::user(data);
    if let Ok(Some(user)) = &user {
        assert!(!user.name.is_empty());
        // A text of the subject is at most four bytes of UTF-8 for each of its own.
        let read = user.name.len() + user.uid.len() + user.groups.concat().len();
        assert!(read <= 4 * data.len(), "{read} bytes of {}", data.len());
    }
    let _ = x509::is_version_1(data);
    if let Some(validity) = x509::validity(data) {
        let _ = validity.contains(&0);
    }
    if let Ok(info) = x509::public_key_info(data) {
        assert!(info.len() < data.len());
        if let Ok(key) = x509::subject_public_key(info) {
            assert!(key.algorithm.len() + key.bits.len() < info.len());
            let _ = x509::two_integers(key.bits);
        }
        assert_eq!(x509::public_key(data).is_ok(), x509::subject_public_key(info).is_ok());
    }
    let _ = x509::two_integers(data);
    if let Ok(request) = x509::CertificateRequest::from_der(data) {
        let again = x509::CertificateRequest::from_der(data).unwrap();
        assert_eq!(request.common_name(), again.common_name());
        assert_eq!(request.organizations(), again.organizations());
        assert_eq!(request.is_signed(), again.is_signed());
    }
}
