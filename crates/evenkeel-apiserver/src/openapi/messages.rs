//! The protobuf messages of OpenAPI documents, as gnostic declares them: the mapping of JSON keys
//! to fields.
//!
//! Only fields that occur in the documents of an API server are listed. Other keys are omitted.

use serde_json::Value;

/// The message of a JSON object.
pub(super) struct Message {
    /// Its fields by key, with their numbers.
    pub(super) fields: &'static [(&'static str, u32, Kind)],
    /// The fields that hold named values: all keys that `fields` does not list.
    pub(super) named: &'static [(Keys, u32, Kind)],
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Bool,
    Integer,
    Double,
    /// Any JSON, as a message that holds it as text.
    Any,
    One(&'static Message),
    Many(&'static Kind),
    /// A message that holds one value or a list of them as its field 1.
    Wrapped(&'static Kind),
    /// A message that holds one of several fields.
    Choice(&'static Choice),
}

/// A message that holds one of several fields.
pub(super) struct Choice {
    pub(super) fields: &'static [(u32, Kind)],
    /// Returns the index of the field for a value; `None` if there is none.
    pub(super) choose: fn(&Value) -> Option<usize>,
}

/// The keys of a field of named values.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    All,
    /// Keys that begin with `x-`.
    Extensions,
    /// Keys that begin with a slash.
    Paths,
    /// Response codes, and in version 2 the default response.
    Codes,
}

impl Keys {
    pub(super) fn contains(self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Extensions => key.starts_with("x-"),
            Self::Paths => key.starts_with('/'),
            Self::Codes => !key.starts_with("x-"),
        }
    }
}

use Kind::{Any, Bool, Choice as OneOf, Double, Integer, Many, One, Text, Wrapped};

const TEXTS: Kind = Many(&Text);

/// Builds the message of an object whose keys are all names, with values of one kind.
const fn names(kind: &'static [(Keys, u32, Kind)]) -> Message {
    Message { fields: &[], named: kind }
}

fn is_reference(value: &Value) -> Option<usize> {
    Some(usize::from(value.get("$ref").is_some()))
}

fn is_boolean(value: &Value) -> Option<usize> {
    Some(usize::from(value.is_boolean()))
}

// === version 2 ===

pub(super) static V2: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO_V2)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, TEXTS),
        ("consumes", 6, TEXTS),
        ("produces", 7, TEXTS),
        ("paths", 8, One(&PATHS_V2)),
        ("definitions", 9, One(&DEFINITIONS)),
        ("parameters", 10, One(&PARAMETER_DEFINITIONS)),
        ("security", 12, Many(&One(&SECURITY_REQUIREMENT))),
        ("securityDefinitions", 13, One(&SECURITY_DEFINITIONS)),
    ],
    named: &[(Keys::Extensions, 16, Any)],
};

static INFO_V2: Message = Message {
    fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)],
    named: &[(Keys::Extensions, 7, Any)],
};

static PATHS_V2: Message =
    names(&[(Keys::Extensions, 1, Any), (Keys::Paths, 2, One(&PATH_ITEM_V2))]);

static DEFINITIONS: Message = names(&[(Keys::All, 1, One(&SCHEMA_V2))]);

static PARAMETER_DEFINITIONS: Message = names(&[(Keys::All, 1, OneOf(&PARAMETER_V2))]);

static SECURITY_REQUIREMENT: Message = names(&[(Keys::All, 1, Wrapped(&Text))]);

static SECURITY_DEFINITIONS: Message = names(&[(Keys::All, 1, OneOf(&SECURITY_DEFINITION))]);

static SECURITY_DEFINITION: Choice = Choice {
    fields: &[(2, One(&API_KEY))],
    choose: |value| (value["type"] == "apiKey").then_some(0),
};

static API_KEY: Message = Message {
    fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)],
    named: &[(Keys::Extensions, 5, Any)],
};

