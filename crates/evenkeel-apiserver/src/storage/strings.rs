//! Lists of short strings in one allocation: a store contains millions of labels.

/// An immutable, packed list of strings. An empty one does not allocate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: Box<str>,
    /// The end of each string in `text`.
    ends: Box<[u32]>,
}

/// Labels, sorted by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Strings);

// === impl Strings ===

impl Strings {
    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.text[start..end])
    }

    /// Iterates over the strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let piece = &self.text[start..end as usize];
            start = end as usize;
            piece
        })
    }

    /// Returns the bytes allocated on the heap.
    pub(super) fn heap_size(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&*self.ends)
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(pieces: I) -> Self {
        let mut text = String::new();
        let ends: Vec<u32> = pieces
            .into_iter()
            .map(|piece| {
                text.push_str(piece.as_ref());
                text.len() as u32
            })
            .collect();
        Self { text: text.into(), ends: ends.into() }
    }
}

impl std::fmt::Debug for Strings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

// === impl Labels ===

impl Labels {
    /// Packs `pairs`, sorting them by key.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        Self(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())
    }

    /// Returns the value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find_map(|(k, value)| (k == key).then_some(value))
    }

    /// Iterates over the labels, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut pieces = self.0.iter();
        std::iter::from_fn(move || Some((pieces.next()?, pieces.next()?)))
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Returns whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns keys and values alternately, as they are logged.
    pub(super) fn as_strings(&self) -> &Strings {
        &self.0
    }

    /// The inverse of [`as_strings`](Self::as_strings).
    pub(super) fn from_strings(strings: Strings) -> Self {
        Self(strings)
    }
}

impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_strings_round_trip() {
        let packed: Strings = ["a", "", "ünï"].into_iter().collect();
        assert_eq!(packed.iter().collect::<Vec<_>>(), ["a", "", "ünï"]);
        assert_eq!(
            [packed.get(0), packed.get(1), packed.get(2)],
            [Some("a"), Some(""), Some("ünï")]
        );
        assert_eq!(packed.get(3), None);
        assert_eq!(packed.len(), 3);
        assert!(Strings::default().is_empty());
    }

    #[test]
    fn labels_are_sorted_and_found_by_key() {
        let labels = Labels::new([("tier", "web"), ("app", "shop")]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "shop"), ("tier", "web")]);
        assert_eq!(labels.get("tier"), Some("web"));
        // A value is not a key.
        assert_eq!(labels.get("shop"), None);
        assert_eq!(labels.len(), 2);
    }
}
