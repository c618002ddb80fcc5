//! Libraries: functions of the language's standard, of cel-go's extensions and of Kubernetes.
//!
//! Each file returns its [`Function`](crate::Function)s; Kubernetes' are in `library/kubernetes/`.
