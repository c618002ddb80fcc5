//! Schedules of CronJobs, parsed and computed as by the cron library of Kubernetes
//! (github.com/robfig/cron/v3): five fields or a descriptor such as `@daily`, optionally after a
//! time zone.
//!
//! The API server validates with [`Cron::parse`], which returns the library's errors, and the
//! CronJob controller computes start times with [`Cron::next`].

mod next;

#[cfg(test)]
mod tests;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    zone: Option<String>,
    schedule: Schedule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Schedule {
    Fields(Fields),
    /// A fixed delay, in whole seconds.
    Every(i64),
}

/// One bit for each value of a field, and [`STAR`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

/// Set for a field with `*` or `?` without a step above 1.
const STAR: u64 = 1 << 63;

struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOURS: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAYS: Bounds = Bounds { min: 1, max: 31, names: &[] };
/// Names count from the minimum.
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Cron {
    /// Parses a schedule. `is_zone` returns whether a time zone exists.
    ///
    /// # Errors
    /// The library's error message.
    pub fn parse(text: &str, is_zone: impl Fn(&str) -> bool) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (mut rest, mut zone) = (text, None);
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let Some((prefix, after)) = text.split_once(' ') else {
                // The library slices with an index of -1.
                let error =
                    "invalid schedule format: runtime error: slice bounds out of range [:-1]";
                return Err(error.to_owned());
            };
            let name = prefix.split_once('=').map_or("", |(_, name)| name);
            check_zone(name, is_zone)?;
            zone = Some(name.to_owned());
            rest = after.trim();
        }
        let schedule = if rest.starts_with('@') {
            Schedule::descriptor(rest)?
        } else {
            Schedule::Fields(Fields::parse(rest)?)
        };
        Ok(Self { zone, schedule })
    }

    /// Returns the time zone before the fields; empty for UTC.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }
}

fn check_zone(name: &str, is_zone: impl Fn(&str) -> bool) -> Result<(), String> {
    if name.is_empty() || is_zone(name) {
        return Ok(());
    }
    let error = if name.contains("..") || name.starts_with(['/', '\\']) {
        "time: invalid location name".to_owned()
    } else {
        format!("unknown time zone {name}")
    };
    Err(format!("provided bad location {name}: {error}"))
}

impl Schedule {
    fn descriptor(text: &str) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => match text.strip_prefix("@every ") {
                None => return Err(format!("unrecognized descriptor: {text}")),
                Some(delay) => {
                    let nanos = crate::duration::parse(delay)
                        .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
                    return Ok(Self::Every((nanos / 1_000_000_000).max(1)));
                }
            },
        };
        Fields::parse(fields).map(Self::Fields)
    }
}

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            let (count, all) = (parts.len(), parts.join(" "));
            return Err(format!("expected exactly 5 fields, found {count}: [{all}]"));
        };
        Ok(Self {
            minutes: field(minutes, &MINUTES)?,
            hours: field(hours, &HOURS)?,
            days: field(days, &DAYS)?,
            months: field(months, &MONTHS)?,
            weekdays: field(weekdays, &WEEKDAYS)?,
        })
    }
}

/// Parses a field: a list of ranges, in which empty items are skipped.
fn field(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    ranges.map(|expression| range(expression, bounds)).try_fold(0, |bits, more| Ok(bits | more?))
}

/// Parses `*`, `a` or `a-b`, each with an optional `/step`.
fn range(expression: &str, bounds: &Bounds) -> Result<u64, String> {
    let mut parts = expression.split('/');
    let span = parts.next().unwrap_or_default();
    let mut ends = span.split('-');
    let low = ends.next().unwrap_or_default();
    let single = !span.contains('-');
    let mut star = 0;
    let (start, mut end) = if low == "*" || low == "?" {
        star = STAR;
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(low, bounds)?;
        match (ends.next(), ends.next()) {
            (None, _) => (start, start),
            (Some(high), None) => (start, number_or_name(high, bounds)?),
            _ => return Err(format!("too many hyphens: {expression}")),
        }
    };
    let step = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = number(step)?;
            // A single value with a step extends to the maximum.
            if single {
                end = bounds.max;
            }
            if step > 1 {
                star = 0;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {expression}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {expression}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {expression}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    let values = (start..=end).filter(|value| (value - start) % step == 0);
    Ok(values.fold(star, |bits, value| bits | 1 << value))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let named = bounds.names.iter().zip(bounds.min..);
    let mut named = named.filter(|(name, _)| name.eq_ignore_ascii_case(text));
    named.next().map_or_else(|| number(text), |(_, value)| Ok(value))
}

fn number(text: &str) -> Result<u64, String> {
    let error = |reason: &str| {
        let quoted = crate::go::quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {reason}")
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(error("invalid syntax"));
    }
    let value = text.parse::<i64>().map_err(|_| error("value out of range"))?;
    u64::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {text}"))
}
