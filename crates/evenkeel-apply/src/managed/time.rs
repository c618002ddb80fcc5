//! The times of managed fields entries: RFC 3339, UTC, whole seconds.

/// Seconds since the epoch; `None` if the text is no RFC 3339 time.
pub(super) fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        bytes.get(from..to)?.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
        })
    };
    let at = |index: usize, byte: u8| bytes.get(index) == Some(&byte);
    let separated = at(4, b'-') && at(7, b'-') && at(10, b'T') && at(13, b':') && at(16, b':');
    if !separated {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let mut zone = 19;
    if at(zone, b'.') {
        let digits = bytes[zone + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        zone += 1 + digits;
        if digits == 0 {
            return None;
        }
    }
    let offset = match bytes.get(zone)? {
        b'Z' if bytes.len() == zone + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == zone + 6 && at(zone + 3, b':') => {
            let seconds = number(zone + 1, zone + 3)? * 3600 + number(zone + 4, zone + 6)? * 60;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    let days = days_from_civil(year, month, day);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second - offset)
}

/// The canonical text of a time.
pub(super) fn format(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Days relative to 1970-01-01 in the proleptic Gregorian calendar, by 400-year eras that start in
// March, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2024-03-01T00:00:00Z", 1_709_251_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
            assert_eq!(format(seconds), text);
        }
    }

    #[test]
    fn offsets_and_fractions_fold_into_utc_seconds() {
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(parse("1969-12-31T18:30:00.999-05:30"), Some(0));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "1970-01-01",
            "1970-13-01T00:00:00Z",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00Zx",
            "1970-01-01T00:00:00+0100",
            "1970-01-01 00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
