//! Attributes as lists of parts: `schemars(length(min = 1), title = "T")` has two.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, Meta};

/// A part of an attribute: `name`, `name = value` or `name(arguments)`.
pub(crate) struct Part {
    /// Without quotes if it is a string, as in `extend("minLength" = 1)`.
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) arguments: TokenStream,
}

/// Returns the parts of all attributes named `name`.
pub(crate) fn parts(attributes: &[Attribute], name: &str) -> Vec<Part> {
    let lists = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident(name) => Some(list.tokens.clone()),
        _ => None,
    });
    lists.flat_map(split).collect()
}

/// Splits tokens at commas. Groups such as `(a, b)` are single tokens, so their commas do not count.
pub(crate) fn split(tokens: TokenStream) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(first) = tokens.next() {
        let mut arguments = TokenStream::new();
        for token in tokens.by_ref() {
            match token {
                TokenTree::Punct(comma) if comma.as_char() == ',' => break,
                TokenTree::Group(group) if arguments.is_empty() => arguments = group.stream(),
                _ => {}
            }
        }
        let name = first.to_string().trim_matches('"').to_owned();
        parts.push(Part { name, span: first.span(), arguments });
    }
    parts
}
