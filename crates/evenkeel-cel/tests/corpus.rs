//! Runs the committed corpus of expressions and compares type, estimated and actual cost, value and error
//! texts with those of cel-go. Differences must be explained in [`DIFFERENCES`].

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_cel::cost::{CostNode, SizeEstimate, SizeEstimator};
use evenkeel_cel::kubernetes::{self, Authorizer, Check, Decision, PER_CALL_LIMIT, Subject};
use evenkeel_cel::{Env, Limits, Program, Type, Value};
use serde_json::Value as Json;

const FILES: [(&str, &str); 10] = [
    ("authorizer", include_str!("corpus/authorizer.txt")),
    ("checker", include_str!("corpus/checker.txt")),
    ("collections", include_str!("corpus/collections.txt")),
    ("comprehensions", include_str!("corpus/comprehensions.txt")),
    ("cost", include_str!("corpus/cost.txt")),
    ("kubernetes", include_str!("corpus/kubernetes.txt")),
    ("literals", include_str!("corpus/literals.txt")),
    ("operators", include_str!("corpus/operators.txt")),
    ("strings", include_str!("corpus/strings.txt")),
    ("time", include_str!("corpus/time.txt")),
];

/// Expressions whose answer differs, with the reason.
const DIFFERENCES: [(&str, &str); 12] = [
    ("in", RECOVERY),
    ("a.in", RECOVERY),
    ("{in: 1}", RECOVERY),
    ("a ?: b", RECOVERY),
    ("google.protobuf.Timestamp{seconds: 1}", PROTOBUF),
    ("google.protobuf.Struct{}", PROTOBUF),
    ("google.protobuf.Int64Value{value: 1}", PROTOBUF),
    ("google.protobuf.Value", PROTOBUF),
    ("xs.sortBy(e, 1 / 0)", "cel-go reports an internal error"),
    (
        "quantity('9999999999999999999999999999999999999G').asApproximateFloat()",
        "the last digit of a conversion that is approximate",
    ),
    ("Object{a: 1}.b", "a field that is not set has no value"),
    ("Object{spec: Object.spec{replicas: 1}}.spec == Object.spec{replicas: 1}", IDENTITY),
];

const RECOVERY: &str = "further errors after the first one, where ANTLR resumes";
const PROTOBUF: &str = "messages of protocol buffers are not supported";
const IDENTITY: &str = "cel-go compares pointers to objects";

#[test]
fn answers_are_those_of_cel_go() {
    let mut count = 0;
    let mut explained: BTreeSet<&str> = DIFFERENCES.iter().map(|(text, _)| *text).collect();
    let mut differences = Vec::new();
    for (file, text) in FILES {
        for case in cases(text) {
            count += 1;
            let answer = answer(&case);
            if answer == case.answer {
                continue;
            }
            if explained.remove(&*case.expression) {
                continue;
            }
            let (expected, got) = (case.answer.join("\n  "), answer.join("\n  "));
            let expression = &case.expression;
            differences.push(format!("{file}: {expression}\n  {expected}\nours:\n  {got}"));
        }
    }
    println!("{count} cases, {} explained differences", DIFFERENCES.len());
    assert!(explained.is_empty(), "no longer different: {explained:?}");
    assert!(count > 2000, "{count} cases");
    let all = differences.len();
    assert!(all == 0, "{all} of {count} differ\n{}", differences.join("\n"));
}

struct Case {
    expression: String,
    variables: Vec<Variable>,
    answer: Vec<String>,
}

#[derive(Clone)]
struct Variable {
    name: Arc<str>,
    declared: Declared,
    json: Json,
}

/// A type with the largest number of its elements.
#[derive(Clone, Debug)]
struct Declared {
    type_: Type,
    max: Option<u64>,
    parts: Vec<Declared>,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut variables = Vec::new();
    for line in text.lines() {
        let (start, rest) = line.split_once(' ').unwrap_or((line, ""));
        match start {
            "##" => variables.clear(),
            "var" => variables.push(variable(rest)),
            ">" => cases.push(Case {
                expression: rest.to_owned(),
                variables: variables.clone(),
                answer: Vec::new(),
            }),
            "|" => {
                let case = cases.last_mut().unwrap();
                case.expression = format!("{}\n{rest}", case.expression);
            }
            ":" | "=" | "!" | "?" | "%" => {
                cases.last_mut().unwrap().answer.push(line.to_owned());
            }
            "#" | "" => {}
            other => panic!("unknown line: {other} {rest}"),
        }
    }
    cases
}

fn variable(line: &str) -> Variable {
    let (name, rest) = line.split_once(' ').unwrap();
    let (declared, rest) = parse_type(rest);
    Variable { name: name.into(), declared, json: serde_json::from_str(rest.trim()).unwrap() }
}

