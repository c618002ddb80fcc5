//! Validates schedules and time zones of CronJobs.

use evenkeel_types::cron::Cron;

use super::zones::ZONES;

/// Validates a schedule. The error is upstream's message.
pub(in crate::validate) fn check(schedule: &str) -> Result<(), String> {
    Cron::parse(schedule, is_zone).map(drop)
}

/// Returns the errors of a time zone.
pub(in crate::validate) fn time_zone_errors(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {zone}");
    let valid = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if !zone.split('/').all(valid) {
        return vec![unknown()];
    }
    let mut errors = Vec::new();
    if zone.eq_ignore_ascii_case("local") {
        let error =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(error.to_owned());
    }
    if !is_zone(zone) {
        errors.push(unknown());
    }
    errors
}

fn is_zone(zone: &str) -> bool {
    matches!(zone, "UTC" | "Local") || ZONES.binary_search(&zone).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{ZONES, time_zone_errors};

    #[test]
    fn time_zones_are_sorted_for_binary_search() {
        assert!(ZONES.is_sorted());
    }

    #[test]
    fn time_zones_must_exist_and_be_explicit() {
        assert!(time_zone_errors("Europe/Berlin").is_empty());
        assert_eq!(time_zone_errors("Mars/Base"), ["unknown time zone Mars/Base"]);
        assert_eq!(time_zone_errors("Local").len(), 1);
        assert_eq!(time_zone_errors("local").len(), 2);
        assert_eq!(time_zone_errors("").len(), 1);
    }
}
