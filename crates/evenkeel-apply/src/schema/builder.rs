//! Builds schemas type by type.
//!
//! Names may be used before they are defined, so recursive types need no special handling. Names
//! that are still undefined when the schema is built are an error.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;

use super::{
    ElementRelationship, Field, Keys, ListType, MapType, ObjectType, Scalar, Schema, SchemaError,
    TypeDef, TypeId,
};

/// Collects types and returns their ids.
///
/// ```
/// use evenkeel_apply::schema::{MapDef, Scalar, SchemaBuilder};
///
/// let mut b = SchemaBuilder::new();
/// let string = b.scalar(Scalar::String);
/// let container = b.map(MapDef::new().field("name", string).field("image", string));
/// let containers = b.map_list(container, ["name"]);
/// let spec = b.map(MapDef::new().field("containers", containers));
/// let meta = b.object_meta();
/// let pod = b.object(MapDef::new().field("metadata", meta).field("spec", spec));
/// let pod = b.finish(pod)?;
/// # Ok::<_, evenkeel_apply::schema::SchemaError>(())
/// ```
#[derive(Debug)]
pub struct SchemaBuilder {
    types: Vec<Slot>,
    names: BTreeMap<String, TypeId>,
}

#[derive(Debug)]
enum Slot {
    /// Declared but not yet defined.
    Declared(String),
    Defined(TypeDef),
    /// Another type that is atomic or granular instead.
    Override {
        of: TypeId,
        atomic: bool,
    },
}

/// A struct or map under construction.
#[derive(Clone, Debug, Default)]
pub struct MapDef {
    map: MapType,
}

static DEDUCED: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    // The two untyped types refer only to each other, so every slot is defined.
    let types = SchemaBuilder::new().types.into_iter().filter_map(Slot::defined).collect();
    Arc::new(Schema { types, names: BTreeMap::new() })
});

impl SchemaBuilder {
    pub(crate) const UNTYPED: TypeId = TypeId(0);
    pub(crate) const DEDUCED: TypeId = TypeId(1);

    /// Creates a builder with the two untyped types.
    pub fn new() -> Self {
        let mut this = Self { types: Vec::new(), names: BTreeMap::new() };
        let untyped = |map, name: &str| TypeDef {
            name: Some(name.into()),
            scalar: Some(Scalar::Untyped),
            list: Some(ListType {
                element: Self::UNTYPED,
                relationship: ElementRelationship::Atomic,
            }),
            map: Some(map),
        };
        let atomic = MapType { element: Some(Self::UNTYPED), atomic: true, ..MapType::default() };
        let granular = MapType { element: Some(Self::DEDUCED), ..MapType::default() };
        this.add(untyped(atomic, "__untyped_atomic_"));
        this.add(untyped(granular, "__untyped_deduced_"));
        this
    }

    pub(crate) fn deduced_schema() -> Arc<Schema> {
        DEDUCED.clone()
    }

    /// Returns whether every value is valid for this type.
    pub(crate) fn accepts_any_value(ty: TypeId) -> bool {
        ty == Self::UNTYPED || ty == Self::DEDUCED
    }

    /// Any value, replaced as a whole (`RawExtension`).
    pub fn untyped(&self) -> TypeId {
        Self::UNTYPED
    }

    /// Any value; maps merge by key, lists and scalars are replaced as a whole.
    pub fn deduced(&self) -> TypeId {
        Self::DEDUCED
    }