static PATH_ITEM_V2: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("get", 2, One(&OPERATION_V2)),
        ("put", 3, One(&OPERATION_V2)),
        ("post", 4, One(&OPERATION_V2)),
        ("delete", 5, One(&OPERATION_V2)),
        ("options", 6, One(&OPERATION_V2)),
        ("head", 7, One(&OPERATION_V2)),
        ("patch", 8, One(&OPERATION_V2)),
        ("parameters", 9, Many(&OneOf(&PARAMETERS_ITEM))),
    ],
    named: &[(Keys::Extensions, 10, Any)],
};

static OPERATION_V2: Message = Message {
    fields: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, Many(&OneOf(&PARAMETERS_ITEM))),
        ("responses", 9, One(&RESPONSES_V2)),
        ("schemes", 10, TEXTS),
        ("deprecated", 11, Bool),
        ("security", 12, Many(&One(&SECURITY_REQUIREMENT))),
    ],
    named: &[(Keys::Extensions, 13, Any)],
};

static PARAMETERS_ITEM: Choice = Choice {
    fields: &[(1, OneOf(&PARAMETER_V2)), (2, One(&JSON_REFERENCE))],
    choose: is_reference,
};

static JSON_REFERENCE: Message =
    Message { fields: &[("$ref", 1, Text), ("description", 2, Text)], named: &[] };

static PARAMETER_V2: Choice = Choice {
    fields: &[(1, One(&BODY_PARAMETER)), (2, OneOf(&NON_BODY_PARAMETER))],
    choose: |value| Some(usize::from(value["in"] != "body")),
};

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, One(&SCHEMA_V2)),
    ],
    named: &[(Keys::Extensions, 6, Any)],
};

static NON_BODY_PARAMETER: Choice = Choice {
    fields: &[(1, One(&HEADER_PARAMETER)), (3, One(&QUERY_PARAMETER)), (4, One(&HEADER_PARAMETER))],
    choose: |value| match value["in"].as_str()? {
        "header" => Some(0),
        "query" => Some(1),
        "path" => Some(2),
        _ => None,
    },
};

/// Parameters in headers and paths have the same fields.
static HEADER_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Bool),
    ],
    named: &[(Keys::Extensions, 22, Any)],
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("allowEmptyValue", 5, Bool),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Bool),
    ],
    named: &[(Keys::Extensions, 23, Any)],
};

static RESPONSES_V2: Message =
    names(&[(Keys::Codes, 1, OneOf(&RESPONSE_VALUE)), (Keys::Extensions, 2, Any)]);

static RESPONSE_VALUE: Choice =
    Choice { fields: &[(1, One(&RESPONSE_V2)), (2, One(&JSON_REFERENCE))], choose: is_reference };

static RESPONSE_V2: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, OneOf(&SCHEMA_ITEM))],
    named: &[(Keys::Extensions, 5, Any)],
};

static SCHEMA_ITEM: Choice = Choice { fields: &[(1, One(&SCHEMA_V2))], choose: |_| Some(0) };

