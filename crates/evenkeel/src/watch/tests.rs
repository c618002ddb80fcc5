//! The reflector against a server that does as it is told, and one that fails at random.

use super::*;

#[expect(dead_code, reason = "that it compiles is the claim")]
fn a_reflector_can_run_on_any_thread<S: Sink>(reflector: Reflector, sink: &mut S) -> impl Send {
    reflector.run(sink)
}
