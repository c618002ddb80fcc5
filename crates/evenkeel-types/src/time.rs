//! Timestamps as the API writes them: RFC 3339 in UTC, with seconds or microseconds.
//!
//! Parsing accepts what Go's `time.Parse` accepts, and returns its errors.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::go::Quoted;

/// Go's zero time, the start of the year 1, in seconds since the epoch.
pub(crate) const ZERO_SECONDS: i64 = -62_135_596_800;

/// A timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// The precision of a formatted timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `2006-01-02T15:04:05Z`
    Seconds,
    /// `2006-01-02T15:04:05.000000Z`
    Micros,
}

/// Why a text is not a timestamp, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {}{}", Quoted(.text), .reason)]
pub struct ParseError {
    text: String,
    reason: String,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

impl Timestamp {
    /// Returns whether this is Go's zero time, which counts as unset and prints as null.
    pub fn is_zero(self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    /// Formats the timestamp in UTC, truncated to the precision.
    pub fn display(self, precision: Precision) -> impl fmt::Display {
        Display { timestamp: self, precision }
    }

    /// Parses a timestamp in any time zone.
    pub fn parse(text: &str, precision: Precision) -> Result<Self, ParseError> {
        let mut reader = Reader { text, rest: text, layout: precision.layout() };
        let year = reader.year()?;
        reader.literal("-")?;
        let month = reader.number("01", true, "month", 1..=12)?;
        reader.literal("-")?;
        let day = reader.number("02", true, "day", 0..=99)?;
        reader.literal("T")?;
        let hour = reader.number("15", false, "hour", 0..=23)?;
        reader.literal(":")?;
        let minute = reader.number("04", true, "minute", 0..=59)?;
        reader.literal(":")?;
        let second = reader.number("05", true, "second", 0..=59)?;
        let nanos = match precision {
            Precision::Seconds => reader.fraction(),
            Precision::Micros => reader.micros()?,
        };
        let offset = reader.zone()?;
        if !reader.rest.is_empty() {
            return Err(reader.fail(format!(": extra text: {}", Quoted(reader.rest))));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(reader.fail(": day out of range".to_owned()));
        }
        let seconds =
            days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
        Ok(Self { seconds: seconds - offset, nanos })
    }
}

/// Returns true for exactly what [`Timestamp::display`] prints with [`Precision::Seconds`] for the
/// years from 2 to 9999: the common case, checked without parsing.
pub(crate) fn is_canonical(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 20 {
        return false;
    }
    let shape = bytes.iter().zip(b"0000-00-00T00:00:00Z").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    let two = |at: usize| (bytes[at] - b'0') * 10 + (bytes[at + 1] - b'0');
    shape
        && bytes[..4] > b"0001"[..]
        && (1..=12).contains(&two(5))
        // The last days of a month are left to the parser.
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn fail(&self, reason: String) -> ParseError {
        ParseError { text: self.text.to_owned(), reason }
    }

    fn cannot_parse(&self, rest: &str, element: &str) -> ParseError {
        let (layout, rest, element) = (Quoted(self.layout), Quoted(rest), Quoted(element));
        self.fail(format!(" as {layout}: cannot parse {rest} as {element}"))
    }

    fn digit(&self, at: usize) -> Option<i64> {
        self.rest.as_bytes().get(at).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'))
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn literal(&mut self, literal: &str) -> Result<(), ParseError> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot_parse(self.rest, literal)),
        }
    }

    fn year(&mut self) -> Result<i64, ParseError> {
        let year = (0..4).try_fold(0, |year, at| Some(year * 10 + self.digit(at)?));
        let year = year.ok_or_else(|| self.cannot_parse(self.rest, "2006"))?;
        self.skip(4);
        Ok(year)
    }

    fn number(
        &mut self,
        element: &str,
        fixed: bool,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, ParseError> {
        let number = match (self.digit(0), self.digit(1)) {
            (Some(tens), Some(ones)) => {
                self.skip(2);
                tens * 10 + ones
            }
            (Some(ones), None) if !fixed => {
                self.skip(1);
                ones
            }
            _ => return Err(self.cannot_parse(self.rest, element)),
        };
        if range.contains(&number) {
            return Ok(number);
        }
        Err(self.fail(format!(": {name} out of range")))
    }

    /// Reads the digits after the seconds; those beyond the ninth are ignored.
    fn fraction(&mut self) -> u32 {
        if !self.rest.starts_with(['.', ',']) || self.digit(1).is_none() {
            return 0;
        }
        let digits = self.rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        let nanos = self.nanos(digits.min(9));
        self.skip(1 + digits);
        nanos
    }

    fn micros(&mut self) -> Result<u32, ParseError> {
        if !self.rest.starts_with(['.', ',']) || (1..=6).any(|at| self.digit(at).is_none()) {
            return Err(self.cannot_parse(self.rest, ".000000"));
        }
        let nanos = self.nanos(6);
        self.skip(7);
        Ok(nanos)
    }

    fn nanos(&self, digits: usize) -> u32 {
        let digit = |at| if at <= digits { self.digit(at).unwrap_or_default() as u32 } else { 0 };
        (1..=9).fold(0, |nanos, at| nanos * 10 + digit(at))
    }

    fn zone(&mut self) -> Result<i64, ParseError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let sign = match self.rest.as_bytes().first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => 0,
        };
        let two = |at: usize| Some(self.digit(at)? * 10 + self.digit(at + 1)?);
        let (Some(hours), Some(minutes), Some(b':')) =
            (two(1), two(4), self.rest.as_bytes().get(3))
        else {
            return Err(self.cannot_parse(self.rest, "Z07:00"));
        };
        if hours > 24 {
            return Err(self.fail(": time zone offset hour out of range".to_owned()));
        }
        if minutes > 60 {
            return Err(self.fail(": time zone offset minute out of range".to_owned()));
        }
        if sign == 0 {
            return Err(self.cannot_parse(self.rest, "Z07:00"));
        }
        self.skip(6);
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

struct Display {
    timestamp: Timestamp,
    precision: Precision,
}

impl fmt::Display for Display {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timestamp { seconds, nanos } = self.timestamp;
        let (year, month, day) = civil_from_days(seconds.div_euclid(86400));
        let second = seconds.rem_euclid(86400);
        let sign = if year < 0 { "-" } else { "" };
        let (year, hour, minute) = (year.unsigned_abs(), second / 3600, second / 60 % 60);
        write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", second % 60)?;
        if self.precision == Precision::Micros {
            write!(f, ".{:06}", nanos / 1000)?;
        }
        f.write_str("Z")
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Both directions count in eras of 400 years that start in March, so that the leap day is last.

pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    (year + era * 400 + i64::from(month <= 2), month, day)
}
