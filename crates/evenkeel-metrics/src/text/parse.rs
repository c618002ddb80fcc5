//! A strict parser of the text format, for tests of what a program exports.
//!
//! It refuses what Prometheus tolerates but its guidelines forbid, as `promtool check metrics` does:
//! families without `HELP` or `TYPE`, out of order or divided, counters without `_total`, series that
//! are repeated, and histograms whose buckets are not cumulative.

use std::collections::BTreeSet;

use super::{is_label_name, is_metric_name};
use crate::registry::Kind;

/// A family of a parsed text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedFamily {
    /// The name.
    pub name: String,
    /// The text of the `HELP` line.
    pub help: String,
    /// The type.
    pub kind: Kind,
    /// The samples in order.
    pub samples: Vec<Sample>,
}

/// A sample of a parsed text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The name, with the suffix of a histogram.
    pub name: String,
    /// The labels in order.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Why a text does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// The line, from one.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Parses a text.
///
/// ```
/// use evenkeel_metrics::text::parse;
///
/// let text = "# HELP up_total Starts.\n# TYPE up_total counter\nup_total{zone=\"a\"} 1\n";
/// let families = parse(text).unwrap();
/// assert_eq!(families[0].samples[0].label("zone"), Some("a"));
/// assert!(parse("up_total 1\n").is_err());
/// ```
///
/// # Errors
/// When the text violates the format or the guidelines; see the error.
pub fn parse(text: &str) -> Result<Vec<ParsedFamily>, ParseError> {
    let mut parser = Parser::default();
    let mut line = 0;
    for content in text.split_inclusive('\n') {
        line += 1;
        let fail = |problem| ParseError { line, problem };
        let content = content.strip_suffix('\n').ok_or_else(|| fail("no end of line".into()))?;
        parser.line(content).map_err(fail)?;
    }
    parser.end().map_err(|problem| ParseError { line, problem })?;
    Ok(parser.families)
}

#[derive(Default)]
struct Parser {
    families: Vec<ParsedFamily>,
    /// The family of the last `HELP` line, until its `TYPE` line.
    help: Option<(String, String)>,
    /// The series of the last family.
    series: BTreeSet<String>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            self.end()?;
            let (name, help) = rest.split_once(' ').ok_or("HELP without a text")?;
            self.help = Some((metric_name(name)?, unescape(help, false)?));
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("TYPE without a type")?;
            let (known, help) = self.help.take().ok_or("TYPE without HELP before it")?;
            if known != name {
                return Err(format!("TYPE of {name:?} after HELP of {known:?}"));
            }
            return self.begin(known, help, kind);
        }
        if line.starts_with('#') || line.trim().is_empty() {
            return Err("a line that is neither HELP, TYPE nor a sample".to_owned());
        }
        let sample = sample(line)?;
        let Some(family) = self.families.last_mut().filter(|_| self.help.is_none()) else {
            return Err("a sample before its HELP and TYPE".to_owned());
        };
        let suffix = sample.name.strip_prefix(&*family.name);
        let allowed: &[&str] = match family.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        if !suffix.is_some_and(|suffix| allowed.contains(&suffix)) {
            return Err(format!("sample {:?} in the family {:?}", sample.name, family.name));
        }
        if family.kind != Kind::Gauge && (sample.value.is_nan() || sample.value < 0.0) {
            return Err(format!("{} is negative or not a number", sample.name));
        }
        let mut labels = sample.labels.clone();
        labels.sort();
        if !self.series.insert(format!("{}{labels:?}", sample.name)) {
            return Err(format!("{} with the same labels twice", sample.name));
        }
        family.samples.push(sample);
        Ok(())
    }

    fn begin(&mut self, name: String, help: String, kind: &str) -> Result<(), String> {
        let kind = match kind {
            "counter" => Kind::Counter,
            "gauge" => Kind::Gauge,
            "histogram" => Kind::Histogram,
            other => return Err(format!("the type {other:?} of {name:?}")),
        };
        if (kind == Kind::Counter) != name.ends_with("_total") {
            return Err(format!("{name:?}: counters end in _total, and only they do"));
        }
        if help.is_empty() {
            return Err(format!("{name:?} has an empty HELP"));
        }
        if self.families.last().is_some_and(|last| last.name >= name) {
            return Err(format!("{name:?} is not sorted, or a duplicate"));
        }
        self.series.clear();
        self.families.push(ParsedFamily { name, help, kind, samples: Vec::new() });
        Ok(())
    }

    /// Checks the last family.
    fn end(&self) -> Result<(), String> {
        if let Some((name, _)) = &self.help {
            return Err(format!("HELP of {name:?} without a TYPE"));
        }
        match self.families.last() {
            Some(family) if family.kind == Kind::Histogram => check_histogram(family),
            _ => Ok(()),
        }
    }
}

