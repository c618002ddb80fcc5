//! Local corpus check.
#![allow(warnings)]
use evenkeel_cel::cost::*;
use evenkeel_cel::*;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Shape {
    type_: Type,
    max: Option<u64>,
    parts: Vec<Shape>,
}

fn parse(text: &str) -> (Shape, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
        .unwrap_or(text.len());
    let name = &text[..end];
    let mut rest = &text[end..];
    let mut parts = vec![];
    if let Some(r) = rest.strip_prefix('(') {
        rest = r;
        loop {
            let (p, r) = parse(rest.trim_start());
            parts.push(p);
            rest = r;
            if let Some(r) = rest.strip_prefix(',') {
                rest = r;
                continue;
            }
            rest = rest.strip_prefix(')').unwrap();
            break;
        }
    }
    let mut max = None;
    if let Some(r) = rest.strip_prefix('[') {
        let e = r.find(']').unwrap();
        max = Some(r[..e].parse().unwrap());
        rest = &r[e + 1..];
    }
    let type_ = match name {
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "bool" => Type::Bool,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "dyn" => Type::Dyn,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "list" => Type::list(parts[0].type_.clone()),
        "map" => Type::map(parts[0].type_.clone(), parts[1].type_.clone()),
        "optional" => Type::optional(parts[0].type_.clone()),
        other => panic!("{other}"),
    };
    (Shape { type_, max, parts }, rest)
}

fn value(shape: &Shape, json: &serde_json::Value) -> Value<'static> {
    match &shape.type_ {
        Type::Uint => Value::Uint(json.as_u64().unwrap()),
        Type::Double => Value::Double(json.as_f64().unwrap()),
        Type::Bytes => Value::from(json.as_str().unwrap().as_bytes().to_vec()),
        Type::Timestamp => Value::Timestamp(Timestamp::parse(json.as_str().unwrap()).unwrap()),
        Type::Duration => Value::Duration(Duration::parse(json.as_str().unwrap()).unwrap()),
        Type::Map(e) if e.0 != Type::String => {
            let m = json.as_object().unwrap();
            Value::Map(
                Map::new(
                    m.iter()
                        .map(|(k, v)| (Value::Int(k.parse().unwrap()), value(&shape.parts[1], v))),
                )
                .unwrap(),
            )
        }
        Type::Opaque(_) => {
            Value::optional(if json.is_null() { None } else { Some(value(&shape.parts[0], json)) })
        }
        _ => Value::from_json(Box::leak(Box::new(json.clone()))).into_owned(),
    }
}

struct Sizes(HashMap<String, Shape>);
impl SizeEstimator for Sizes {
    fn size(&self, node: &CostNode<'_>) -> Option<SizeEstimate> {
        let mut path = node.path.iter();
        let mut shape = self.0.get(&**path.next()?)?;
        for part in path {
            shape = match &**part {
                "@items" => shape.parts.first()?,
                "@keys" => shape.parts.first()?,
                "@values" => shape.parts.get(1)?,
                "@indices" => return None,
                _ => match &shape.type_ {
                    Type::Map(_) => shape.parts.get(1)?,
                    _ => return None,
                },
            };
        }
        shape.max.map(|max| SizeEstimate { min: 0, max })
    }
}

fn quote(s: &str) -> String {
    serde_json::to_string(s).unwrap()
}

fn render(v: &Value<'_>) -> String {
    match v {
        Value::Null => "null".into(),
        Value::Bytes(b) => {
            format!("bytes({})", b.iter().map(|b| format!("{b:02x}")).collect::<String>())
        }
        Value::String(s) => quote(s),
        Value::Duration(d) => format!("duration({})", d.0),
        Value::Timestamp(t) => {
            format!("timestamp({})", Timestamp::new(t.seconds(), t.nanos()).unwrap())
        }
        Value::Optional(None) => "optional.none()".into(),
        Value::Optional(Some(v)) => format!("optional.of({})", render(v)),
        Value::Type(t) => format!("type({})", t.name()),
        Value::List(l) => {
            format!("[{}]", l.iter().map(|v| render(&v)).collect::<Vec<_>>().join(", "))
        }
        Value::Map(m) => {
            let mut e: Vec<_> =
                m.iter().map(|(k, v)| format!("{}: {}", render(&k), render(&v))).collect();
            e.sort();
            format!("{{{}}}", e.join(", "))
        }
        Value::Double(d) => format!("{d:e}"),
        other => format!("{other:?}"),
    }
}

fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let Some(end) = rest[at..].find("}}") else { break };
        let inner = &rest[at + 2..at + end];
        let Some((n, what)) = inner.split_once('*') else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        let Ok(n) = n.parse::<usize>() else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        out.push_str(&rest[..at]);
        out.push_str(&what.repeat(n));
        rest = &rest[at + end + 2..];
    }
    out.push_str(rest);
    out
}

