//! A Kubernetes API server in one process.
