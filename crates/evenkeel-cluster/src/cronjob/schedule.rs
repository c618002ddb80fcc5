//! Scheduled times of a CronJob, in its time zone.

use evenkeel_types::cron::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// More missed starts than this record a warning event, as upstream.
const MANY_MISSED: i64 = 100;

/// A schedule and its time zone.
pub(super) struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

/// How many starts were missed, approximately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    None,
    Few,
    Many,
}

/// The latest start that is due, and how many were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) last: Option<Timestamp>,
    pub(super) missed: Missed,
}

/// Returns the time zone of this name. An empty name is UTC.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    match name {
        // The local time of the control plane is UTC.
        "" | "UTC" | "Etc/UTC" | "Local" => Some(TimeZone::UTC),
        _ => TimeZone::get(name).ok(),
    }
}

impl Schedule {
    /// Parses a schedule. A time zone in the schedule itself takes precedence over `outer`.
    pub(super) fn parse(text: &str, outer: TimeZone) -> Result<Self, String> {
        let cron = Cron::parse(text, |name| zone(name).is_some())?;
        let zone = cron.zone().and_then(zone).unwrap_or(outer);
        Ok(Self { cron, zone })
    }

    /// Returns the first start after `after`.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let offset = |second: i64| {
            let at = Timestamp::from_second(second).unwrap_or(after);
            i64::from(self.zone.to_offset(at).seconds())
        };
        let after = after.as_duration();
        // Rounded down, also before the epoch.
        let second = after.as_secs() - i64::from(after.subsec_nanos() < 0);
        Timestamp::from_second(self.cron.next(second, offset)?).ok()
    }

    /// Returns the last start after `earliest` and up to `now`. With several it is computed from
    /// the interval of the first two, so that years of missed starts cost nothing. Mirrors
    /// `mostRecentScheduleTime`.
    ///
    /// # Errors
    /// When the schedule has no two starts.
    pub(super) fn due(&self, earliest: Timestamp, now: Timestamp) -> Result<Due, &'static str> {
        let endless = "time difference between two schedules is less than 1 second";
        let first = self.next(earliest).ok_or(endless)?;
        if now < first {
            return Ok(Due { last: None, missed: Missed::None });
        }
        let second = self.next(first).ok_or(endless)?;
        if now < second {
            return Ok(Due { last: Some(first), missed: Missed::None });
        }
        let distance = second.as_second() - first.as_second();
        let count = now.duration_since(first).as_secs() / distance.max(1) + 1;
        // One interval earlier, for schedules with unequal intervals.
        let from = first.as_second().saturating_add((count - 2).saturating_mul(distance));
        let mut at = Timestamp::from_second(from).unwrap_or(first);
        let mut last = None;
        while let Some(time) = self.next(at).filter(|&time| time <= now) {
            last = Some(time);
            at = time;
        }
        Ok(Due { last, missed: if count > MANY_MISSED { Missed::Many } else { Missed::Few } })
    }

    /// Returns the next start, given that starts up to `now` are handled.
    pub(super) fn following(&self, earliest: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let from = match self.due(earliest, now) {
            Ok(Due { last: Some(last), .. }) => last,
            Ok(Due { missed: Missed::None, .. }) => earliest,
            _ => now,
        };
        self.next(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of the cron library of Kubernetes for the same schedules; the file names its
    /// generator.
    const EXPECTED: &str = include_str!("schedules.txt");

    #[test]
    fn schedules_match_the_go_library() {
        let mut compared = 0;
        for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
            let mut quoted = serde_json::Deserializer::from_str(line).into_iter::<String>();
            let schedule = quoted.next().unwrap().unwrap();
            let rest = line[quoted.byte_offset()..].trim();
            compared += 1;
            if let Some(error) = rest.strip_prefix("error ") {
                let error: String = serde_json::from_str(error).unwrap();
                let parsed = Schedule::parse(&schedule, TimeZone::UTC).map(|_| ());
                assert_eq!(parsed, Err(error), "{schedule}");
                continue;
            }
            let mut words = rest.split(' ');
            let zone = zone(words.next().unwrap()).expect("the system has a time zone database");
            let begin: i64 = words.next().unwrap().parse().unwrap();
            let schedule = Schedule::parse(&schedule, zone).unwrap();
            let mut at = Timestamp::from_second(begin).unwrap();
            for word in words {
                let next = schedule.next(at);
                let text = next.map_or("-".to_owned(), |n| (n.as_second() - begin).to_string());
                assert_eq!(text, word, "{line}");
                at = next.unwrap_or(at);
            }
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn a_day_that_does_not_exist_is_skipped() {
        // The Go library does not return here. Samoa had no 30 December 2011.
        let schedule = Schedule::parse("0 12 1 * *", zone("Pacific/Apia").unwrap()).unwrap();
        let next = schedule.next("2011-12-29T20:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2011-12-31T22:00:00Z");
    }

    #[test]
    fn the_last_of_any_number_of_missed_starts_is_found() {
        let due = |schedule: &str, earliest: &str| {
            let schedule = Schedule::parse(schedule, TimeZone::UTC).unwrap();
            let now = "2026-06-01T10:07:00Z".parse().unwrap();
            let due = schedule.due(earliest.parse().unwrap(), now)?;
            Ok((due.last.map(|time| time.to_string()), due.missed))
        };
        let at = |text: &str| Some(text.to_owned());
        let five = "*/5 * * * *";
        let last = at("2026-06-01T10:05:00Z");
        assert_eq!(due(five, "2020-01-01T00:00:00Z"), Ok((last.clone(), Missed::Many)));
        assert_eq!(due(five, "2026-06-01T09:50:00Z"), Ok((last.clone(), Missed::Few)));
        assert_eq!(due(five, "2026-06-01T10:00:00Z"), Ok((last, Missed::None)));
        assert_eq!(due(five, "2026-06-01T10:05:00Z"), Ok((None, Missed::None)));
        // An interval counts from the last start.
        let last = at("2026-06-01T10:03:00Z");
        assert_eq!(due("@every 1.5h", "2026-06-01T07:03:00Z"), Ok((last, Missed::Few)));
        let never = "time difference between two schedules is less than 1 second";
        assert_eq!(due("0 0 31 2 *", "2026-01-01T00:00:00Z"), Err(never));
    }
}
