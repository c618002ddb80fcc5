//! Parses `types.txt`, whose header describes its grammar. The text is compiled in and covered by
//! tests, so an invalid line is a bug of the generator, and the parser panics.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{
    Custom, DefaultValue, Embed, Expr, Expression, Field, ListType, MapType, Member, Shape, Table,
    Type, TypeRef,
};
use crate::Gvk;

pub(super) fn parse(text: &'static str) -> Table {
    let mut lines = Vec::with_capacity(5000);
    lines.extend(text.lines().filter(|line| !line.starts_with('#')).map(split_word));
    let mut builder = Builder::default();
    builder.declare(&lines);
    builder.define(&lines);
    builder.finish()
}

/// A line: its first word, and the rest.
type Line = (&'static str, &'static str);

/// Keys are trusted, so the hash only needs to be fast: the table is parsed at every start.
#[derive(Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        // Hash maps use the top and the bottom bits; multiplication mixes only the top ones.
        self.0 ^ self.0 >> 32
    }
}

type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

#[derive(Default)]
struct Builder {
    /// Package names by alias.
    packages: QuickMap<&'static str, &'static str>,
    /// The meaning of a name, by package name and type name.
    names: QuickMap<(&'static str, &'static str), Name>,
    types: Vec<Type>,
    expressions: Vec<Expression>,
    /// Parsed expressions, by package and text.
    interned: QuickMap<(&'static str, &'static str), Expr>,
}

#[derive(Clone, Copy)]
enum Name {
    Type(u16),
    Custom(u16, Custom),
    Alias { expression: &'static str, wrapped: bool },
}

impl Builder {
    /// First pass: names, so that the second pass can resolve forward references.
    fn declare(&mut self, lines: &[Line]) {
        let mut package = "";
        for &(head, rest) in lines {
            match head {
                "@package" => {
                    let (alias, name) = split_word(rest);
                    package = name;
                    self.packages.insert(alias, name);
                }
                "@alias" => {
                    let (name, rest) = split_word(rest);
                    let (expression, wrapped) = split_word(rest);
                    let alias = Name::Alias { expression, wrapped: wrapped == "wrapped" };
                    self.names.insert((package, name), alias);
                }
                "@custom" => {
                    let custom = custom(rest);
                    let index = self.push_type(package, rest, Some(custom));
                    self.names.insert((package, rest), Name::Custom(index, custom));
                }
                "@type" => {
                    let (name, attributes) = split_word(rest);
                    let index = self.push_type(package, name, None);
                    let ty = &mut self.types[index as usize];
                    for attribute in attributes.split(' ') {
                        match attribute.split_once('=') {
                            Some(("unions", json)) => ty.unions = Some(json),
                            _ => ty.atomic |= attribute == "atomic",
                        }
                    }
                    self.names.insert((package, name), Name::Type(index));
                }
                _ => {}
            }
        }
    }

    fn push_type(&mut self, package: &str, name: &str, custom: Option<Custom>) -> u16 {
        let index = index(self.types.len());
        self.types.push(Type {
            // Leaked: the table lives as long as the process.
            name: format!("{package}.{name}").leak(),
            gvks: Vec::new(),
            custom,
            atomic: false,
            unions: None,
            fields: Vec::new(),
            embeds: Vec::new(),
            members_by_number: Vec::new(),
            declared: Vec::new(),
            ascending: true,
            json_order: Vec::new(),
            always_printed: Vec::new(),
        });
        index
    }

    /// Second pass: kinds, embedded structs and the fields that a type declares itself.
    fn define(&mut self, lines: &[Line]) {
        let mut package = "";
        let mut open = usize::MAX;
        let mut next = 0;
        for &(head, rest) in lines {
            match head {
                "@package" => package = split_word(rest).1,
                "@alias" => {}
                "@type" | "@custom" => {
                    open = next;
                    next += 1;
                }
                "@kind" => {
                    let (kind, api_versions) = split_word(rest);
                    let gvks = api_versions
                        .split(' ')
                        .map(|api_version| Gvk::from_api_version(api_version, kind));
                    self.types[open].gvks.extend(gvks);
                }
                "@embed" => {
                    let (name, rest) = split_word(rest);
                    let (number, ty) = split_word(rest);
                    let Shape::Struct(ty) = self.expression(package, ty).1 else {
                        unreachable!("only structs are embedded: {rest}")
                    };
                    let number = parse_number(number);
                    let outer = &mut self.types[open];
                    outer.declared.push(Member::Embed(index(outer.embeds.len())));
                    outer.embeds.push(Embed { name, number, ty });
                }
                _ => {
                    let field = self.field(package, head, rest);
                    let outer = &mut self.types[open];
                    outer.declared.push(Member::Field(index(outer.fields.len())));
                    outer.fields.push(field);
                }
            }
        }
    }

