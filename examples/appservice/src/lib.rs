//! The example operator, end to end.
//!
//! [`operator`] is all there is to write, and the code to copy: what an `AppService` is and what is
//! done about it. [`dns`] stands in for a system outside of the cluster. [`scenario`] plays what people
//! do with an operator, and looks whether it answers.

pub mod operator;

pub mod dns;

pub mod scenario;
