//! Sets of completion indexes in the format of the Job status: `1,3-5,7`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(BTreeSet<u32>);

impl Indexes {
    /// Parses the indexes below `limit`. Invalid parts are ignored.
    pub(super) fn parse(text: &str, limit: u32) -> Self {
        let mut indexes = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                continue;
            };
            indexes.extend(first..last.saturating_add(1).min(limit));
        }
        Self(indexes)
    }

    pub(super) fn extend(&mut self, indexes: impl IntoIterator<Item = u32>) {
        self.0.extend(indexes);
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.0.contains(&index)
    }

    /// Returns how many of them are in the other set.
    pub(super) fn count_in(&self, other: &Self) -> usize {
        self.0.intersection(&other.0).count()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => runs.push((index, index)),
            }
        }
        for (at, (first, last)) in runs.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Two consecutive indexes are written separately.
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_ranges_round_trip() {
        let text = "1,3-5,7,8";
        let indexes = Indexes::parse(text, 100);
        assert_eq!(indexes.len(), 6);
        assert_eq!(indexes.to_string(), text);
        assert_eq!(Indexes::parse(text, 5).to_string(), "1,3,4");
        assert_eq!(Indexes::parse("x,2-,4294967295-1", 10).to_string(), "");
    }
}
