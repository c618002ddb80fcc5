//! The words of the ecosystem, in code as in prose.
//!
//! `words.txt` lists words that are not used, each with what to write instead. Identifiers are
//! split at underscores and capitals, so that a name is held to the same list as a sentence.

use std::collections::BTreeMap;

use super::Tree;

/// The words: `word: what to write instead`.
const WORDS: &str = "words.txt";

/// The exceptions: `path word reason`; a path that ends with `/` covers the folder.
const EXCEPTIONS: &str = "word-exceptions.txt";

struct Exception {
    path: String,
    word: String,
    used: bool,
}

impl Exception {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split_whitespace();
        let (path, word) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        parts.next().map(|_| Self { path, word, used: false })
    }

    fn covers(&self, path: &str, word: &str) -> bool {
        let inside = match self.path.ends_with('/') {
            true => path.starts_with(&self.path),
            false => path == self.path,
        };
        inside && self.word == word
    }
}

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    let mut words = BTreeMap::new();
    for line in tree.list(WORDS) {
        match line.split_once(": ") {
            Some((word, instead)) => drop(words.insert(word.to_owned(), instead.to_owned())),
            None => findings.push(format!("{WORDS}: not `word: what to write instead`: {line}")),
        }
    }
    let mut exceptions = Vec::new();
    for line in tree.list(EXCEPTIONS) {
        match Exception::parse(&line) {
            Some(exception) => exceptions.push(exception),
            None => findings.push(format!("{EXCEPTIONS}: not `path word reason`: {line}")),
        }
    }
    for source in &tree.sources {
        for (number, line) in source.text.lines().enumerate() {
            for word in split(line) {
                let Some(instead) = words.get(&word) else { continue };
                let covered = exceptions.iter_mut().find(|it| it.covers(&source.path, &word));
                match covered {
                    Some(exception) => exception.used = true,
                    None => findings.push(format!(
                        "{}:{}: \"{word}\": {instead}",
                        source.path,
                        number + 1
                    )),
                }
            }
        }
    }
    let unused = exceptions.iter().filter(|exception| !exception.used);
    findings.extend(unused.map(|it| format!("{EXCEPTIONS}: unused: {} {}", it.path, it.word)));
    findings
}

/// The words of a line in lower case: `HashMap::get_or_insert` has five of them.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in line.chars() {
        let begins = !letter.is_alphabetic() || letter.is_uppercase() && after_lower;
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if letter.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        after_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
