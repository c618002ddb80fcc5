//! Generates sequences from a seed, weighted by what operators do.
//!
//! A mixed sequence uses two or three kinds and a few names, so that its steps interact. It tracks
//! only roughly which objects exist: requests for missing objects are also worth comparing. The
//! other [`Theme`]s cover what needs preparation, such as the lifecycle of a CRD.

mod bad;

pub mod shared;

mod kinds;

mod mutate;

mod random;

mod schema;

mod steps;

mod themes;

pub use random::Random;
pub use themes::Theme;

use crate::sequence::Sequence;

/// Generates the sequence with this number. The number selects the theme.
pub fn sequence(seed: u64, number: u64) -> Sequence {
    themed(Theme::of(number), seed, number)
}

/// Generates the sequence called `{theme}-{seed}-{number}`; mixed ones are called `seed-…`.
pub fn themed(theme: Theme, seed: u64, number: u64) -> Sequence {
    let mut random = Random::new(seed, number);
    let steps = theme.generate(&mut random);
    Sequence {
        name: format!("{}-{seed}-{number}", theme.name()),
        about: format!("generated from seed {seed}, number {number}"),
        steps,
        live: theme.is_live(),
    }
}

/// Generates the sequence with this name; none if it is not the name of a generated sequence.
pub fn by_name(name: &str) -> Option<Sequence> {
    let (rest, number) = name.rsplit_once('-')?;
    let (theme, seed) = rest.rsplit_once('-')?;
    let theme = Theme::ALL.into_iter().find(|known| known.name() == theme)?;
    Some(themed(theme, seed.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_reproduces_the_same_sequence() {
        for theme in Theme::ALL {
            let generated = themed(theme, 7, 3);
            assert!(generated.steps.len() >= 30, "{}: {}", generated.name, generated.steps.len());
            assert_eq!(by_name(&generated.name), Some(generated));
        }
        assert_eq!(by_name("crud"), None);
    }

    #[test]
    fn generated_sequences_round_trip_through_yaml() {
        for number in 0..60 {
            let generated = sequence(1, number);
            assert_eq!(Sequence::parse(&generated.name, &generated.render()).unwrap(), generated);
        }
    }

    #[test]
    fn every_theme_is_generated_by_number() {
        for theme in Theme::ALL {
            assert!((0..24).any(|number| Theme::of(number) == theme), "{theme:?}");
        }
    }
}