fn parse_type(text: &str) -> (Declared, &str) {
    let text = text.trim_start();
    let end = text.find(['(', ' ', ',', ')', '[']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut parts = Vec::new();
    if rest.starts_with('(') {
        while !rest.starts_with(')') {
            let (part, after) = parse_type(&rest[1..]);
            parts.push(part);
            rest = after;
        }
        rest = &rest[1..];
    }
    let part = |at: usize| parts[at].type_.clone();
    let type_ = match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "list" => Type::list(part(0)),
        "map" => Type::map(part(0), part(1)),
        "optional" => Type::optional(part(0)),
        "authorizer" => Type::object("kubernetes.authorization.Authorizer"),
        other => panic!("unknown type: {other}"),
    };
    let mut max = None;
    if let Some(limit) = rest.strip_prefix('[') {
        let (limit, after) = limit.split_once(']').unwrap();
        (max, rest) = (Some(limit.parse().unwrap()), after);
    }
    (Declared { type_, max, parts }, rest)
}

/// A value of a declared type; `evaluate` makes those that JSON does not have.
fn value(type_: &Type, json: &Json) -> Value<'static> {
    let text = || json.as_str().unwrap();
    let evaluate = |function: &str| {
        let source = format!("{function}({:?})", text());
        let program = kubernetes::environment().program(&source).unwrap();
        let result = program.evaluate(&[]);
        result.unwrap().into_owned()
    };
    match type_ {
        Type::Uint => Value::Uint(json.as_u64().unwrap()),
        Type::Double => Value::Double(json.as_f64().unwrap()),
        Type::Bytes => Value::from(text().as_bytes().to_vec()),
        Type::Timestamp => evaluate("timestamp"),
        Type::Duration => evaluate("duration"),
        Type::List(element) => {
            let items = json.as_array().unwrap().iter().map(|item| value(element, item));
            Value::list(items.collect::<Vec<_>>())
        }
        Type::Map(entry) => {
            let entries = json.as_object().unwrap().iter().map(|(key, item)| {
                let key = match entry.0 {
                    Type::Int => Value::Int(key.parse().unwrap()),
                    _ => Value::from(key.clone()),
                };
                (key, value(&entry.1, item))
            });
            Value::Map(evenkeel_cel::Map::new(entries).unwrap())
        }
        Type::Opaque(opaque) => {
            let inner = &opaque.parameters[0];
            Value::optional((!json.is_null()).then(|| value(inner, json)))
        }
        Type::Struct(_) => {
            let name = |key: &str| json[key].as_str().unwrap().to_owned();
            kubernetes::authorizer(Arc::new(Named { user: name("user"), allow: name("allow") }))
        }
        _ => Value::from_json(json).into_owned(),
    }
}

/// Allows one user, fails for the verb `fail`, and returns the attributes as the reason.
struct Named {
    user: String,
    allow: String,
}

impl Authorizer for Named {
    fn authorize(&self, check: &Check) -> Decision {
        let (user, groups) = match &check.subject {
            Subject::Requestor => (self.user.clone(), String::new()),
            Subject::ServiceAccount { namespace, name } => (
                format!("system:serviceaccount:{namespace}:{name}"),
                format!("system:serviceaccounts,system:serviceaccounts:{namespace}"),
            ),
        };
        let parts = [
            ("user", &*user),
            ("groups", &*groups),
            ("verb", &*check.verb),
            ("path", check.path.as_deref().unwrap_or_default()),
            ("group", &*check.group),
            ("resource", &*check.resource),
            ("subresource", &*check.subresource),
            ("namespace", &*check.namespace),
            ("name", &*check.name),
        ];
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<String> = parts.map(|(name, text)| format!("{name}={text}")).collect();
        let fails = &*check.verb == "fail";
        Decision {
            allowed: user == self.allow && !fails,
            reason: parts.join(" "),
            error: fails.then(|| "authorizer failed".to_owned()),
        }
    }
}

impl SizeEstimator for Case {
    fn size(&self, node: &CostNode<'_>) -> Option<SizeEstimate> {
        let (root, steps) = node.path.split_first()?;
        let mut current = &self.variables.iter().find(|variable| variable.name == *root)?.declared;
        for step in steps {
            let at = match (&**step, &current.type_) {
                ("@items", _) | ("@keys", Type::Map(_)) => 0,
                ("@values", Type::Map(_)) => 1,
                _ => return None,
            };
            current = current.parts.get(at)?;
        }
        Some(SizeEstimate { min: 0, max: current.max? })
    }
}

