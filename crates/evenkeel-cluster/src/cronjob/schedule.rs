//! Times that come back: the five fields of cron, and its short names.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{Date, DateTime, Time, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// How far ahead a time is looked for; a schedule that names none till then names none at all.
const HORIZON_YEARS: i16 = 5;

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Fields(Fields),
    /// Again and again after so many seconds.
    Every(i64),
}

/// One bit for each value a field may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether days of the month, and of the week, are all meant: if only one of the two is, the
    /// other decides; if neither is, either will do.
    every_day: bool,
    every_weekday: bool,
}

/// A schedule that does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear;

impl FromStr for Schedule {
    type Err = Unclear;

    fn from_str(text: &str) -> Result<Self, Unclear> {
        let text = text.trim();
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        if let Some(period) = text.strip_prefix("@every ") {
            return every(period.trim()).map(Self::Every).ok_or(Unclear);
        }
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else { return Err(Unclear) };
        let star = |field: &str| {
            field.split(',').any(|part| {
                matches!(part.split('/').next(), Some("*" | "?")) && !part.contains('/')
            })
        };
        let weekday_bits = field(weekdays, 0, 7, &WEEKDAYS).ok_or(Unclear)?;
        Ok(Self::Fields(Fields {
            minutes: field(minutes, 0, 59, &[]).ok_or(Unclear)?,
            hours: field(hours, 0, 23, &[]).ok_or(Unclear)?,
            days: field(days, 1, 31, &[]).ok_or(Unclear)?,
            months: field(months, 1, 12, &MONTHS).ok_or(Unclear)?,
            // Sunday is both 0 and 7.
            weekdays: (weekday_bits | weekday_bits >> 7) & 0x7f,
            every_day: star(days),
            every_weekday: star(weekdays),
        }))
    }
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The bits of one field: a list of `*`, `a`, `a-b`, each with `/step` if need be.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Option<u64> {
    let value = |text: &str| {
        let text = text.to_ascii_lowercase();
        let first = if names.len() == 12 { 1 } else { 0 };
        let named = names.iter().position(|name| *name == text);
        let number = match named {
            Some(at) => u32::try_from(at).ok()? + first,
            None => text.parse().ok()?,
        };
        (least..=most).contains(&number).then_some(number)
    };
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|&step| step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (value(first)?, value(last)?),
            None if matches!(range, "*" | "?") => (least, if most == 7 { 6 } else { most }),
            // A single value with a step goes on to the end.
            None if part.contains('/') => (value(range)?, if most == 7 { 6 } else { most }),
            None => (value(range)?, value(range)?),
        };
        if first > last {
            return None;
        }
        let mut at = first;
        while at <= last {
            bits |= 1 << at;
            at = at.checked_add(step)?;
        }
    }
    Some(bits)
}

/// A period as Go writes one, in whole seconds: `1h30m`.
fn every(text: &str) -> Option<i64> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..at].parse().ok()?;
        rest = &rest[at..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(number)?)?;
        rest = &rest[end..];
    }
    i64::try_from(total.as_secs()).ok().filter(|_| !text.is_empty()).map(|seconds| seconds.max(1))
}

impl Schedule {
    /// The first time after `after`.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(seconds) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(SignedDuration::from_secs(*seconds)).ok()
            }
            Self::Fields(fields) => {
                let local = zone.to_datetime(after);
                let mut time = fields.next(local)?;
                loop {
                    let found = zone.to_timestamp(time).ok()?;
                    // Where the clock is set back, a time comes twice; once is enough.
                    if found > after {
                        return Some(found);
                    }
                    time = fields.next(time)?;
                }
            }
        }
    }

    /// The last time after `since` up to `now`.
    pub(super) fn last(
        &self,
        since: Timestamp,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        if let Self::Every(seconds) = self {
            let passed = now.as_second() - since.as_second();
            let times = passed / seconds;
            let last = since.as_second() + times * seconds;
            return (times > 0).then(|| Timestamp::from_second(last).ok()).flatten();
        }
        // From the latest on, in widening windows: a schedule that was missed for a year is not
        // walked through minute by minute.
        for hours in [1, 24, 24 * 32, 24 * 366, 24 * 366 * 6] {
            let window = now.checked_sub(SignedDuration::from_hours(hours)).ok()?;
            let from = window.max(since);
            let mut last = None;
            let mut at = from;
            while let Some(time) = self.next(at, zone).filter(|&time| time <= now) {
                last = Some(time);
                at = time;
            }
            if last.is_some() || window <= since {
                return last;
            }
        }
        None
    }
}

