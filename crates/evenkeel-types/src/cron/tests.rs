//! Parsing schedules. Start times are compared with the library in the CronJob controller.

use super::Cron;

fn parse(text: &str) -> Result<Cron, String> {
    Cron::parse(text, |zone| matches!(zone, "UTC" | "Europe/Berlin"))
}

#[test]
fn valid_schedules_parse() {
    for schedule in [
        "* * * * *",
        "*/5 0-6,12 1 jan,FEB mon-fri",
        "1,,2 * * * *",
        ", * * * *",
        "@hourly",
        "@every 1h30m",
        "@every 1.5h",
        "@every -5s",
        "0 0 ? * 0",
        "5/15 * * * *",
        "TZ=Europe/Berlin 0 0 * * *",
        "CRON_TZ=UTC @daily",
        "TZ= @daily",
    ] {
        assert!(parse(schedule).is_ok(), "{schedule}");
    }
}

#[test]
fn errors_are_those_of_the_library() {
    for (schedule, error) in [
        ("bad", "expected exactly 5 fields, found 1: [bad]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        (
            "@every 1..5s",
            "failed to parse duration @every 1..5s: time: missing unit in duration \"1..5s\"",
        ),
        ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ("TZ=../x * * * * *", "provided bad location ../x: time: invalid location name"),
    ] {
        assert_eq!(parse(schedule), Err(error.to_owned()), "{schedule}");
    }
}

#[test]
fn schedules_that_never_match_have_no_next_start() {
    for schedule in [", * * * *", "* , * * *", "* * * , *", "0 0 31 2 *"] {
        assert_eq!(parse(schedule).unwrap().next(1_767_225_600, |_| 0), None, "{schedule}");
    }
}