    /// A leaf.
    pub fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.add(TypeDef { scalar: Some(scalar), ..TypeDef::default() })
    }

    /// A struct or map.
    pub fn map(&mut self, def: MapDef) -> TypeId {
        self.add(TypeDef { map: Some(def.map), ..TypeDef::default() })
    }

    /// A map whose entries all have the same type.
    pub fn map_of(&mut self, element: TypeId) -> TypeId {
        self.map(MapDef::new().element_type(element))
    }

    /// A root type: the given fields with `apiVersion` and `kind`.
    pub fn object(&mut self, def: MapDef) -> TypeId {
        let string = self.scalar(Scalar::String);
        self.map(def.field("apiVersion", string).field("kind", string))
    }

    /// A list that is replaced as a whole.
    pub fn atomic_list(&mut self, element: TypeId) -> TypeId {
        self.list(ListType { element, relationship: ElementRelationship::Atomic })
    }

    /// A list of distinct scalars.
    pub fn set(&mut self, element: TypeId) -> TypeId {
        self.list(ListType { element, relationship: ElementRelationship::Set })
    }

    /// A list of maps identified by key fields. A missing key field has the default of its field in
    /// the element type.
    pub fn map_list<N: Into<String>>(
        &mut self,
        element: TypeId,
        keys: impl IntoIterator<Item = N>,
    ) -> TypeId {
        let names = keys.into_iter().map(Into::into).collect();
        let relationship = ElementRelationship::Map(Keys { names, fields: Vec::new() });
        self.list(ListType { element, relationship })
    }

    /// Returns the id of a name, which may be defined later.
    pub fn declare(&mut self, name: &str) -> TypeId {
        if let Some(&id) = self.names.get(name) {
            return id;
        }
        let id = self.push(Slot::Declared(name.into()));
        self.names.insert(name.into(), id);
        id
    }

    /// Defines a name as the type of an id, also for earlier uses of the name.
    pub fn define(&mut self, name: &str, id: TypeId) -> TypeId {
        let named = self.declare(name);
        if let Some(def) = self.types.get(id.0 as usize).and_then(Slot::as_defined) {
            let def = TypeDef { name: Some(name.into()), ..def.clone() };
            self.types[named.0 as usize] = Slot::Defined(def);
        }
        named
    }

    /// Returns the type as atomic or granular, for a field that overrides it.
    pub fn with_atomic(&mut self, of: TypeId, atomic: bool) -> TypeId {
        self.push(Slot::Override { of, atomic })
    }

    /// Returns the type of `ObjectMeta`.
    pub fn object_meta(&mut self) -> TypeId {
        const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        if let Some(&id) = self.names.get(NAME) {
            return id;
        }
        let string = self.scalar(Scalar::String);
        let numeric = self.scalar(Scalar::Numeric);
        let boolean = self.scalar(Scalar::Boolean);
        let time = self.scalar(Scalar::Untyped);
        let strings = self.map_of(string);
        let owner = self.map(
            MapDef::new()
                .fields(["apiVersion", "kind", "name"], string)
                .field_with_default("uid", string, Value::String(String::new()))
                .fields(["blockOwnerDeletion", "controller"], boolean)
                .atomic(),
        );
        let owners = self.map_list(owner, ["uid"]);
        let finalizers = self.set(string);
        let entry = self.map(
            MapDef::new()
                .fields(["apiVersion", "fieldsType", "manager", "operation", "subresource"], string)
                .field("time", time)
                .field("fieldsV1", Self::DEDUCED),
        );
        let entries = self.atomic_list(entry);
        let meta = self.map(
            MapDef::new()
                .fields(["annotations", "labels"], strings)
                .fields(["creationTimestamp", "deletionTimestamp"], time)
                .fields(["deletionGracePeriodSeconds", "generation"], numeric)
                .field("finalizers", finalizers)
                .fields(
                    ["generateName", "name", "namespace", "resourceVersion", "selfLink", "uid"],
                    string,
                )
                .field("managedFields", entries)
                .field("ownerReferences", owners),
        );
        self.define(NAME, meta)
    }

    /// Builds the schema.
    pub fn build(self) -> Result<Arc<Schema>, SchemaError> {
        let mut types = Vec::with_capacity(self.types.len());
        for index in 0..self.types.len() {
            let mut def = self.resolve(index, 0)?;
            self.complete_keys(&mut def)?;
            types.push(def);
        }
        Ok(Arc::new(Schema { types, names: self.names }))
    }

    /// Builds the schema for one root type.
    pub fn finish(self, root: TypeId) -> Result<ObjectType, SchemaError> {
        let schema = self.build()?;
        let unknown = || SchemaError::Undefined(format!("type {}", root.0));
        ObjectType::new(schema, root).ok_or_else(unknown)
    }

    fn resolve(&self, index: usize, depth: usize) -> Result<TypeDef, SchemaError> {
        match self.types.get(index) {
            Some(Slot::Defined(def)) => Ok(def.clone()),
            Some(Slot::Override { of, atomic }) if depth < self.types.len() => {
                let mut def = self.resolve(of.0 as usize, depth + 1)?;
                match &mut def {
                    TypeDef { map: Some(map), .. } => map.atomic = *atomic,
                    TypeDef { list: Some(list), .. } if *atomic => {
                        list.relationship = ElementRelationship::Atomic
                    }
                    _ => return Err(SchemaError::NotAContainer(def.name.unwrap_or_default())),
                }
                Ok(def)
            }
            Some(Slot::Declared(name)) => Err(SchemaError::Undefined(name.clone())),
            _ => Err(SchemaError::Undefined(format!("type {index}"))),
        }
    }

    /// Resolves the defaults of key fields once, instead of for every item.
    fn complete_keys(&self, def: &mut TypeDef) -> Result<(), SchemaError> {
        let Some(ListType { element, relationship: ElementRelationship::Map(keys) }) =
            &mut def.list
        else {
            return Ok(());
        };
        let item = self.resolve(element.0 as usize, 0)?;
        let Some(map) = &item.map else {
            return Err(SchemaError::ListItemsNotMaps(def.name.clone().unwrap_or_default()));
        };
        let default = |name: &String| map.field(name).and_then(|field| field.default.clone());
        keys.fields = keys.names.iter().map(|name| (name.clone(), default(name))).collect();
        keys.fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(())
    }

    pub(super) fn list(&mut self, list: ListType) -> TypeId {
        self.add(TypeDef { list: Some(list), ..TypeDef::default() })
    }

    pub(super) fn add(&mut self, def: TypeDef) -> TypeId {
        self.push(Slot::Defined(def))
    }

    fn push(&mut self, slot: Slot) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(slot);
        id
    }
}