    fn field(&mut self, package: &'static str, name: &'static str, rest: &'static str) -> Field {
        let (number, rest) = split_word(rest);
        let (flags, rest) = split_word(rest);
        let (expression, attributes) = split_word(rest);
        let (expr, shape) = self.expression(package, expression);
        let mut field = Field {
            name,
            number: parse_number(number),
            expr,
            shape,
            pointer: false,
            omitempty: false,
            omitzero: false,
            required: false,
            list_type: None,
            map_type: None,
            merge_key: None,
            default: DefaultValue::None,
            embed: None,
            list_keys: "",
            patch_strategy: "",
            allowed: None,
        };
        for flag in flags.bytes() {
            match flag {
                b'p' => field.pointer = true,
                b'e' => field.omitempty = true,
                b'z' => field.omitzero = true,
                b'r' => field.required = true,
                b'd' => field.default = DefaultValue::Zero,
                _ => {}
            }
        }
        let mut rest = attributes;
        while !rest.is_empty() {
            // Values of an enum may contain spaces, so it is last and takes the rest of the line.
            if let Some(values) = rest.strip_prefix("enum=") {
                field.allowed = Some(values);
                break;
            }
            let attribute;
            (attribute, rest) = split_word(rest);
            let Some((key, value)) = attribute.split_once('=') else { continue };
            let (head, tail) = value.split_once(':').unwrap_or((value, ""));
            match key {
                "list" => {
                    field.list_keys = tail;
                    field.list_type = Some(match head {
                        "atomic" => ListType::Atomic,
                        "set" => ListType::Set,
                        _ => ListType::Map,
                    });
                }
                "map" => {
                    let atomic = head == "atomic";
                    field.map_type = Some(if atomic { MapType::Atomic } else { MapType::Granular });
                }
                "patch" => {
                    field.patch_strategy = head;
                    field.merge_key = (!tail.is_empty()).then_some(tail);
                }
                "default" => field.default = DefaultValue::Json(value),
                _ => unreachable!("unknown attribute {attribute}"),
            }
        }
        field
    }

    fn expression(&mut self, package: &'static str, text: &'static str) -> (Expr, Shape) {
        if let Some(&known) = self.interned.get(&(package, text)) {
            return (known, self.expressions[known.0 as usize].shape);
        }
        let expression = self.parse_expression(package, text);
        let shape = expression.shape;
        let expr = Expr(index(self.expressions.len()));
        self.expressions.push(expression);
        self.interned.insert((package, text), expr);
        (expr, shape)
    }

    fn parse_expression(&mut self, package: &'static str, text: &'static str) -> Expression {
        let plain = |shape| Expression { shape, alias: None, wrapped: false };
        if let Some(element) = text.strip_prefix("[]") {
            return plain(Shape::List(self.expression(package, element).0));
        }
        if let Some((key, value)) = text.strip_prefix("map[").and_then(|map| map.split_once(']')) {
            let key = self.expression(package, key).0;
            return plain(Shape::Map { key, value: self.expression(package, value).0 });
        }
        match text {
            "string" => return plain(Shape::String),
            "bool" => return plain(Shape::Bool),
            "int32" => return plain(Shape::Int32),
            "int64" => return plain(Shape::Int64),
            "float64" => return plain(Shape::Double),
            "bytes" => return plain(Shape::Bytes),
            "any" => return plain(Shape::Any),
            _ => {}
        }
        let (declared, name) = match text.rsplit_once('.') {
            Some((alias, name)) => (self.packages[alias], name),
            None => (package, text),
        };
        match self.names[&(declared, name)] {
            Name::Type(index) => plain(Shape::Struct(TypeRef(index))),
            Name::Custom(index, custom) => plain(Shape::Custom(custom, TypeRef(index))),
            Name::Alias { expression, wrapped } => {
                let (_, shape) = self.expression(declared, expression);
                Expression { shape, alias: Some((declared, name)), wrapped }
            }
        }
    }

