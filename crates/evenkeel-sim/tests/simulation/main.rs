//! Operators under simulation: correct ones, which must pass, and ones with a planted bug, which
//! must be found and named.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod by_hand;

mod controllers;

mod faults;

mod good;

mod operators;

mod orders;

mod planted;
