//! From the API server: the full state of one type in one scope, then every change to it.