impl Fields {
    fn on_day(&self, day: Date) -> bool {
        let bit = |bits: u64, at: i8| bits >> u32::from(at.unsigned_abs()) & 1 == 1;
        let of_month = bit(self.days, day.day());
        let of_week = bit(self.weekdays, day.weekday().to_sunday_zero_offset());
        if self.every_day || self.every_weekday { of_month && of_week } else { of_month || of_week }
    }

    /// The first local time after `after` that the fields name.
    fn next(&self, after: DateTime) -> Option<DateTime> {
        let start = after.date();
        let horizon = date(start.year().checked_add(HORIZON_YEARS)?, 1, 1);
        let mut day = start;
        while day < horizon {
            if self.months >> u32::from(day.month().unsigned_abs()) & 1 == 0 {
                day = day.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.on_day(day) {
                let floor = (day == start).then(|| after.time());
                if let Some(time) = self.in_day(floor) {
                    return Some(day.to_datetime(time));
                }
            }
            day = day.checked_add(1.day()).ok()?;
        }
        None
    }

    fn in_day(&self, after: Option<Time>) -> Option<Time> {
        for hour in (0..24_i8).filter(|hour| self.hours >> u32::from(hour.unsigned_abs()) & 1 == 1)
        {
            for minute in
                (0..60_i8).filter(|m| self.minutes >> u32::from(m.unsigned_abs()) & 1 == 1)
            {
                let time = Time::new(hour, minute, 0, 0).ok()?;
                if after.is_none_or(|after| time > after) {
                    return Some(time);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule: Schedule = schedule.parse().unwrap();
        schedule.next(after.parse().unwrap(), &TimeZone::UTC).unwrap().to_string()
    }

    #[test]
    fn fields_name_times() {
        let after = "2026-01-01T00:00:00Z";
        for (schedule, time) in [
            ("* * * * *", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:15:00Z"),
            ("5/20 * * * *", "2026-01-01T00:05:00Z"),
            ("0 9-17 * * mon-fri", "2026-01-01T09:00:00Z"),
            ("30 3 31 * *", "2026-01-31T03:30:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 13 * fri", "2026-01-02T00:00:00Z"),
            ("0 0 * * 7", "2026-01-04T00:00:00Z"),
            ("0 12 1 JUL ?", "2026-07-01T12:00:00Z"),
            ("@hourly", "2026-01-01T01:00:00Z"),
            ("@monthly", "2026-02-01T00:00:00Z"),
            ("@every 1h30m", "2026-01-01T01:30:00Z"),
        ] {
            assert_eq!(next(schedule, after), time, "{schedule}");
        }
    }

    #[test]
    fn what_is_no_schedule_does_not_parse() {
        for text in ["", "* * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "@now"]
        {
            assert_eq!(text.parse::<Schedule>(), Err(Unclear), "{text}");
        }
        let never: Schedule = "0 0 31 2 *".parse().unwrap();
        assert_eq!(never.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    }

    #[test]
    fn of_missed_times_the_last_is_found_however_many() {
        let schedule: Schedule = "*/5 * * * *".parse().unwrap();
        let last = |since: &str, now: &str| {
            let (since, now) = (since.parse().unwrap(), now.parse().unwrap());
            schedule.last(since, now, &TimeZone::UTC).map(|time| time.to_string())
        };
        let now = "2026-06-01T10:07:00Z";
        assert_eq!(last("2020-01-01T00:00:00Z", now).as_deref(), Some("2026-06-01T10:05:00Z"));
        assert_eq!(last("2026-06-01T10:05:00Z", now), None);
    }
}
