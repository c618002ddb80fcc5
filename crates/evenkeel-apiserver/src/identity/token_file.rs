//! Static bearer tokens, in the file format of `--token-auth-file`.
//!
//! One record per line: `token,user,uid,"group1,group2"`, the groups optional. The file is read
//! once. An invalid record prevents the server from starting, because a silently missing user is
//! worse. Looking up a token takes the same time whichever one matches.

mod csv;

use std::{fmt, fs, hint, io, path::Path};

pub use self::csv::Error as SyntaxError;
use self::csv::Records;
use super::Identity;

/// The tokens of one file and their identities.
#[derive(Clone, Default)]
pub struct TokenFile {
    entries: Vec<Entry>,
}

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    #[error("unable to read token file '{path}'")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is not CSV.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// A record lacks a mandatory column.
    #[error(
        "token file '{path}' must have at least 3 columns (token, user name, user uid), found {found}"
    )]
    TooFewColumns {
        /// The file.
        path: String,
        /// The columns of the offending record.
        found: usize,
    },
}

#[derive(Clone)]
struct Entry {
    token: String,
    identity: Identity,
}

impl TokenFile {
    /// Reads the tokens of the file at `path`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|source| Error::Read { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    /// Parses the tokens in `text`; `path` names the file in errors.
    pub fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let mut entries: Vec<Entry> = Vec::new();
        for (number, record) in (1..).zip(Records::new(text)) {
            let record = record?;
            let [token, user, uid, rest @ ..] = record.as_slice() else {
                return Err(Error::TooFewColumns { path: path.to_owned(), found: record.len() });
            };
            if token.is_empty() {
                tracing::warn!(path, record = number, "skipping an empty token");
                continue;
            }
            let groups = rest.first().into_iter().flat_map(|groups| groups.split(','));
            let mut identity = Identity::authenticated(user, groups);
            identity.uid.clone_from(uid);
            match entries.iter_mut().find(|entry| entry.token == *token) {
                Some(earlier) => {
                    tracing::warn!(
                        path,
                        record = number,
                        "duplicate token replaces an earlier one"
                    );
                    earlier.identity = identity;
                }
                None => entries.push(Entry { token: token.clone(), identity }),
            }
        }
        Ok(Self { entries })
    }

    /// Returns the identity that `token` belongs to.
    pub fn identity(&self, token: &str) -> Option<&Identity> {
        // Every entry is compared, so that timing does not reveal which of them almost matched.
        let mut found = None;
        for entry in &self.entries {
            if equal(entry.token.as_bytes(), token.as_bytes()) {
                found = Some(&entry.identity);
            }
        }
        found
    }

    /// Returns the number of usable tokens.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no usable token.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Prints the users only: tokens are secrets.
impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.identity)).finish()
    }
}

/// Compares in constant time; only a difference in length is visible in the timing.
fn equal(ours: &[u8], theirs: &[u8]) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    let differences = ours.iter().zip(theirs).fold(0, |sum, (a, b)| hint::black_box(sum | (a ^ b)));
    differences == 0
}

#[cfg(test)]
mod tests;
