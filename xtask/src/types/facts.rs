//! Reads `gofacts/facts.txt`: declarations in the order of the file, expressions left as text.

use std::collections::BTreeMap;

use super::Error;

/// Declarations by package, each under its own name.
pub(super) type Facts = BTreeMap<String, BTreeMap<String, Declaration>>;

#[derive(Debug)]
pub(super) enum Declaration {
    /// A named type that is no struct, with the expression it stands for.
    Alias(String),
    /// A struct that decodes its own JSON.
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
    /// 0 where the field has no protobuf form.
    pub(super) number: u32,
    pub(super) expression: String,
    pub(super) patch_strategy: String,
    pub(super) merge_key: String,
    /// JSON text, empty where there is none.
    pub(super) default: String,
    /// JSON text of an array, empty where there is none.
    pub(super) allowed: String,
}

pub(super) fn parse(text: &str) -> Result<Facts, Error> {
    let mut facts = Facts::new();
    let mut package = String::new();
    let mut open: Option<(String, Struct)> = None;
    for (index, line) in text.lines().enumerate() {
        let fail = |reason: &str| Error::Facts { line: index + 1, reason: reason.to_owned() };
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
                let (_, ty) = open.as_mut().ok_or_else(|| fail("a kind outside a struct"))?;
                ty.kinds.push((cell(), cell()));
            }
            "F" => {
                let (_, ty) = open.as_mut().ok_or_else(|| fail("a field outside a struct"))?;
                let (name, flags, number) = (cell(), cell(), cell());
                ty.fields.push(Field {
                    name,
                    embedded: flags.contains('i'),
                    omitempty: flags.contains('e'),
                    omitzero: flags.contains('z'),
                    number: number.parse().map_err(|_| fail("a number that is none"))?,
                    expression: cell(),
                    patch_strategy: cell(),
                    merge_key: cell(),
                    default: cell(),
                    allowed: cell(),
                });
            }
            _ => return Err(fail("an unknown line")),
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
