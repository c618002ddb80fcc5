//! The example operator.
//!
//! [`operator`] is the operator itself, and the code to copy: the `AppService` type and its
//! reconciler. [`dns`] is a fake external system. [`scenario`] uses the operator as a user would
//! and checks the results.

pub mod operator;

pub mod dns;

pub mod scenario;
