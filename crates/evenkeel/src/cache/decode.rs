//! Converts the JSON of an object to an entry: removes managedFields, transforms, parses the
//! metadata.
//!
//! All objects are converted here, from lists, watches and responses of writes, so that an entry
//! does not depend on its source.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::entry::{Entry, Form};
use super::meta::Meta;
use super::options::TypeOptions;
use super::scanner::{self, Layout};
use crate::key::Key;
use crate::kind::Kind;
use crate::nulls;

/// The conversion of the objects of one type.
#[derive(Debug)]
pub(super) struct EntryDecoder {
    kind: Kind,
    options: TypeOptions,
    /// The start of an object without apiVersion and kind.
    prefix: Box<[u8]>,
}

/// An object that cannot be cached.
#[derive(Debug)]
pub(super) struct Rejected {
    /// Its metadata, if it was readable.
    pub(super) meta: Option<Box<Meta>>,
    pub(super) problem: String,
}

impl Rejected {
    pub(super) fn key(&self) -> Option<&Key> {
        self.meta.as_ref().map(|meta| meta.key())
    }
}

impl From<String> for Rejected {
    fn from(problem: String) -> Self {
        Self { meta: None, problem }
    }
}

impl EntryDecoder {
    pub(super) fn new(kind: Kind, options: TypeOptions) -> Self {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let prefix = format!(
            "{{\"apiVersion\":{},\"kind\":{},",
            quoted(&kind.api_version()),
            quoted(kind.kind())
        );
        Self { kind, options, prefix: prefix.into_bytes().into() }
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn options(&self) -> &TypeOptions {
        &self.options
    }

    /// Converts the object in `raw`.
    pub(super) fn entry(&self, raw: &[u8]) -> Result<Entry, Rejected> {
        let (mut body, at) = self.body(raw)?;
        let mut meta = Meta::parse(&body, at)?;
        if let Some(transform) = &self.options.transform {
            let changed = catch_unwind(AssertUnwindSafe(|| transform.apply(&body)))
                .unwrap_or_else(|_| Err("panicked".to_owned()))
                .and_then(|changed| {
                    let (body, at) = self.body(&changed)?;
                    let after = Meta::parse(&body, at)?;
                    let same = after.key == meta.key
                        && after.uid == meta.uid
                        && after.version == meta.version;
                    if !same {
                        return Err("changed name, namespace, uid or resourceVersion".to_owned());
                    }
                    Ok((body, after))
                });
            (body, meta) = match changed {
                Ok(changed) => changed,
                Err(problem) => {
                    let problem = format!("transform failed: {problem}");
                    return Err(Rejected { meta: Some(Box::new(meta)), problem });
                }
            };
        }
        self.finish(meta, body)
    }

    /// Parses only the metadata of the object in `raw`.
    pub(super) fn meta(&self, raw: &[u8]) -> Result<Meta, Rejected> {
        let (body, at) = self.body(raw)?;
        Ok(Meta::parse(&body, at)?)
    }

    /// Returns whether the object in `raw` is of this kind or has no kind.
    pub(super) fn is_of_kind(&self, raw: &[u8]) -> bool {
        match scanner::kind(raw) {
            Ok(Some(kind)) => {
                let named = serde_json::from_slice::<Option<Cow<'_, str>>>(kind).ok().flatten();
                named.is_none_or(|kind| kind == self.kind.kind())
            }
            Ok(None) | Err(_) => true,
        }
    }

    fn finish(&self, mut meta: Meta, mut body: Vec<u8>) -> Result<Entry, Rejected> {
        let form = self.options.form();
        let decoder = self.options.view.or(self.options.eager);
        let typed = decoder.map(|decoder| (decoder.decode)(&body)).transpose();
        let typed = match typed {
            Ok(typed) => typed,
            // An eager object keeps its JSON, and a read fails with the error.
            Err(error) if form == Form::Whole => {
                let error = nulls::message(&self.kind, &error);
                tracing::warn!(kind = %self.kind, key = %meta.key, error, "decoding failed");
                None
            }
            Err(error) => {
                let error = nulls::message(&self.kind, &error);
                let problem = format!("failed to decode the view: {error}");
                return Err(Rejected { meta: Some(Box::new(meta)), problem });
            }
        };
        if let Form::View(_) = form {
            let at = meta.annotations.start as usize..meta.annotations.end as usize;
            body = body.get(at).unwrap_or_default().to_vec();
            meta.annotations = 0..meta.annotations.end - meta.annotations.start;
        }
        let entry = Entry::new(self.kind.clone(), meta, body.into_boxed_slice(), form);
        if let Some(typed) = typed {
            entry.pin(typed);
        }
        Ok(entry)
    }

    /// Returns the text to store and the position of its metadata.
    fn body(&self, raw: &[u8]) -> Result<(Vec<u8>, Range<usize>), String> {
        let layout = scanner::layout(raw).map_err(|error| error.to_string())?;
        if layout.spaced || raw.first() != Some(&b'{') {
            let raw = scanner::compact(raw);
            let layout = scanner::layout(&raw).map_err(|error| error.to_string())?;
            return Ok(self.assemble(&raw, layout));
        }
        Ok(self.assemble(raw, layout))
    }

    fn assemble(&self, raw: &[u8], layout: Layout) -> (Vec<u8>, Range<usize>) {
        let Layout { metadata, managed, typed, .. } = layout;
        let managed = managed.filter(|_| !self.options.keep_managed_fields);
        let cut = managed.unwrap_or(metadata.end..metadata.end);
        let length = metadata.len() - cut.len();
        if self.options.metadata_only {
            const NAME: &[u8] = b"\"metadata\":";
            let parts: [&[u8]; 5] = [
                &self.prefix,
                NAME,
                &raw[metadata.start..cut.start],
                &raw[cut.end..metadata.end],
                b"}",
            ];
            let start = self.prefix.len() + NAME.len();
            return (parts.concat(), start..start + length);
        }
        // The opening brace is in the prefix.
        let (prefix, skip): (&[u8], _) = if typed { (&[], 0) } else { (&self.prefix, 1) };
        let body = [prefix, &raw[skip..cut.start], &raw[cut.end..]].concat();
        let start = prefix.len() + metadata.start - skip;
        (body, start..start + length)
    }
}

#[cfg(test)]
impl Entry {
    /// Returns the cached form of an object in JSON.
    pub(crate) fn of(kind: Kind, raw: &serde_json::Value) -> Self {
        let decoder = EntryDecoder::new(kind, TypeOptions::new());
        decoder.entry(raw.to_string().as_bytes()).unwrap()
    }
}