/// Checks that the buckets of each histogram ascend, are cumulative and end with `+Inf`, and that
/// the sum and the count follow.
fn check_histogram(family: &ParsedFamily) -> Result<(), String> {
    let bad = |problem: &str| Err(format!("{}: {problem}", family.name));
    let mut samples = family.samples.iter().peekable();
    while samples.peek().is_some() {
        let (mut bound, mut count, mut rest) = (f64::NEG_INFINITY, 0.0, None);
        while let Some(bucket) = samples.next_if(|it| it.name.ends_with("_bucket")) {
            let Some(le) = bucket.label("le") else { return bad("a bucket without le") };
            let Ok(le) = number(le) else { return bad("le is not a number") };
            if le <= bound || bucket.value < count {
                return bad("the buckets do not ascend");
            }
            (bound, count) = (le, bucket.value);
            let others = bucket.labels.iter().filter(|(name, _)| name != "le").cloned();
            let others: Vec<_> = others.collect();
            if rest.get_or_insert_with(|| others.clone()) != &others {
                return bad("buckets of two series");
            }
        }
        if bound != f64::INFINITY {
            return bad("the last bucket is not +Inf");
        }
        for suffix in ["_sum", "_count"] {
            let next = samples.next().filter(|it| it.name.ends_with(suffix));
            let Some(next) = next.filter(|it| Some(&it.labels) == rest.as_ref()) else {
                return bad("no sum and count after the buckets");
            };
            if suffix == "_count" && next.value != count {
                return bad("the count is not that of +Inf");
            }
        }
    }
    Ok(())
}

/// Names and values.
type Labels = Vec<(String, String)>;

fn metric_name(name: &str) -> Result<String, String> {
    match is_metric_name(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{name:?} is not a metric name")),
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("a sample without a value")?;
    let name = metric_name(&line[..end])?;
    let (labels, value) = match line[end..].strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), &line[end..]),
    };
    let value = value.strip_prefix(' ').ok_or("no space before the value")?;
    Ok(Sample { name, labels, value: number(value)? })
}

/// Parses labels up to the closing brace; returns the rest of the line, too.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_label_name(name) || labels.iter().any(|(known, _)| known == name) {
            return Err(format!("{name:?} is not a label name, or repeated"));
        }
        let mut escaped = false;
        let quote = after.find(|character| {
            let end = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            end
        });
        let quote = quote.ok_or("no closing quote")?;
        labels.push((name.to_owned(), unescape(&after[..quote], true)?));
        rest = &after[quote + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Ok((labels, rest.strip_prefix('}').ok_or("no closing brace")?)),
        }
    }
}

fn unescape(text: &str, quotes: bool) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        result.push(match character {
            '\\' => match characters.next() {
                Some('\\') => '\\',
                Some('n') => '\n',
                Some('"') if quotes => '"',
                _ => return Err("an unknown escape".to_owned()),
            },
            other => other,
        });
    }
    Ok(result)
}

fn number(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.e".contains(&byte));
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        _ if plain => text.parse().map_err(|_| format!("{text:?} is not a number")),
        _ => Err(format!("{text:?} is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn violations_are_named_with_their_line() {
        let head = "# HELP a_total A.\n# TYPE a_total counter\n";
        let cases = [
            ("a_total 1\n", "line 1: a sample before its HELP and TYPE"),
            ("# TYPE a_total counter\n", "line 1: TYPE without HELP before it"),
            ("# HELP a A.\n", "line 1: HELP of \"a\" without a TYPE"),
            ("# HELP a A.\n# TYPE a counter\n", "line 2: \"a\": counters end in _total"),
            ("# HELP a A.\n# TYPE a summary\n", "line 2: the type \"summary\""),
            ("\n", "line 1: a line that is neither"),
            (&format!("{head}a_total 1"), "line 3: no end of line"),
            (&format!("{head}b_total 1\n"), "line 3: sample \"b_total\""),
            (&format!("{head}a_total -1\n"), "line 3: a_total is negative"),
            (&format!("{head}a_total 0x1\n"), "line 3: \"0x1\" is not a number"),
            (&format!("{head}a_total 1 1700\n"), "line 3: \"1 1700\" is not a number"),
            (&format!("{head}a_total 1\na_total 1\n"), "line 4: a_total with the same labels"),
            (&format!("{head}a_total{{x=\"1\",x=\"2\"}} 1\n"), "line 3: \"x\" is not a label"),
            (&format!("{head}a_total{{x=\"\\t\"}} 1\n"), "line 3: an unknown escape"),
            (&format!("{head}a_total{{x=\"1\" 1\n"), "line 3: no closing brace"),
            (&format!("{head}a_total{{x=\"1}} 1\n"), "line 3: no closing quote"),
            (&format!("{head}{head}"), "line 4: \"a_total\" is not sorted"),
        ];
        for (text, expected) in cases {
            let problem = problem(text);
            assert!(problem.starts_with(expected), "{problem} instead of {expected}");
        }
    }

    #[test]
    fn histograms_are_checked() {
        let histogram = |lines: &str| format!("# HELP h H.\n# TYPE h histogram\n{lines}");
        let good = "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n";
        parse(&histogram(good)).unwrap();
        for (from, to, expected) in [
            ("+Inf", "2", "the last bucket is not +Inf"),
            ("le=\"1\"} 1", "le=\"1\"} 3", "the buckets do not ascend"),
            ("h_count 2", "h_count 3", "the count is not that of +Inf"),
            ("h_sum 3\n", "", "no sum and count"),
        ] {
            let problem = problem(&histogram(&good.replace(from, to)));
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