impl Default for SchemaBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    fn defined(self) -> Option<TypeDef> {
        match self {
            Self::Defined(def) => Some(def),
            _ => None,
        }
    }

    fn as_defined(&self) -> Option<&TypeDef> {
        match self {
            Self::Defined(def) => Some(def),
            _ => None,
        }
    }
}

// === impl MapDef ===

impl MapDef {
    /// Creates a struct without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a field. Replaces an earlier one with the same name.
    #[must_use]
    pub fn field(self, name: impl Into<Cow<'static, str>>, ty: TypeId) -> Self {
        self.insert(Field { name: name.into(), ty, default: None })
    }

    /// Declares a field with a default, which is used if the field is a missing list key.
    #[must_use]
    pub fn field_with_default(
        self,
        name: impl Into<Cow<'static, str>>,
        ty: TypeId,
        default: impl Into<Option<Value>>,
    ) -> Self {
        self.insert(Field { name: name.into(), ty, default: default.into() })
    }

    /// Declares several fields of the same type.
    #[must_use]
    pub fn fields(self, names: impl IntoIterator<Item = &'static str>, ty: TypeId) -> Self {
        names.into_iter().fold(self, |this, name| this.field(name, ty))
    }

    /// Allows undeclared entries of this type.
    #[must_use]
    pub fn element_type(mut self, ty: TypeId) -> Self {
        self.map.element = Some(ty);
        self
    }

    /// Makes the map atomic.
    #[must_use]
    pub fn atomic(mut self) -> Self {
        self.map.atomic = true;
        self
    }

    pub(super) fn into_map(self) -> MapType {
        self.map
    }

    fn insert(mut self, field: Field) -> Self {
        self.map.fields.insert(field);
        self
    }
}
