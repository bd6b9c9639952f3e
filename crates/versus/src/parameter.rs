//! Parameters of commands: `{threads}` and its values.

use std::fmt::Write;

/// More values would take longer than users want to wait.
const MOST_VALUES: usize = 1000;

/// A name that stands in commands in braces, and what is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its values, in order.
    pub values: Vec<String>,
}

impl Parameter {
    /// `threads=1,2,4`.
    ///
    /// # Errors
    /// One sentence on what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').ok_or_else(|| {
            format!("'{text}' is not of the form NAME=VALUE,VALUE, such as threads=1,2,4")
        })?;
        Self::list(name, values)
    }

    /// A name, and values with commas between; `\,` is a comma within one.
    ///
    /// # Errors
    /// One sentence on what is wrong.
    pub fn list(name: &str, values: &str) -> Result<Self, String> {
        let mut all = vec![String::new()];
        let mut chars = values.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if chars.peek() == Some(&',') => {
                    all.last_mut().expect("one at least").extend(chars.next())
                }
                ',' => all.push(String::new()),
                c => all.last_mut().expect("one at least").push(c),
            }
        }
        Self::new(name, all)
    }

    /// Numbers from one to another, both included, such as 1 to 8, and how far apart they are.
    ///
    /// # Errors
    /// One sentence on what is wrong.
    pub fn scan(name: &str, from: &str, to: &str, step: Option<&str>) -> Result<Self, String> {
        let number = |text: &str| {
            Decimal::parse(text)
                .ok_or_else(|| format!("'{text}' is not a number: give one such as 4 or 0.5"))
        };
        let (from, to, step) = (number(from)?, number(to)?, number(step.unwrap_or("1"))?);
        let places = from.places.max(to.places).max(step.places);
        let [from, to, step] = [from, to, step].map(|one| one.at(places));
        if step <= 0 || to < from {
            return Err(format!(
                "the values of '{name}' must rise from the first to the last, in steps above 0"
            ));
        }
        if (to - from) / step >= MOST_VALUES as i64 {
            return Err(format!(
                "'{name}' would have more than {MOST_VALUES} values: give larger steps"
            ));
        }
        let values = (0..=(to - from) / step).map(|place| shown(from + place * step, places));
        Self::new(name, values.collect())
    }

    fn new(name: &str, values: Vec<String>) -> Result<Self, String> {
        let sound = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || !name.chars().all(sound) {
            return Err(format!(
                "'{name}' cannot be a parameter's name: use letters, digits, '_', '-' and '.'"
            ));
        }
        if let Some((place, twice)) =
            values.iter().enumerate().find(|(place, value)| values[..*place].contains(value))
        {
            return Err(format!(
                "'{name}' has the value '{twice}' twice, the second time as number {}: give it \
                 once",
                place + 1
            ));
        }
        Ok(Self { name: name.into(), values })
    }
}

// So that 0.1 + 0.2 is 0.3.
struct Decimal {
    digits: i64,
    places: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.len() > 9 || !part.chars().all(|c| c.is_ascii_digit()) || whole.is_empty() {
            return None;
        }
        let digits =
            format!("{whole}{part}").parse::<i64>().ok().filter(|digits| digits.abs() < 1 << 52)?;
        Some(Self { digits, places: part.len() as u32 })
    }

    fn at(&self, places: u32) -> i64 {
        self.digits.saturating_mul(10i64.pow(places - self.places))
    }
}

fn shown(digits: i64, places: u32) -> String {
    let one = 10i64.pow(places);
    let mut text = String::new();
    if digits < 0 {
        text.push('-');
    }
    let _ = write!(text, "{}", digits.abs() / one);
    if places > 0 {
        let _ = write!(text, ".{:0width$}", digits.abs() % one, width = places as usize);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(parameter: Result<Parameter, String>) -> Vec<String> {
        parameter.unwrap().values
    }

    #[test]
    fn lists_and_scans() {
        assert_eq!(values(Parameter::parse("threads=1,2,4")), ["1", "2", "4"]);
        assert_eq!(values(Parameter::list("x", r"a\,b,c")), ["a,b", "c"]);
        assert_eq!(values(Parameter::scan("x", "1", "3", None)), ["1", "2", "3"]);
        assert_eq!(values(Parameter::scan("x", "0.1", "0.3", Some("0.1"))), ["0.1", "0.2", "0.3"]);
        assert_eq!(
            values(Parameter::scan("x", "-1", "1.5", Some("0.5")))[..3],
            ["-1.0", "-0.5", "0.0"]
        );
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        for text in ["threads", "=1", "a b=1", "x=1,1"] {
            assert!(Parameter::parse(text).is_err(), "{text}");
        }
        for (from, to, step) in [
            ("2", "1", "1"),
            ("1", "2", "0"),
            ("1", "1000000", "1"),
            ("x", "1", "1"),
            ("1", "2", "-1"),
        ] {
            assert!(Parameter::scan("x", from, to, Some(step)).is_err(), "{from} {to} {step}");
        }
    }
}
