//! Parses `gofacts/facts.txt`. Type expressions stay text.

use std::collections::BTreeMap;

use super::Error;

/// Declarations by package and name.
pub(super) type Facts = BTreeMap<String, BTreeMap<String, Declaration>>;

#[derive(Debug)]
pub(super) enum Declaration {
    /// A named type that is not a struct, with its underlying type expression.
    Alias(String),
    /// A struct that implements `json.Unmarshaler`.
    Custom,
    Struct(Struct),
}

#[derive(Debug, Default)]
pub(super) struct Struct {
    /// `apiVersion` and `kind`.
    pub(super) kinds: Vec<(String, String)>,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// The JSON name, or the Go name of an embedded struct.
    pub(super) name: String,
    pub(super) embedded: bool,
    pub(super) omitempty: bool,
    pub(super) omitzero: bool,
    /// The protobuf field number; 0 if the field has none.
    pub(super) number: u32,
    pub(super) expression: String,
    pub(super) patch_strategy: String,
    pub(super) merge_key: String,
    /// The default as JSON text, or empty.
    pub(super) default: String,
    /// The enum values as a JSON array, or empty.
    pub(super) allowed: String,
}

pub(super) fn parse(text: &str) -> Result<Facts, Error> {
    let mut facts = Facts::new();
    let mut package = String::new();
    let mut open: Option<(String, Struct)> = None;
    for (index, line) in text.lines().enumerate() {
        let fail = |reason: &str| Error::Facts {
            file: "facts.txt",
            line: index + 1,
            reason: reason.to_owned(),
        };
        let mut cells = line.split('\t');
        let tag = cells.next().unwrap_or_default();
        let mut cell = || cells.next().unwrap_or_default().to_owned();
        if matches!(tag, "P" | "A" | "T") {
            close(&mut facts, &package, open.take());
        }
        match tag {
            _ if tag.starts_with('#') => {}
            "P" => package = cell(),
            "A" => declare(&mut facts, &package, cell(), Declaration::Alias(cell())),
            "T" => {
                let (name, custom) = (cell(), cell());
                if custom == "custom" {
                    declare(&mut facts, &package, name, Declaration::Custom);
                } else {
                    open = Some((name, Struct::default()));
                }
            }
            "K" => {
                let (_, ty) = open.as_mut().ok_or_else(|| fail("kind outside of a struct"))?;
                ty.kinds.push((cell(), cell()));
            }
            "F" => {
                let (_, ty) = open.as_mut().ok_or_else(|| fail("field outside of a struct"))?;
                let (name, flags, number) = (cell(), cell(), cell());
                ty.fields.push(Field {
                    name,
                    embedded: flags.contains('i'),
                    omitempty: flags.contains('e'),
                    omitzero: flags.contains('z'),
                    number: number.parse().map_err(|_| fail("invalid field number"))?,
                    expression: cell(),
                    patch_strategy: cell(),
                    merge_key: cell(),
                    default: cell(),
                    allowed: cell(),
                });
            }
            _ => return Err(fail("unknown line type")),
        }
    }
    close(&mut facts, &package, open.take());
    Ok(facts)
}

fn close(facts: &mut Facts, package: &str, open: Option<(String, Struct)>) {
    if let Some((name, ty)) = open {
        declare(facts, package, name, Declaration::Struct(ty));
    }
}

fn declare(facts: &mut Facts, package: &str, name: String, declaration: Declaration) {
    facts.entry(package.to_owned()).or_default().insert(name, declaration);
}