    /// Adds embedded fields to the JSON view and builds the indices.
    fn finish(mut self) -> Table {
        let mut flat = vec![false; self.types.len()];
        for index in 0..self.types.len() {
            self.flatten(index, &mut flat);
        }
        let mut by_gvk = HashMap::new();
        let mut by_name = HashMap::with_capacity(self.types.len());
        for (position, ty) in self.types.iter().enumerate() {
            by_name.insert(ty.name, index(position));
            by_gvk.extend(ty.gvks.iter().map(|gvk| (*gvk, index(position))));
        }
        Table { types: self.types, expressions: self.expressions, by_gvk, by_name }
    }

    fn flatten(&mut self, position: usize, flat: &mut [bool]) {
        if std::mem::replace(&mut flat[position], true) {
            return;
        }
        let mut fields = std::mem::take(&mut self.types[position].fields);
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let mut members_by_number = Vec::new();
        for embed in 0..self.types[position].embeds.len() {
            let Embed { number, ty, .. } = self.types[position].embeds[embed];
            self.flatten(ty.0 as usize, flat);
            let inner = &self.types[ty.0 as usize].fields;
            fields.extend(inner.iter().map(|field| Field { embed: Some(index(embed)), ..*field }));
            if number != 0 {
                members_by_number.push((number, Member::Embed(index(embed))));
            }
        }
        fields.sort_unstable_by_key(|field| field.name);
        for (position, field) in fields.iter().enumerate() {
            if field.number != 0 && field.embed.is_none() {
                members_by_number.push((field.number, Member::Field(index(position))));
            }
        }
        let declared = std::mem::take(&mut self.types[position].declared);
        let (declared, json_order) = self.order(position, declared, &names, &fields);
        let numbers = declared.iter().map(|slot| match *slot {
            Member::Field(field) => fields[field as usize].number,
            Member::Embed(embed) => self.types[position].embeds[embed as usize].number,
        });
        let ascending = numbers.filter(|number| *number != 0).is_sorted();
        members_by_number.sort_unstable_by_key(|(number, _)| *number);
        let always_printed =
            |(position, field): (usize, &Field)| field.is_always_printed().then(|| index(position));
        let ty = &mut self.types[position];
        ty.always_printed = fields.iter().enumerate().filter_map(always_printed).collect();
        ty.fields = fields;
        ty.members_by_number = members_by_number;
        ty.declared = declared;
        ty.ascending = ascending;
        ty.json_order = json_order;
    }

    /// Returns the members of a type by their sorted positions, and the position of each field in
    /// JSON.
    fn order(
        &self,
        position: usize,
        mut declared: Vec<Member>,
        names: &[&str],
        fields: &[Field],
    ) -> (Vec<Member>, Vec<u16>) {
        let find = |name: &str| fields.binary_search_by(|field| field.name.cmp(name));
        let mut json_order = vec![u16::MAX; fields.len()];
        let mut next = 0;
        for slot in &mut declared {
            match slot {
                Member::Field(at) => {
                    if let Ok(found) = find(names[*at as usize]) {
                        *at = index(found);
                        json_order[found] = next;
                    }
                    next += 1;
                }
                Member::Embed(at) => {
                    let inner =
                        &self.types[self.types[position].embeds[*at as usize].ty.0 as usize];
                    for (field, place) in inner.fields.iter().zip(&inner.json_order) {
                        if let Ok(found) = find(field.name) {
                            json_order[found] = next + place;
                        }
                    }
                    next += index(inner.fields.len());
                }
            }
        }
        (declared, json_order)
    }
}

fn split_word(text: &'static str) -> (&'static str, &'static str) {
    // Words are short: a loop over bytes is faster than a search optimized for long texts.
    match text.bytes().position(|byte| byte == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (text, ""),
    }
}

fn parse_number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| unreachable!("not a number: {text}"))
}

fn index(position: usize) -> u16 {
    u16::try_from(position).unwrap_or_else(|_| unreachable!("the table exceeds 16-bit indices"))
}

fn custom(name: &str) -> Custom {
    match name {
        "Time" => Custom::Time,
        "MicroTime" => Custom::MicroTime,
        "Quantity" => Custom::Quantity,
        "IntOrString" => Custom::IntOrString,
        "RawExtension" => Custom::RawExtension,
        "FieldsV1" => Custom::FieldsV1,
        "JSON" => Custom::Json,
        "JSONSchemaPropsOrArray" => Custom::JsonSchemaPropsOrArray,
        "JSONSchemaPropsOrBool" => Custom::JsonSchemaPropsOrBool,
        "JSONSchemaPropsOrStringArray" => Custom::JsonSchemaPropsOrStringArray,
        _ => unreachable!("no such custom type: {name}"),
    }
}
