//! `#[derive(CheckedSchema)]`: attributes of a schema that would be dropped are compile errors.
//!
//! `schemars` ignores an attribute that does not fit the type of its field, and an API server drops
//! keywords that it does not support. This macro generates no code; it only reports such attributes.
//! A type that is not known by its name, such as a struct or an alias, is not checked.

mod attribute;

mod check;

mod shape;

use proc_macro::TokenStream;

/// Checks the `schemars` attributes of a struct or an enum and of its fields.
///
/// See [`evenkeel::schema`](https://docs.rs/evenkeel) for examples.
#[proc_macro_derive(CheckedSchema)]
pub fn checked_schema(input: TokenStream) -> TokenStream {
    let errors = match syn::parse(input) {
        Ok(input) => check::check(&input),
        Err(error) => vec![error],
    };
    errors.iter().map(syn::Error::to_compile_error).map(TokenStream::from).collect()
}
