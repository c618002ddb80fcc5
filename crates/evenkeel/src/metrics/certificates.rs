//! Metrics of certificates that are read from files, by controller-runtime's names.

use super::{Counter, Define};

/// The metrics of all watched certificates.
#[derive(Clone, Debug)]
pub(crate) struct CertificateMetrics {
    reads: Counter,
    errors: Counter,
}

impl CertificateMetrics {
    pub(super) fn new(define: &Define) -> Self {
        Self {
            reads: define.counter(
                "certwatcher_read_certificate_total",
                "How often a certificate was read from its files.",
            ),
            errors: define.counter(
                "certwatcher_read_certificate_errors_total",
                "How often reading a certificate from its files failed.",
            ),
        }
    }

    /// Counts a read of a certificate, and whether it failed.
    pub(crate) fn read(&self, ok: bool) {
        self.reads.inc();
        if !ok {
            self.errors.inc();
        }
    }
}