#[test]
fn corpus() {
    let base = Env::builder()
        .standard_library()
        .optional_types()
        .two_variable_comprehensions()
        .extensions()
        .homogeneous_literals(true)
        .presence_test_has_cost(false)
        .validate_literals(true)
        .build()
        .unwrap();
    let (mut ok, mut bad) = (0, 0);
    for file in [
        "literals",
        "operators",
        "strings",
        "time",
        "collections",
        "comprehensions",
        "checker",
        "cost",
    ] {
        let text = std::fs::read_to_string(format!(
            "{}/tests/corpus/{file}.txt",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let mut vars: Vec<(String, Shape, Value<'static>)> = vec![];
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("## ") {
                vars.clear();
                continue;
            }
            if let Some(v) = line.strip_prefix("var ") {
                let (name, rest) = v.split_once(' ').unwrap();
                let (shape, json) = parse(rest);
                let json = serde_json::from_str(json.trim()).unwrap();
                let val = value(&shape, &json);
                vars.push((name.into(), shape, val));
                continue;
            }
            let Some(expr) = line.strip_prefix("> ") else { continue };
            let mut expr = expr.to_owned();
            while let Some(more) = lines
                .peek()
                .and_then(|l| l.strip_prefix("| ").or(if *l == "|" { Some("") } else { None }))
            {
                expr.push('\n');
                expr.push_str(more);
                lines.next();
            }
            let expr = expand(&expr);
            let mut want = vec![];
            while let Some(l) = lines.peek().filter(|l| l.starts_with(['!', ':', '%', '?', '='])) {
                want.push(l.to_string());
                lines.next();
            }
            let mut b = base.extend();
            let mut sizes = HashMap::new();
            for (n, s, _) in &vars {
                b = b.variable(n.as_str(), s.type_.clone());
                sizes.insert(n.clone(), s.clone());
            }
            let env = b.build().unwrap();
            let mut got = vec![];
            match env.compile(&expr) {
                Err(i) => got.extend(i.to_string().lines().map(|l| format!("! {l}"))),
                Ok(ast) => {
                    let est = env.estimate_cost(&ast, &Sizes(sizes));
                    let m = |n: u64| if n == u64::MAX { "max".into() } else { n.to_string() };
                    match Program::new(&env, &ast) {
                        Err(e) => {
                            got.push(format!(
                                ": {} {}..{}",
                                ast.result_type(),
                                m(est.min),
                                m(est.max)
                            ));
                            got.push(format!("% {e}"))
                        }
                        Ok(p) => {
                            let vs: Vec<_> = vars.iter().map(|v| v.2.clone()).collect();
                            let r = p.run(
                                vs.as_slice2(),
                                Limits { cost: Some(1_000_000), ..Default::default() },
                            );
                            got.push(format!(
                                ": {} {}..{} {}",
                                ast.result_type(),
                                m(est.min),
                                m(est.max),
                                r.cost
                            ));
                            got.push(match &r.result {
                                Ok(v) => format!("= {}", render(v)),
                                Err(e) => format!("? {e}"),
                            });
                        }
                    }
                }
            }
            let cut = |l: &String| {
                if l.chars().count() > 402 {
                    l.chars().take(402).collect::<String>()
                } else {
                    l.clone()
                }
            };
            let want2: Vec<_> =
                want.iter().map(|l| l.split('…').next().unwrap().to_owned()).collect();
            let same = want.len() == got.len()
                && want.iter().zip(&got).all(|(w, g)| match w.split_once('…') {
                    Some((p, _)) => g.starts_with(p),
                    None => w == g,
                });
            if same {
                ok += 1
            } else {
                bad += 1;
                println!("--- {file}: {}", expr.chars().take(300).collect::<String>());
                for w in &want {
                    println!("  want {}", w.chars().take(300).collect::<String>());
                }
                for g in &got {
                    println!("  got  {}", g.chars().take(300).collect::<String>());
                }
            }
        }
    }
    println!("{ok} same, {bad} differ");
}

trait S2 {
    fn as_slice2(&self) -> &Acts;
}
struct Acts(Vec<Value<'static>>);
impl S2 for Vec<Value<'static>> {
    fn as_slice2(&self) -> &Acts {
        Box::leak(Box::new(Acts(self.clone())))
    }
}
impl<'a> Activation<'a> for Acts {
    fn variable(&self, i: usize) -> Option<Result<Value<'a>, Error>> {
        self.0.get(i).cloned().map(Ok)
    }
}
