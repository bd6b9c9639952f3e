//! How many of the first runs are warm-up.
//!
//! The rule: a round is warm-up while the run of some command in it is slower than each of the [`FOLLOWING`] runs of that
//! command which follow. Caches that fill, files that are read for the first time and clocks that speed up make first
//! runs slow, and runs that are no longer slow for that reason are above their successors by chance alone: one in six.
//! The rule is about how long runs take, and not about which command is faster.

/// So many runs must not all be faster.
pub const FOLLOWING: usize = 5;

/// No more rounds than this are dropped.
pub const MOST: usize = 20;

/// How the times of commands begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// So many rounds are dropped.
    Over(usize),
    /// More rounds are needed to tell.
    NotYet,
    /// After [`MOST`] rounds runs are still becoming faster.
    StillFalling,
}

/// Judges the times of runs, a series for each command, all of the same length.
pub fn judge(series: &[Vec<f64>]) -> WarmUp {
    let length = series.iter().map(Vec::len).min().unwrap_or(0);
    for dropped in 0..=MOST {
        if dropped + FOLLOWING >= length {
            return WarmUp::NotYet;
        }
        let falls = |times: &Vec<f64>| {
            let next = &times[dropped + 1..=dropped + FOLLOWING];
            next.iter().all(|time| *time < times[dropped])
        };
        if !series.iter().any(falls) {
            return WarmUp::Over(dropped);
        }
    }
    WarmUp::StillFalling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_is_dropped() {
        let level = [10.0, 11.0, 9.0, 10.5, 10.0, 9.5, 10.0, 10.2];
        assert_eq!(judge(&[level.to_vec()]), WarmUp::Over(0));
        assert_eq!(judge(&[level[..5].to_vec()]), WarmUp::NotYet);
        let cold = [vec![30.0, 15.0], level.to_vec()].concat();
        assert_eq!(judge(std::slice::from_ref(&cold)), WarmUp::Over(2));
        // Whoever falls longest decides.
        assert_eq!(judge(&[cold.clone(), [vec![9.0, 9.5], level.to_vec()].concat()]), WarmUp::Over(2));
        let falling: Vec<f64> = (0..40).map(|n| 100.0 - f64::from(n)).collect();
        assert_eq!(judge(&[falling]), WarmUp::StillFalling);
        // What becomes slower is no warm-up.
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(judge(&[rising]), WarmUp::Over(0));
        assert_eq!(judge(&[vec![1.0; 9]]), WarmUp::Over(0));
    }
}