static SCHEMA_V2: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, TEXTS),
        ("enum", 20, Many(&Any)),
        ("additionalProperties", 21, OneOf(&ADDITIONAL_V2)),
        ("type", 22, Wrapped(&Text)),
        ("items", 23, Wrapped(&One(&SCHEMA_V2))),
        ("allOf", 24, Many(&One(&SCHEMA_V2))),
        ("properties", 25, One(&DEFINITIONS)),
        ("discriminator", 26, Text),
        ("readOnly", 27, Bool),
        ("externalDocs", 29, One(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    named: &[(Keys::Extensions, 31, Any)],
};

static ADDITIONAL_V2: Choice =
    Choice { fields: &[(1, One(&SCHEMA_V2)), (2, Bool)], choose: is_boolean };

/// The same in both versions.
static EXTERNAL_DOCS: Message = Message {
    fields: &[("description", 1, Text), ("url", 2, Text)],
    named: &[(Keys::Extensions, 3, Any)],
};

// === version 3 ===

pub(super) static V3: Message = Message {
    fields: &[
        ("openapi", 1, Text),
        ("info", 2, One(&INFO_V3)),
        ("paths", 4, One(&PATHS_V3)),
        ("components", 5, One(&COMPONENTS)),
        ("security", 6, Many(&One(&SECURITY_REQUIREMENT))),
    ],
    named: &[(Keys::Extensions, 9, Any)],
};

static INFO_V3: Message = Message {
    fields: &[("title", 1, Text), ("description", 2, Text), ("version", 6, Text)],
    named: &[(Keys::Extensions, 7, Any)],
};

static PATHS_V3: Message =
    names(&[(Keys::Paths, 1, One(&PATH_ITEM_V3)), (Keys::Extensions, 2, Any)]);

static COMPONENTS: Message = Message {
    fields: &[("schemas", 1, One(&SCHEMAS)), ("securitySchemes", 7, One(&SECURITY_SCHEMES))],
    named: &[(Keys::Extensions, 10, Any)],
};

/// The schemas of a document, and the properties of one schema.
static SCHEMAS: Message = names(&[(Keys::All, 1, OneOf(&SCHEMA_OR_REFERENCE))]);

static SECURITY_SCHEMES: Message = names(&[(Keys::All, 1, OneOf(&SECURITY_SCHEME_OR_REFERENCE))]);

static SECURITY_SCHEME_OR_REFERENCE: Choice =
    Choice { fields: &[(1, One(&SECURITY_SCHEME)), (2, One(&REFERENCE))], choose: is_reference };

static SECURITY_SCHEME: Message = Message {
    fields: &[("type", 1, Text), ("description", 2, Text), ("name", 3, Text), ("in", 4, Text)],
    named: &[(Keys::Extensions, 9, Any)],
};

static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text), ("summary", 2, Text), ("description", 3, Text)],
    named: &[],
};

static PATH_ITEM_V3: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("get", 4, One(&OPERATION_V3)),
        ("put", 5, One(&OPERATION_V3)),
        ("post", 6, One(&OPERATION_V3)),
        ("delete", 7, One(&OPERATION_V3)),
        ("options", 8, One(&OPERATION_V3)),
        ("head", 9, One(&OPERATION_V3)),
        ("patch", 10, One(&OPERATION_V3)),
        ("trace", 11, One(&OPERATION_V3)),
        ("parameters", 13, Many(&OneOf(&PARAMETER_OR_REFERENCE))),
    ],
    named: &[(Keys::Extensions, 14, Any)],
};

static OPERATION_V3: Message = Message {
    fields: &[
        ("tags", 1, TEXTS),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("parameters", 6, Many(&OneOf(&PARAMETER_OR_REFERENCE))),
        ("requestBody", 7, OneOf(&REQUEST_BODY_OR_REFERENCE)),
        ("responses", 8, One(&RESPONSES_V3)),
        ("deprecated", 10, Bool),
        ("security", 11, Many(&One(&SECURITY_REQUIREMENT))),
    ],
    named: &[(Keys::Extensions, 13, Any)],
};

static PARAMETER_OR_REFERENCE: Choice =
    Choice { fields: &[(1, One(&PARAMETER_V3)), (2, One(&REFERENCE))], choose: is_reference };

static PARAMETER_V3: Message = Message {
    fields: &[
        ("name", 1, Text),
        ("in", 2, Text),
        ("description", 3, Text),
        ("required", 4, Bool),
        ("deprecated", 5, Bool),
        ("allowEmptyValue", 6, Bool),
        ("style", 7, Text),
        ("explode", 8, Bool),
        ("allowReserved", 9, Bool),
        ("schema", 10, OneOf(&SCHEMA_OR_REFERENCE)),
        ("example", 11, Any),
        ("content", 13, One(&MEDIA_TYPES)),
    ],
    named: &[(Keys::Extensions, 14, Any)],
};

