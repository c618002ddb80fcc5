//! How many files the process may open; each connection is one.

/// Raises the soft limit of open files to the hard one, as programs written in Go do when they
/// start. Returns the limit in force. For executables: the limit is the whole process's.
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

/// How many files the process may open.
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