fn answer(case: &Case) -> Vec<String> {
    let mut builder = kubernetes::environment()
        .extend()
        .functions(kubernetes::json_patch_functions())
        .type_provider(Arc::new(kubernetes::MutationTypes));
    for variable in &case.variables {
        builder = builder.variable(variable.name.clone(), variable.declared.type_.clone());
    }
    let env: Env = builder.build().unwrap();
    let ast = match env.compile(&expand(&case.expression)) {
        Ok(ast) => ast,
        Err(issues) => return block("!", &issues.to_string()),
    };
    let estimate = env.estimate_cost(&ast, case);
    let type_ = printed(ast.result_type());
    let typed = format!("{type_} {}..{}", cost(estimate.min), cost(estimate.max));
    let program = match Program::new(&env, &ast) {
        Ok(program) => program,
        Err(error) => return [block(":", &typed), block("%", &error.to_string())].concat(),
    };
    let variables: Vec<Value<'_>> = case
        .variables
        .iter()
        .map(|variable| value(&variable.declared.type_, &variable.json))
        .collect();
    let limits = Limits { cost: Some(PER_CALL_LIMIT), ..Limits::default() };
    let evaluation = program.run(&variables, limits);
    let typed = format!("{typed} {}", cost(evaluation.cost));
    let result = match evaluation.result {
        Ok(value) => block("=", &render(&value)),
        Err(error) => block("?", &error.to_string()),
    };
    [block(":", &typed), result].concat()
}

/// A type with the full names of its parts; the messages of the checker have shorter ones.
fn printed(type_: &Type) -> String {
    let parts: Vec<String> = match type_ {
        Type::List(element) => vec![printed(element)],
        Type::Map(entry) => vec![printed(&entry.0), printed(&entry.1)],
        Type::Type(Some(inner)) => vec![printed(inner)],
        Type::Opaque(opaque) => opaque.parameters.iter().map(printed).collect(),
        _ => Vec::new(),
    };
    match parts.is_empty() {
        true => type_.name().to_owned(),
        false => format!("{}({})", type_.name(), parts.join(", ")),
    }
}

fn cost(units: u64) -> String {
    if units == u64::MAX { "max".to_owned() } else { units.to_string() }
}

/// Replaces `{{3*ab}}` with `ababab`.
fn expand(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    while let Some((before, repeat)) = rest.split_once("{{") {
        let (count, repeat) = repeat.split_once('*').unwrap();
        let (text, after) = repeat.split_once("}}").unwrap();
        out.push_str(before);
        out.push_str(&text.repeat(count.parse().unwrap()));
        rest = after;
    }
    out + rest
}

fn block(start: &str, text: &str) -> Vec<String> {
    let cut = |line: &str| match line.chars().count() {
        length if length > 400 => {
            format!("{start} {}…{length}", line.chars().take(400).collect::<String>())
        }
        _ => format!("{start} {line}"),
    };
    text.split('\n').map(cut).collect()
}

fn render(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) if value.is_finite() => format!("{value:e}"),
        Value::Double(value) => value.to_string(),
        Value::String(text) => serde_json::to_string(&**text).unwrap(),
        Value::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes({hex})")
        }
        Value::Duration(duration) => format!("duration({})", duration.0),
        Value::Timestamp(timestamp) => format!("timestamp({timestamp})"),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| render(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let entries: BTreeMap<String, ()> = map
                .iter()
                .map(|(key, value)| (format!("{}: {}", render(&key), render(&value)), ()))
                .collect();
            format!("{{{}}}", entries.into_keys().collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) if &**object.type_name() == "JSONPatch" => {
            let fields = ["op", "from", "path", "value"]
                .iter()
                .filter_map(|name| Some(format!("{name}: {}", render(&object.get(name)?))));
            format!("JSONPatch{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Object(object) => format!("<{}>", object.type_name()),
        Value::Type(type_) if type_.optional_inner().is_some() => format!("type({})", type_.name()),
        Value::Type(type_) => format!("type({})", printed(type_)),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(value)) => format!("optional.of({})", render(value)),
        Value::Opaque(opaque) => match opaque.type_().name() {
            "kubernetes.Quantity" => format!("quantity({})", opaque.text()),
            "kubernetes.URL" => format!("url({})", serde_json::to_string(&opaque.text()).unwrap()),
            "kubernetes.Semver" => format!("semver({})", opaque.text()),
            "kubernetes.NamedFormat" => format!("format({})", opaque.text()),
            "net.IP" => format!("ip({})", opaque.text()),
            "net.CIDR" => format!("cidr({})", opaque.text()),
            other => format!("<{other}>"),
        },
    }
}
