//! Runs the conformance cases of cel-spec that need no protocol buffer messages.
//!
//! The cases are not part of the repository: they are looked up in `EVENKEEL_CEL_SPEC`, or beside the
//! checkout in `shared/data/cel-spec`, and skipped if they are not there.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

#[path = "conformance/textproto.rs"]
mod textproto;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use evenkeel_cel::{
    Duration, Env, Error, Function, Map, OpaqueType, Overload, Timestamp, Type, Value,
};
use textproto::{Field, Message};

/// Files of libraries that Kubernetes does not have.
const OTHER_LIBRARIES: [(&str, &str); 5] = [
    ("math_ext", "the math library is not part of Kubernetes"),
    ("encoders_ext", "the encoders library is not part of Kubernetes"),
    ("block_ext", "cel.block is what optimizers generate, not what users write"),
    ("network_ext", "Kubernetes has its own network functions"),
    ("proto2_ext", "extensions of protocol buffers"),
];

/// Cases with another result, and why: `file/section/test`, where a `*` stands for all tests.
const DEVIATIONS: &[(&str, &str)] = &include!("conformance/deviations.in");

#[test]
fn results_are_those_of_the_specification() {
    let Some(folder) = folder() else {
        let reason = "cel-spec was not found (EVENKEEL_CEL_SPEC)";
        return evenkeel_upstream::report_skipped(1, "test of the specification of CEL", reason);
    };
    let mut outcome = Outcome::default();
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "textproto")) {
        let text = std::fs::read_to_string(path).unwrap();
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        for section in Message::parse(&text).messages("section") {
            for test in section.messages("test") {
                let name = format!("{file}/{}/{}", section.text("name"), test.text("name"));
                outcome.run(&file, &name, test);
            }
        }
    }
    println!("{} passed, {} deviate as listed", outcome.passed, outcome.deviating);
    for (reason, count) in &outcome.skipped {
        println!("{count} skipped: {reason}");
    }
    for failure in &outcome.failed {
        println!("{failure}");
    }
    assert!(outcome.failed.is_empty(), "{} cases failed", outcome.failed.len());
    assert!(outcome.passed > 1_000, "only {} cases ran", outcome.passed);
}

fn folder() -> Option<PathBuf> {
    let from_env = std::env::var_os("EVENKEEL_CEL_SPEC").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cel-spec");
    from_env.or(Some(beside)).filter(|path| path.is_dir())
}

#[derive(Default)]
struct Outcome {
    passed: usize,
    deviating: usize,
    skipped: BTreeMap<String, usize>,
    failed: Vec<String>,
}

impl Outcome {
    fn run(&mut self, file: &str, name: &str, test: &Message) {
        let library = OTHER_LIBRARIES.iter().find(|(library, _)| *library == file);
        if let Some((_, reason)) = library {
            return self.skip(reason);
        }
        if needs_messages(test) {
            return self.skip("needs protocol buffer messages");
        }
        let deviation = DEVIATIONS.iter().find(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *pattern == name,
        });
        let result = check(test);
        if test.flag("disable_check") && result.as_ref().is_err_and(|e| e.starts_with("ERROR: ")) {
            return self.skip("expressions are always checked, also where the case disables it");
        }
        if result.as_ref().is_err_and(|e| e.starts_with("type cel.expr.conformance")) {
            return self.skip("needs protocol buffer messages");
        }
        match (result, deviation) {
            (Ok(()), None) => self.passed += 1,
            (Err(_), Some(_)) => self.deviating += 1,
            // A pattern may cover cases that do not deviate.
            (Ok(()), Some((pattern, _))) if pattern.ends_with('*') => self.passed += 1,
            (Ok(()), Some(_)) => self.failed.push(format!("{name}: listed, but does not deviate")),
            (Err(reason), None) => {
                self.failed.push(format!("{name}: {:?}: {reason}", test.text("expr")));
            }
        }
    }

    fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }
}

/// Whether a case uses message types, enums or wrappers.
fn needs_messages(test: &Message) -> bool {
    let expression = test.text("expr");
    let printed = format!("{test:?}");
    let well_known = |text: &str| {
        text.match_indices("google.protobuf.").any(|(at, found)| {
            let rest = &text[at + found.len()..];
            let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            !matches!(word, "Duration" | "Timestamp")
        })
    };
    expression.contains("TestAllTypes")
        || expression.contains("NestedTestAllTypes")
        || expression.contains("GlobalEnum")
        || printed.contains("TestAllTypes")
        || printed.contains("enum_value")
        || printed.contains("cel.expr.conformance")
        || printed.contains("cel.expr.ParsedExpr")
        || expression.contains("TestRequired")
        || expression.contains("Value{")
        || well_known(&expression)
        || well_known(&printed)
}

