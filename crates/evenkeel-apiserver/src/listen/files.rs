//! The limit of open files; each connection is one.

/// Raises the soft limit of open files to the hard limit, as Go programs do when they start.
/// Returns the limit in force. For executables: the limit applies to the whole process.
pub fn raise_open_files_limit() -> u64 {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if limit.current != limit.maximum
            && let Err(error) = setrlimit(Resource::Nofile, raised)
        {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    open_files_limit()
}

/// Returns the limit of open files.
pub(super) fn open_files_limit() -> u64 {
    #[cfg(unix)]
    {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
    }
    #[cfg(not(unix))]
    {
        u64::MAX
    }
}
