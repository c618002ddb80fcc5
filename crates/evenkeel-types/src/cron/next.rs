//! Computes the next start of a schedule.
//!
//! The result around clock changes depends on the steps of the library, so they are followed one by
//! one: in local time for months and days, in elapsed time for hours and minutes.

use super::{Cron, Fields, STAR, Schedule};
use crate::time::{civil_from_days, days_from_civil};

/// Maximum number of years to search.
const YEARS: i64 = 5;

impl Cron {
    /// Returns the first start after a time in seconds since the epoch, rounded down; none if there
    /// is none within five years. `offset` returns the seconds by which local time is ahead of UTC
    /// at a time.
    pub fn next(&self, after: i64, offset: impl Fn(i64) -> i64) -> Option<i64> {
        match &self.schedule {
            Schedule::Every(seconds) => after.checked_add(*seconds),
            Schedule::Fields(fields) => fields.next(after, &offset),
        }
    }
}

/// A time with its local date and clock.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: i64,
}

impl Local {
    fn at(time: i64, offset: &impl Fn(i64) -> i64) -> Self {
        let seconds = time + offset(time);
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        // The epoch was a Thursday.
        Self { year, month, day, hour, minute, second, weekday: (days + 4).rem_euclid(7) }
    }

    /// Converts a local date and clock to a time, as Go's `time.Date`: overflowing months and years
    /// carry over, and of two offsets the one for UTC is tried first.
    fn time(&self, offset: &impl Fn(i64) -> i64) -> i64 {
        let months = self.month - 1;
        let (year, month) = (self.year + months.div_euclid(12), months.rem_euclid(12) + 1);
        let days = days_from_civil(year, month, 1) + self.day - 1;
        let local = days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        match offset(local) {
            0 => local,
            first => local - offset(local - first),
        }
    }

    fn midnight(self) -> Self {
        Self { hour: 0, minute: 0, second: 0, ..self }
    }
}

fn has(bits: u64, value: i64) -> bool {
    u32::try_from(value)
        .is_ok_and(|value| bits.checked_shr(value).is_some_and(|bits| bits & 1 == 1))
}

impl Fields {
    fn on_day(&self, local: &Local) -> bool {
        let of_month = has(self.days, local.day);
        let of_week = has(self.weekdays, local.weekday);
        if (self.days | self.weekdays) & STAR != 0 {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }

    fn next(&self, after: i64, offset: &impl Fn(i64) -> i64) -> Option<i64> {
        // A field without values, such as `,`, never matches.
        if [self.minutes, self.hours, self.months].contains(&0) {
            return None;
        }
        let local = |time: i64| Local::at(time, offset);
        let mut time = after.checked_add(1)?;
        let limit = local(time).year + YEARS;
        // Whether the fields below the advanced one are at their start.
        let mut reset = false;
        'again: loop {
            if local(time).year > limit {
                return None;
            }
            while !has(self.months, local(time).month) {
                if !std::mem::replace(&mut reset, true) {
                    time = Local { day: 1, ..local(time).midnight() }.time(offset);
                }
                let at = local(time);
                time = Local { month: at.month + 1, ..at }.time(offset);
                if local(time).month == 1 {
                    continue 'again;
                }
            }
            while !self.on_day(&local(time)) {
                if !std::mem::replace(&mut reset, true) {
                    time = local(time).midnight().time(offset);
                }
                let (before, at) = (time, local(time));
                time = Local { day: at.day + 1, ..at }.time(offset);
                // For days without a midnight.
                match local(time).hour {
                    hour @ 13.. => time += (24 - hour) * 3600,
                    hour => time -= hour * 3600,
                }
                // For days that do not exist at all, the library returns to the previous day
                // forever.
                if time <= before {
                    time = before + 86_400;
                }
                if local(time).day == 1 {
                    continue 'again;
                }
            }
            while !has(self.hours, local(time).hour) {
                if !std::mem::replace(&mut reset, true) {
                    time = Local { minute: 0, second: 0, ..local(time) }.time(offset);
                }
                time += 3600;
                if local(time).hour == 0 {
                    continue 'again;
                }
            }
            while !has(self.minutes, local(time).minute) {
                if !std::mem::replace(&mut reset, true) {
                    time -= time.rem_euclid(60);
                }
                time += 60;
                if local(time).minute == 0 {
                    continue 'again;
                }
            }
            // Schedules with five fields start at a full minute.
            match local(time).second {
                0 => return Some(time),
                second => {
                    reset = true;
                    time += 60 - second;
                }
            }
        }
    }
}