fn check(test: &Message) -> Result<(), String> {
    static BASE: LazyLock<Env> = LazyLock::new(|| {
        let base = Env::builder()
            .standard_library()
            .optional_types()
            .two_variable_comprehensions()
            .bindings()
            .escaped_identifiers()
            .extensions();
        base.build().unwrap()
    });
    let mut builder = BASE.extend().container(&test.text("container"));
    let mut declared = Vec::new();
    for declaration in test.messages("type_env") {
        let name = declaration.text("name");
        if let Some(ident) = declaration.message("ident") {
            let type_ = type_of(ident.message("type").ok_or("no type")?)?;
            builder = builder.variable(name.as_str(), type_);
            declared.push(name);
        } else {
            builder = builder.functions([declared_function(&name, declaration)?]);
        }
    }
    let mut values = BTreeMap::new();
    for binding in test.messages("bindings") {
        let value = binding.message("value").and_then(|value| value.message("value"));
        values.insert(binding.text("key"), value_of(value.ok_or("no value")?)?);
    }
    let undeclared: Vec<_> =
        values.keys().filter(|name| !declared.contains(name)).cloned().collect();
    for name in undeclared {
        builder = builder.variable(name.as_str(), Type::Dyn);
        declared.push(name);
    }
    let env = builder.build().map_err(|error| error.to_string())?;
    let expression = test.text("expr");
    let fails = test.has("eval_error") || test.has("any_eval_errors");
    let ast = match env.compile(&expression) {
        Ok(ast) => ast,
        Err(_) if fails => return Ok(()),
        Err(issues) => return Err(issues.to_string()),
    };
    if let Some(deduced) = test.message("typed_result").and_then(|r| r.message("deduced_type")) {
        let expected = type_of(deduced)?;
        if *ast.result_type() != expected {
            return Err(format!("type {}, expected {expected}", ast.result_type()));
        }
    }
    if test.flag("check_only") {
        return Ok(());
    }
    let program = match evenkeel_cel::Program::new(&env, &ast) {
        Ok(program) => program,
        Err(_) if fails => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let variables: Vec<Option<Value<'_>>> =
        declared.iter().map(|name| values.get(name).cloned()).collect();
    let result = program.run(&Variables(&variables), evenkeel_cel::Limits::default()).result;
    let expected = test.message("value");
    let expected =
        expected.or_else(|| test.message("typed_result").and_then(|r| r.message("result")));
    match (result, fails) {
        (Err(_), true) => Ok(()),
        (Ok(value), true) => Err(format!("{value:?}, expected an error")),
        (Err(error), false) => Err(error.to_string()),
        (Ok(value), false) => {
            let expected = match expected {
                Some(expected) => value_of(expected)?,
                None => Value::Bool(true),
            };
            if same(&value, &expected) {
                Ok(())
            } else {
                Err(format!("{value:?}, expected {expected:?}"))
            }
        }
    }
}

/// A function that cases only check, and do not call.
fn declared_function(name: &str, declaration: &Message) -> Result<Function, String> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let mut function = Function::new(leak(name.to_owned()));
    for overload in declaration.messages("function").flat_map(|f| f.messages("overloads")) {
        let arguments: Result<Vec<_>, _> = overload.messages("params").map(type_of).collect();
        let result = overload.message("result_type").map_or(Ok(Type::Dyn), type_of)?;
        let id = leak(overload.text("overload_id"));
        let overload = Overload::global(id, arguments?, result, |_| Err(Error::no_such_overload()));
        function = function.overload(overload);
    }
    Ok(function)
}

struct Variables<'v>(&'v [Option<Value<'static>>]);

impl<'a> evenkeel_cel::Activation<'a> for Variables<'_> {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, evenkeel_cel::Error>> {
        self.0.get(index).cloned().flatten().map(Ok)
    }
}

/// Equality of results: of one type, and `NaN` is itself.
fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) if a.is_nan() => b.is_nan(),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(&a, &b))
        }
        _ => a.type_().name() == b.type_().name() && a == b,
    }
}

