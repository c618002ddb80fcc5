//! Schedules of cron jobs: five fields, or a descriptor such as `@daily`.

use evenkeel_types::duration;

use super::zones::ZONES;

struct Bounds {
    min: u64,
    max: u64,
    names: &'static [(&'static str, u64)],
}

const MONTHS: &[(&str, u64)] = &[
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];

const DAYS: &[(&str, u64)] =
    &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

/// Minute, hour, day of month, month, day of week.
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: MONTHS },
    Bounds { min: 0, max: 6, names: DAYS },
];

/// Checks a schedule; the error says what is wrong with it.
pub(in crate::validate) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((prefix, after)) = schedule.split_once(' ') else {
            // Upstream slices up to an index it did not find.
            let fault = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
            return Err(fault.to_owned());
        };
        let zone = prefix.split_once('=').map_or("", |(_, zone)| zone);
        if !zone.is_empty() && !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for expression in field.split(',').filter(|e| !e.is_empty()) {
            range(expression, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => {
            Ok(())
        }
        _ => match text.strip_prefix("@every ") {
            None => Err(format!("unrecognized descriptor: {text}")),
            Some(every) => duration::parse(every)
                .map(drop)
                .map_err(|fault| format!("failed to parse duration {text}: {fault}")),
        },
    }
}

fn range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let mut parts = expression.split('/');
    let span = parts.next().unwrap_or_default();
    let mut ends = span.split('-');
    let low = ends.next().unwrap_or_default();
    let single = !span.contains('-');
    let (start, mut end) = if low == "*" || low == "?" {
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
            if single {
                end = bounds.max;
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
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let named = bounds.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, value)| Ok(*value))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"
        ));
    }
    let Ok(value) = text.parse::<i64>() else {
        return Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": value out of range"
        ));
    };
    u64::try_from(value).map_err(|_| format!("negative number ({value}) not allowed: {text}"))
}

/// What is wrong with a time zone, if anything.
pub(in crate::validate) fn time_zone_faults(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {zone}");
    let sound = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if !zone.split('/').all(sound) {
        return vec![unknown()];
    }
    let mut faults = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        let fault =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(fault.to_owned());
    }
    if !is_zone(zone) {
        faults.push(unknown());
    }
    faults
}

fn is_zone(zone: &str) -> bool {
    matches!(zone, "UTC" | "Local") || ZONES.binary_search(&zone).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{ZONES, check, time_zone_faults};

    #[test]
    fn zones_are_sorted_for_the_search() {
        assert!(ZONES.is_sorted());
    }

    #[test]
    fn sound_schedules_pass() {
        for schedule in [
            "* * * * *",
            "*/5 0-6,12 1 jan,FEB mon-fri",
            "@hourly",
            "@every 1h30m",
            "0 0 ? * 0",
            "5/15 * * * *",
        ] {
            assert_eq!(check(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn faults_are_named_in_the_parsers_words() {
        for (schedule, fault) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        ] {
            assert_eq!(check(schedule), Err(fault.to_owned()), "{schedule}");
        }
    }

    #[test]
    fn time_zones_must_exist_and_be_explicit() {
        assert!(time_zone_faults("Europe/Berlin").is_empty());
        assert_eq!(time_zone_faults("Mars/Base"), ["unknown time zone Mars/Base"]);
        assert_eq!(time_zone_faults("Local").len(), 1);
        assert_eq!(time_zone_faults("local").len(), 2);
        assert_eq!(time_zone_faults("").len(), 1);
    }
}
