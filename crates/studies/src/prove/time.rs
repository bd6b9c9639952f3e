//! How the time is divided, and what can be known in it: pure functions.

use std::fmt;
use std::time::Duration;

use ringfence_analysis::estimate::{Looks, most_spread};
use ringfence_experiment::Measure;
use ringfence_experiment::units::Share;

use super::{ATTEMPTS, Question};

/// The part of the time that the look may take: a close call wants more lives before it wants levers. What it
/// leaves, the later stages have.
pub const LOOK: f64 = 2.0 / 3.0;
/// The rest is kept for levers where it holds so many lives: two of every setting, and a confirmation. In less,
/// levers would take lives from the look and come to no end themselves.
pub const ENOUGH_FOR_LEVERS: u32 = 30;
/// The part of what is left then that the levers may take; the confirmations have the rest.
pub const LEVERS: f64 = 0.5;
/// Lives at the first look: fewer tell next to nothing.
pub const FIRST_LOOK: u32 = 6;
/// The same of runs that are timed whole.
pub const FIRST_LOOK_OF_RUNS: u32 = 4;
/// The share of the permitted error that the end of a stage has.
pub const LAST_LOOK: Share = Share(0.5);
const MOST_LIVES: u32 = 20_000;

/// What a stage may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// Its time; absent: as long as its lives take.
    pub time: Option<Duration>,
    /// The least that a life takes, as far as is known.
    pub life: Duration,
}

/// The look's part of the time; all of it where no lever could be tried, or not be confirmed.
pub fn of_look(time: Duration, life: Duration, levers: bool) -> Duration {
    let part = time.mul_f64(LOOK);
    if levers && time - part >= life * ENOUGH_FOR_LEVERS { part } else { time }
}

/// The levers' part of what the look has left.
pub fn of_levers(left: Duration) -> Duration {
    left.mul_f64(LEVERS)
}

/// The part of what is left that a confirmation has, counted from 0.
pub fn of_confirmation(left: Duration, number: usize) -> Duration {
    if number + 1 < ATTEMPTS { left.mul_f64(2.0 / 3.0) } else { left }
}

/// The least time that makes sense: the first look's lives, and the control before it.
pub fn least(life: Duration, control: Duration, first: u32) -> Duration {
    life * first + control
}

/// At most so many lives: as many as were asked for, or as fit into the time.
pub fn most_lives(question: &Question, whole_runs: bool, given: Given) -> u32 {
    match (question.lives, given.time) {
        (Some(lives), _) => lives,
        (None, Some(time)) if !given.life.is_zero() => {
            ((time.as_secs_f64() / given.life.as_secs_f64()) as u32).clamp(2, MOST_LIVES)
        }
        (None, _) => question.most_lives(whole_runs),
    }
}

/// Looks after half as many lives again, from the first to the last: a function of what was planned, never of
/// what was seen.
pub fn looks(first: u32, most: u32) -> Vec<u32> {
    let most = most.max(2);
    let mut looks = Vec::new();
    let mut next = f64::from(first.min(most));
    while next.round() < f64::from(most) {
        looks.push(next.round() as u32);
        next *= 1.5;
    }
    looks.push(most);
    looks
}

/// How precise an answer a number of lives allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// The look's part of the time.
    pub time: Option<Duration>,
    /// About so many lives.
    pub lives: u32,
    /// The slowdown that is to be told from none.
    pub budget: Share,
    /// The most by which lives may vary, as a standard deviation of the logarithm.
    pub spread: f64,
}

impl Precision {
    /// That of a look; `None` where its lives are too few for any.
    pub fn of(budget: Share, measure: &Measure, time: Option<Duration>) -> Option<Self> {
        let lives = *measure.looks.last()?;
        let level = Looks::of(measure).ok()?.level_after(lives);
        let spread = most_spread(budget.0.ln_1p(), level, lives)?;
        Some(Self { time, lives, budget, spread })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |value: f64| format!("{:.2}", value * 100.0);
        let trimmed = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
        let (budget, spread) = (trimmed(percent(self.budget.0)), trimmed(percent(self.spread.exp_m1())));
        match self.time {
            Some(time) => write!(f, "in {:.1} s, about {} lives", time.as_secs_f64(), self.lives)?,
            None => write!(f, "in {} lives", self.lives)?,
        }
        write!(f, ", a slowdown of {budget} % can be told from none if lives vary by less than {spread} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_by_half_up_to_the_most() {
        assert_eq!(looks(6, 48), [6, 9, 14, 20, 30, 46, 48]);
        assert_eq!(looks(6, 6), [6]);
        assert_eq!(looks(6, 3), [3]);
        assert_eq!(looks(4, 0), [2]);
        for most in 2..3000 {
            let looks = looks(6, most);
            assert!(looks.windows(2).all(|two| two[0] < two[1]) && looks.last() == Some(&most), "{looks:?}");
        }
    }

    #[test]
    fn the_parts_of_the_time_never_exceed_it() {
        let time = Duration::from_secs(30);
        let life = Duration::from_millis(300);
        let look = of_look(time, life, true);
        assert_eq!(look, time.mul_f64(LOOK));
        let levers = of_levers(time - look);
        let first = of_confirmation(time - look - levers, 0);
        let second = of_confirmation(time - look - levers - first, 1);
        let all = look + levers + first + second;
        assert!(all <= time + Duration::from_micros(1) && all + Duration::from_micros(1) >= time, "{all:?}");
        assert_eq!(of_look(time, life, false), time);
        assert_eq!(of_look(time, life * 2, true), time, "no lever could be confirmed in the rest");
    }

    #[test]
    fn the_precision_is_said_as_a_person_would() {
        let measure = Measure { looks: vec![6, 9, 20], last_look: Some(LAST_LOOK), ..Measure::default() };
        let precision = Precision::of(Share(0.02), &measure, Some(Duration::from_secs(20))).unwrap();
        // 97.5 %, 19 degrees of freedom: t = 2.433, and 0.861 for a chance of 80 %:
        // ln 1.02 * sqrt 20 / (2.433 + 0.861) = 0.02689.
        assert!((precision.spread - 0.02689).abs() < 2e-5, "{precision:?}");
        assert_eq!(
            precision.to_string(),
            "in 20.0 s, about 20 lives, a slowdown of 2 % can be told from none if lives vary by less than 2.72 %"
        );
    }
}