fn value_of(message: &Message) -> Result<Value<'static>, String> {
    let Some((kind, field)) = message.0.first() else { return Ok(Value::Null) };
    let scalar = match field {
        Field::Scalar(text) => text.clone(),
        Field::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Field::Message(_) => String::new(),
    };
    let inner = match field {
        Field::Message(inner) => inner.clone(),
        _ => Message::default(),
    };
    Ok(match kind.as_str() {
        "null_value" => Value::Null,
        "bool_value" => Value::Bool(scalar == "true"),
        "int64_value" => Value::Int(scalar.parse().unwrap()),
        "uint64_value" => Value::Uint(scalar.parse().unwrap()),
        "double_value" => Value::Double(match scalar.as_str() {
            "inf" | "Infinity" => f64::INFINITY,
            "-inf" | "-Infinity" => f64::NEG_INFINITY,
            text => text.parse().map_err(|_| format!("double {text}"))?,
        }),
        "string_value" => Value::from(scalar),
        "bytes_value" => match field {
            Field::Text(bytes) => Value::from(bytes.clone()),
            _ => Value::from(Vec::new()),
        },
        "type_value" => Value::from(match scalar.as_str() {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "null_type" => Type::Null,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "type" => Type::Type(None),
            "google.protobuf.Timestamp" => Type::Timestamp,
            "google.protobuf.Duration" => Type::Duration,
            other => Type::opaque(other),
        }),
        "list_value" => {
            let values: Result<Vec<_>, String> = inner.messages("values").map(value_of).collect();
            Value::list(values?)
        }
        "map_value" => {
            let mut entries = Vec::new();
            for entry in inner.messages("entries") {
                let part = |name: &str| entry.message(name).ok_or("no entry").map(value_of);
                entries.push((part("key")??, part("value")??));
            }
            Value::Map(Map::new(entries).map_err(|error| error.to_string())?)
        }
        "object_value" => {
            let (url, value) = inner.0.first().ok_or("empty object")?;
            let Field::Message(value) = value else { return Err("object".to_owned()) };
            let number = |name: &str| value.text(name).parse::<i64>().unwrap_or_default();
            match url.rsplit('/').next() {
                Some("google.protobuf.Timestamp") => {
                    let nanos = u32::try_from(number("nanos")).unwrap();
                    Value::Timestamp(Timestamp::new(number("seconds"), nanos).ok_or("range")?)
                }
                Some("google.protobuf.Duration") => {
                    Value::Duration(Duration(number("seconds") * 1_000_000_000 + number("nanos")))
                }
                other => return Err(format!("object {other:?}")),
            }
        }
        other => return Err(format!("value {other}")),
    })
}

fn type_of(message: &Message) -> Result<Type, String> {
    let Some((kind, field)) = message.0.first() else { return Ok(Type::Dyn) };
    let scalar = match field {
        Field::Scalar(text) => text.as_str(),
        _ => "",
    };
    let inner = match field {
        Field::Message(inner) => inner.clone(),
        _ => Message::default(),
    };
    let part = |name: &str| inner.message(name).map_or(Ok(Type::Dyn), type_of);
    let primitive = |name: &str| match name {
        "BOOL" => Ok(Type::Bool),
        "INT64" => Ok(Type::Int),
        "UINT64" => Ok(Type::Uint),
        "DOUBLE" => Ok(Type::Double),
        "STRING" => Ok(Type::String),
        "BYTES" => Ok(Type::Bytes),
        other => Err(format!("primitive {other}")),
    };
    Ok(match kind.as_str() {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "primitive" => primitive(scalar)?,
        "wrapper" => Type::wrapper(primitive(scalar)?),
        "well_known" => match scalar {
            "TIMESTAMP" => Type::Timestamp,
            "DURATION" => Type::Duration,
            _ => Type::Dyn,
        },
        "list_type" => Type::list(part("elem_type")?),
        "map_type" => Type::map(part("key_type")?, part("value_type")?),
        "type" => Type::type_of(type_of(&inner)?),
        "abstract_type" => {
            let name = inner.text("name");
            let parameters: Result<Vec<_>, String> =
                inner.messages("parameter_types").map(type_of).collect();
            match name.as_str() {
                "optional_type" => {
                    Type::optional(parameters?.first().cloned().unwrap_or(Type::Dyn))
                }
                _ => Type::Opaque(std::sync::Arc::new(OpaqueType {
                    name: name.into(),
                    parameters: parameters?,
                })),
            }
        }
        "type_param" => Type::param(match field {
            Field::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => scalar.to_owned(),
        }),
        "message_type" => match inner_text(field).as_str() {
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            other => return Err(format!("type {other}")),
        },
        other => return Err(format!("type {other}")),
    })
}

fn inner_text(field: &Field) -> String {
    match field {
        Field::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Field::Scalar(text) => text.clone(),
        Field::Message(_) => String::new(),
    }
}
