//! Validates bounds and multiples. Integers are compared as integers if the bound is an integer.

use evenkeel_types::go::{self, Num};

use super::failure;
use super::path::Path;
use super::sink::Sink;
use crate::structural::{FormatRule, JsonType, JsonTypes, Node};

pub(super) fn check<S: Sink>(sink: &mut S, node: &Node, value: Num, path: &Path<'_>) {
    let checks = node.checks.as_deref();
    let number_type = NumberType {
        json_type: match node.types {
            JsonTypes::One(json_type @ (JsonType::Integer | JsonType::Number)) => Some(json_type),
            _ => None,
        },
        format: checks.and_then(|checks| checks.format.as_ref()).map(|(_, rule)| *rule),
    };
    let conforms = |sink: &mut S, number: Num, role: &str| {
        let conforms = number_type.contains(number);
        if !conforms {
            let json_type = number_type.json_type.map_or("", JsonType::name);
            sink.fail(|| failure::out_of_type(path, role, json_type, number_type.format_name()));
        }
        conforms
    };

    conforms(sink, value, "Checked");
    let Some(checks) = checks else { return };
    if let Some(factor) = checks.multiple_of {
        let native = conforms(sink, Num::Float(factor), "MultipleOf");
        match value {
            Num::Int(value) if native => multiple_of_int(sink, value, go::truncate(factor), path),
            value => multiple_of_float(sink, value.as_f64(), factor, path),
        }
    }
    if let Some(minimum) = checks.minimum {
        let native = conforms(sink, Num::Float(minimum), "Minimum boundary");
        let exclusive = checks.exclusive_minimum;
        let relation = if exclusive { "greater than" } else { "greater than or equal to" };
        match value {
            Num::Int(value) if native => {
                let bound = go::truncate(minimum);
                if value < bound || (exclusive && value == bound) {
                    sink.fail(|| failure::out_of_bounds(path, relation, &bound.to_string(), value));
                }
            }
            value => {
                let value = value.as_f64();
                if value < minimum || (exclusive && value == minimum) {
                    sink.fail(|| {
                        failure::out_of_bounds(path, relation, &go::float(minimum), value)
                    });
                }
            }
        }
    }
    if let Some(maximum) = checks.maximum {
        let native = conforms(sink, Num::Float(maximum), "Maximum boundary");
        let exclusive = checks.exclusive_maximum;
        let relation = if exclusive { "less than" } else { "less than or equal to" };
        match value {
            Num::Int(value) if native => {
                let bound = go::truncate(maximum);
                if value > bound || (exclusive && value == bound) {
                    sink.fail(|| failure::out_of_bounds(path, relation, &bound.to_string(), value));
                }
            }
            value => {
                let value = value.as_f64();
                if value > maximum || (exclusive && value == maximum) {
                    sink.fail(|| {
                        failure::out_of_bounds(path, relation, &go::float(maximum), value)
                    });
                }
            }
        }
    }
}

/// The range of numbers that a schema's type and format allow.
struct NumberType {
    json_type: Option<JsonType>,
    format: Option<FormatRule>,
}

impl NumberType {
    fn contains(&self, number: Num) -> bool {
        match (self.json_type, self.format) {
            (Some(JsonType::Integer), format) => {
                let (min, max) = match format {
                    Some(FormatRule::Int32) => (i64::from(i32::MIN), i64::from(i32::MAX)),
                    _ => (i64::MIN, i64::MAX),
                };
                match number {
                    Num::Int(i) => (min..=max).contains(&i),
                    Num::Float(f) => {
                        f.fract() == 0.0
                            && f >= min as f64
                            // The largest 64-bit integer has no exact float representation; the
                            // next float is out of range.
                            && if max == i64::MAX { f < max as f64 } else { f <= max as f64 }
                    }
                }
            }
            (Some(JsonType::Number), Some(FormatRule::Float)) => {
                (number.as_f64() as f32).is_finite()
            }
            _ => true,
        }
    }

    fn format_name(&self) -> Option<&'static str> {
        match self.format? {
            FormatRule::Int32 => Some("int32"),
            FormatRule::Int64 => Some("int64"),
            FormatRule::Float => Some("float"),
            FormatRule::Double => Some("double"),
            FormatRule::Text(_) | FormatRule::Ignored => None,
        }
    }
}

fn multiple_of_int<S: Sink>(sink: &mut S, value: i64, factor: i64, path: &Path<'_>) {
    if factor <= 0 {
        sink.fail(|| failure::factor_not_positive(path, factor, &factor.to_string()));
    } else if value % factor != 0 {
        sink.fail(|| failure::not_a_multiple(path, &factor.to_string(), value));
    }
}

fn multiple_of_float<S: Sink>(sink: &mut S, value: f64, factor: f64, path: &Path<'_>) {
    if factor <= 0.0 {
        return sink.fail(|| failure::factor_not_positive(path, factor, &go::float(factor)));
    }
    let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    if !is_json_integer(times) {
        sink.fail(|| failure::not_a_multiple(path, &go::float(factor), value));
    }
}

/// Returns whether a float is an integer that JSON represents exactly, within a rounding error.
pub(super) fn is_json_integer(f: f64) -> bool {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !f.is_finite() || f.abs() > SAFE {
        return false;
    }
    if f == f.trunc() {
        return true;
    }
    // Upstream compares with the value truncated to an unsigned integer, also for negative values.
    let cut = go_uint(f);
    if cut == 0.0 {
        return false;
    }
    (f - cut).abs() / (f.abs() + cut.abs()).min(f64::MAX) < EPSILON
}

/// Converts like Go's `float64(uint64(f))` on amd64: a negative number wraps around.
fn go_uint(f: f64) -> f64 {
    if f >= 0.0 { (f as u64) as f64 } else { (f as i64 as u64) as f64 }
}
