//! Sequences from a seed, weighted by what operators do.
//!
//! A sequence works on two or three kinds and a handful of names, so that its steps meet. It knows
//! only roughly what exists: a step that finds its object gone is as good as one that does not.

mod bad;

pub mod definitions;

mod kinds;

mod random;

mod schema;

mod steps;

pub use random::Random;

use crate::sequence::Sequence;
use steps::Writer;

/// The sequence called `seed-{seed}-{number}`.
pub fn sequence(seed: u64, number: u64) -> Sequence {
    let mut random = Random::new(seed, number);
    let mut writer = Writer::new(&mut random);
    writer.write();
    let steps = writer.finish();
    Sequence {
        name: format!("seed-{seed}-{number}"),
        about: format!("generated from seed {seed}, number {number}"),
        steps,
    }
}

/// The sequence of that name, if it is the name of a generated one.
pub fn by_name(name: &str) -> Option<Sequence> {
    let (seed, number) = name.strip_prefix("seed-")?.split_once('-')?;
    Some(sequence(seed.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_sequence_again() {
        let made = sequence(7, 3);
        assert!(made.steps.len() >= 30, "{}", made.steps.len());
        assert_eq!(by_name(&made.name), Some(made));
        assert_eq!(by_name("crud"), None);
    }

    #[test]
    fn every_generated_sequence_survives_its_file() {
        for number in 0..50 {
            let made = sequence(1, number);
            assert_eq!(Sequence::parse(&made.name, &made.render()).unwrap(), made);
        }
    }
}
