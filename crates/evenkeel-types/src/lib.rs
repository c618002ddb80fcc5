//! What Kubernetes knows of its built-in types.
