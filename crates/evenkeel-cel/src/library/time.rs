//! Parts of timestamps and durations, in UTC or another time zone.

use jiff::tz::TimeZone;

use crate::value::time::{civil, days};
use crate::{Duration, Error, Function, Overload, Timestamp, Type, Value};

/// The name of a function, the ids of its overloads without and with a time zone, and what it returns.
type Part = (&'static str, &'static str, &'static str, fn(Clock) -> i64);
/// The id of an overload for durations, and what it returns.
type PartOfDuration = (&'static str, fn(Duration) -> i64);

/// `getFullYear` and the like.
pub(super) fn functions() -> Vec<Function> {
    let parts: [Part; 10] = [
        ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |clock| clock.date().0),
        ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |clock| {
            clock.date().1 - 1
        }),
        ("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |clock| {
            clock.day() - days(clock.date().0, 1, 1)
        }),
        (
            "getDayOfMonth",
            "timestamp_to_day_of_month",
            "timestamp_to_day_of_month_with_tz",
            |clock| clock.date().2 - 1,
        ),
        (
            "getDate",
            "timestamp_to_day_of_month_1_based",
            "timestamp_to_day_of_month_1_based_with_tz",
            |clock| clock.date().2,
        ),
        (
            "getDayOfWeek",
            "timestamp_to_day_of_week",
            "timestamp_to_day_of_week_with_tz",
            // The first of January 1970 was a Thursday; weeks begin on Sunday.
            |clock| (clock.day() + 4).rem_euclid(7),
        ),
        ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |clock| {
            clock.second() / 3_600
        }),
        ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |clock| {
            clock.second() / 60 % 60
        }),
        ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |clock| {
            clock.second() % 60
        }),
        (
            "getMilliseconds",
            "timestamp_to_milliseconds",
            "timestamp_to_milliseconds_with_tz",
            |clock| clock.nanos / 1_000_000,
        ),
    ];
    let mut functions = Vec::new();
    for (name, id, id_with_zone, part) in parts {
        let mut function = Function::new(name)
            .overload(Overload::member(id, [Type::Timestamp], Type::Int, move |arguments| {
                match arguments {
                    [Value::Timestamp(time)] => Ok(Value::Int(part(Clock::utc(*time)))),
                    _ => Err(Error::no_such_overload()),
                }
            }))
            .overload(Overload::member(
                id_with_zone,
                [Type::Timestamp, Type::String],
                Type::Int,
                move |arguments| match arguments {
                    [Value::Timestamp(time), Value::String(zone)] => {
                        Ok(Value::Int(part(Clock::in_zone(*time, zone)?)))
                    }
                    _ => Err(Error::no_such_overload()),
                },
            ));
        let of_duration: Option<PartOfDuration> = match name {
            "getHours" => Some(("duration_to_hours", |d| d.0 / 3_600_000_000_000)),
            "getMinutes" => Some(("duration_to_minutes", |d| d.0 / 60_000_000_000)),
            "getSeconds" => Some(("duration_to_seconds", |d| d.0 / 1_000_000_000)),
            "getMilliseconds" => Some(("duration_to_milliseconds", |d| d.0 / 1_000_000)),
            _ => None,
        };
        if let Some((id, part)) = of_duration {
            function = function.overload(Overload::member(
                id,
                [Type::Duration],
                Type::Int,
                move |arguments| match arguments {
                    [Value::Duration(duration)] => Ok(Value::Int(part(*duration))),
                    _ => Err(Error::no_such_overload()),
                },
            ));
        }
        functions.push(function);
    }
    functions
}

/// An instant as a clock in a time zone shows it: seconds since 1970 by that clock.
#[derive(Clone, Copy)]
struct Clock {
    seconds: i64,
    nanos: i64,
}

impl Clock {
    fn utc(time: Timestamp) -> Self {
        Self { seconds: time.seconds(), nanos: time.nanos().into() }
    }

    /// In the zone of this IANA name, or with an offset such as `+01:00`.
    fn in_zone(time: Timestamp, zone: &str) -> Result<Self, Error> {
        let offset = match zone.split_once(':') {
            None => offset_of(time, zone)?,
            Some((hours, minutes)) => {
                let hours = number(hours)?;
                let minutes = number(minutes)?;
                let total =
                    if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
                total.saturating_mul(60)
            }
        };
        let seconds = time.seconds().saturating_add(offset);
        Ok(Self { seconds, nanos: time.nanos().into() })
    }

    fn day(self) -> i64 {
        self.seconds.div_euclid(86_400)
    }

    fn second(self) -> i64 {
        self.seconds.rem_euclid(86_400)
    }

    fn date(self) -> (i64, i64, i64) {
        civil(self.day())
    }
}

/// Go's `strconv.Atoi`; offsets of years make no sense.
fn number(text: &str) -> Result<i64, Error> {
    text.parse::<i32>()
        .map(i64::from)
        .map_err(|_| Error::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
}

/// Seconds that clocks in a zone are ahead of UTC at an instant.
fn offset_of(time: Timestamp, zone: &str) -> Result<i64, Error> {
    let unknown = || Error::new(format!("unknown time zone {zone}"));
    match zone {
        // There is no local time zone here.
        "" | "UTC" | "Local" => Ok(0),
        _ => {
            let zone = TimeZone::get(zone).map_err(|_| unknown())?;
            // jiff's range is a few hours shorter than that of the language.
            let (min, max) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
            let seconds = time.seconds().clamp(min, max);
            let instant = jiff::Timestamp::from_second(seconds).map_err(|_| unknown())?;
            Ok(zone.to_offset(instant).seconds().into())
        }
    }
}
