//! Sequences from a seed, weighted by what operators do.
//!
//! A mixed sequence works on two or three kinds and a handful of names, so that its steps meet. It
//! knows only roughly what exists: a step that finds its object gone is as good as one that does
//! not. The other [`Theme`]s go deeper into what needs a run-up, such as a definition's life.

mod bad;

pub mod shared_crds;

mod kinds;

mod mutate;

mod random;

mod schema;

mod steps;

mod themes;

pub use random::Random;
pub use themes::Theme;

use crate::sequence::Sequence;

/// The sequence with that number, of the theme whose turn it is.
pub fn sequence(seed: u64, number: u64) -> Sequence {
    themed(Theme::of(number), seed, number)
}

/// The sequence called `{theme}-{seed}-{number}`; mixed ones are called `seed-…`.
pub fn themed(theme: Theme, seed: u64, number: u64) -> Sequence {
    let mut random = Random::new(seed, number);
    let steps = theme.generate(&mut random);
    Sequence {
        name: format!("{}-{seed}-{number}", theme.name()),
        about: format!("generated from seed {seed}, number {number}"),
        steps,
        live: false,
    }
}

/// The sequence of that name, if it is the name of a generated one.
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
            let made = themed(theme, 7, 3);
            assert!(made.steps.len() >= 30, "{}: {}", made.name, made.steps.len());
            assert_eq!(by_name(&made.name), Some(made));
        }
        assert_eq!(by_name("crud"), None);
    }

    #[test]
    fn generated_sequences_round_trip_through_yaml() {
        for number in 0..60 {
            let made = sequence(1, number);
            assert_eq!(Sequence::parse(&made.name, &made.render()).unwrap(), made);
        }
    }

    #[test]
    fn every_theme_is_generated() {
        for theme in Theme::ALL {
            assert!((0..20).any(|number| Theme::of(number) == theme), "{theme:?}");
        }
    }
}