static REQUEST_BODY_OR_REFERENCE: Choice =
    Choice { fields: &[(1, One(&REQUEST_BODY)), (2, One(&REFERENCE))], choose: is_reference };

static REQUEST_BODY: Message = Message {
    fields: &[("description", 1, Text), ("content", 2, One(&MEDIA_TYPES)), ("required", 3, Bool)],
    named: &[(Keys::Extensions, 4, Any)],
};

static MEDIA_TYPES: Message = names(&[(Keys::All, 1, One(&MEDIA_TYPE))]);

static MEDIA_TYPE: Message = Message {
    fields: &[("schema", 1, OneOf(&SCHEMA_OR_REFERENCE)), ("example", 2, Any)],
    named: &[(Keys::Extensions, 5, Any)],
};

static RESPONSES_V3: Message = Message {
    fields: &[("default", 1, OneOf(&RESPONSE_OR_REFERENCE))],
    named: &[(Keys::Codes, 2, OneOf(&RESPONSE_OR_REFERENCE)), (Keys::Extensions, 3, Any)],
};

static RESPONSE_OR_REFERENCE: Choice =
    Choice { fields: &[(1, One(&RESPONSE_V3)), (2, One(&REFERENCE))], choose: is_reference };

static RESPONSE_V3: Message = Message {
    fields: &[("description", 1, Text), ("content", 3, One(&MEDIA_TYPES))],
    named: &[(Keys::Extensions, 5, Any)],
};

static SCHEMA_OR_REFERENCE: Choice =
    Choice { fields: &[(1, One(&SCHEMA_V3)), (2, One(&REFERENCE))], choose: is_reference };

static SCHEMA_V3: Message = Message {
    fields: &[
        ("nullable", 1, Bool),
        ("readOnly", 3, Bool),
        ("writeOnly", 4, Bool),
        ("externalDocs", 6, One(&EXTERNAL_DOCS)),
        ("example", 7, Any),
        ("deprecated", 8, Bool),
        ("title", 9, Text),
        ("multipleOf", 10, Double),
        ("maximum", 11, Double),
        ("exclusiveMaximum", 12, Bool),
        ("minimum", 13, Double),
        ("exclusiveMinimum", 14, Bool),
        ("maxLength", 15, Integer),
        ("minLength", 16, Integer),
        ("pattern", 17, Text),
        ("maxItems", 18, Integer),
        ("minItems", 19, Integer),
        ("uniqueItems", 20, Bool),
        ("maxProperties", 21, Integer),
        ("minProperties", 22, Integer),
        ("required", 23, TEXTS),
        ("enum", 24, Many(&Any)),
        ("type", 25, Text),
        ("allOf", 26, Many(&OneOf(&SCHEMA_OR_REFERENCE))),
        ("oneOf", 27, Many(&OneOf(&SCHEMA_OR_REFERENCE))),
        ("anyOf", 28, Many(&OneOf(&SCHEMA_OR_REFERENCE))),
        ("not", 29, One(&SCHEMA_V3)),
        ("items", 30, Wrapped(&OneOf(&SCHEMA_OR_REFERENCE))),
        ("properties", 31, One(&SCHEMAS)),
        ("additionalProperties", 32, OneOf(&ADDITIONAL_V3)),
        ("default", 33, OneOf(&DEFAULT_V3)),
        ("description", 34, Text),
        ("format", 35, Text),
    ],
    named: &[(Keys::Extensions, 36, Any)],
};

static ADDITIONAL_V3: Choice =
    Choice { fields: &[(1, OneOf(&SCHEMA_OR_REFERENCE)), (2, Bool)], choose: is_boolean };

/// Only scalars can be encoded; of other defaults only their presence is encoded.
static DEFAULT_V3: Choice = Choice {
    fields: &[(1, Double), (2, Bool), (3, Text)],
    choose: |value| match value {
        Value::Number(_) => Some(0),
        Value::Bool(_) => Some(1),
        Value::String(_) => Some(2),
        _ => None,
    },
};
