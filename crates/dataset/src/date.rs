//! Dates of the civil calendar, UTC.
//!
//! After H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`: years begin
//! in March, so that the leap day is the last of its year.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    milli: u64,
}

impl Date {
    /// The moment `time`; a clock set before 1970 counts as 1970.
    pub fn new(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs();
        let (year, month, day) = civil(seconds / 86_400);
        let of_day = seconds % 86_400;
        Self {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            milli: u64::from(since.subsec_millis()),
        }
    }

    /// The moment that [`rfc3339`](Self::rfc3339) wrote; `None` for another text.
    pub fn parse(text: &str) -> Option<SystemTime> {
        let digits = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
        let days = days(digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let seconds = digits(11, 13)? * 3600 + digits(14, 16)? * 60 + digits(17, 19)?;
        let since = Duration::from_millis((days? * 86_400 + seconds) * 1000 + digits(20, 23)?);
        let time = UNIX_EPOCH + since;
        // Whatever else is in the text, or out of range, does not come out again.
        (Self::new(time).rfc3339() == text).then_some(time)
    }

    /// As RFC 3339 has it: `2026-05-09T07:29:33.000Z`.
    pub fn rfc3339(&self) -> String {
        let Self { year, month, day, hour, minute, second, milli } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }

    /// The day alone: `2026-05-09`.
    pub fn day(&self) -> String {
        let Self { year, month, day, .. } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// For a folder's name: `20260509-072933`.
    pub fn compact(&self) -> String {
        let Self { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

// Year, month and day from days since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

// The inverse: days since 1970-01-01, by counting whole years and months.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // Months of 30 or 31 days from March on: (153 m + 2) / 5 days before month m.
    let (years, months) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let before = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5;
    (before + day.checked_sub(1)?).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other_as_in_the_calendar() {
        let mut expected = (1970, 1, 1);
        for days in 0..400_000 {
            assert_eq!(civil(days), expected);
            assert_eq!(super::days(expected.0, expected.1, expected.2), Some(days));
            let (year, month, day) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day == length) {
                (_, false) => (year, month, day + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
        }
    }

    #[test]
    fn moments_are_printed_as_date_prints_them() {
        // date -u -d @1709210096 +%FT%TZ
        let date = Date::new(UNIX_EPOCH + Duration::from_millis(1_709_210_096_007));
        assert_eq!(date.rfc3339(), "2024-02-29T12:34:56.007Z");
        assert_eq!(date.compact(), "20240229-123456");
        let time = UNIX_EPOCH + Duration::from_millis(1_709_210_096_007);
        assert_eq!(Date::parse("2024-02-29T12:34:56.007Z"), Some(time));
        for other in [
            "",
            "yesterday",
            "2023-02-29T12:34:56.007Z",
            "2024-02-29 12:34:56.007Z",
            "1969-12-31T00:00:00.000Z",
        ] {
            assert_eq!(Date::parse(other), None, "{other}");
        }
        assert_eq!(
            Date::new(UNIX_EPOCH - Duration::from_secs(1)).rfc3339(),
            "1970-01-01T00:00:00.000Z"
        );
    }
}
