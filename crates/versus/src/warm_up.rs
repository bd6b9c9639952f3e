//! How many of the first runs are warm-up.
//!
//! The rule: the first rounds are warm-up as long as in each of them some command's run is slower
//! than each of its [`LATEST`] latest runs. It is judged after [`FIRST`] rounds, and again after
//! each further one until there is a round before the latest that is not warm-up. Caches that fill,
//! files that are read for the first time and clocks that speed up make first runs slow; where
//! nothing does, a run is slower than five others by chance alone, one in six. The rule is about
//! how long runs take, and not about which command is faster.
//!
//! Where some command's two, three or four latest runs are faster than all before, it has just
//! become faster: what came before is judged when there are five of the kind.

/// So many runs must not all be faster.
pub const LATEST: usize = 5;

/// Rounds after which it is judged.
pub const FIRST: usize = 9;

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

/// Judges the times of runs, a series for each command, all of the same length. Where no more are
/// to come (`last`), what there is must do.
pub fn judge(series: &[Vec<f64>], last: bool) -> WarmUp {
    let length = series.iter().map(Vec::len).min().unwrap_or(0);
    if length <= LATEST || (length < FIRST && !last) {
        return WarmUp::NotYet;
    }
    let just_faster = |latest: usize| {
        let is_so = |times: &Vec<f64>| {
            let (before, now) = times[..length].split_at(length - latest);
            before.iter().all(|slow| now.iter().all(|time| time < slow))
        };
        series.iter().any(is_so)
    };
    if !last && length <= MOST && (2..LATEST).any(just_faster) {
        return WarmUp::NotYet;
    }
    let before = length - LATEST;
    let cold = |round: usize| {
        let slow = |times: &Vec<f64>| times[before..length].iter().all(|time| *time < times[round]);
        series.iter().any(slow)
    };
    match (0..before).find(|round| !cold(*round)) {
        Some(dropped) if dropped <= MOST => WarmUp::Over(dropped),
        None if before <= MOST && !last => WarmUp::NotYet,
        _ => WarmUp::StillFalling,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_at_first_is_dropped() {
        let level = [10.0, 11.0, 9.0, 10.5, 10.0, 9.5, 10.0, 10.2, 11.0];
        assert_eq!(judge(&[level.to_vec()], false), WarmUp::Over(0));
        assert_eq!(judge(&[level[..8].to_vec()], false), WarmUp::NotYet);
        assert_eq!(judge(&[level[..8].to_vec()], true), WarmUp::Over(0));
        assert_eq!(judge(&[level[..5].to_vec()], true), WarmUp::NotYet);
        // Six slow runs and then none: that is not seen as long as slow ones are among the latest
        // five.
        let step = |fast: usize| {
            [vec![30.0, 31.0, 30.5, 29.0, 30.2, 30.9], level[..fast].to_vec()].concat()
        };
        assert_eq!(judge(&[step(3)], false), WarmUp::NotYet);
        assert_eq!(judge(&[step(5)], false), WarmUp::NotYet);
        assert_eq!(judge(&[step(6)], false), WarmUp::Over(6));
        let cold = [vec![30.0, 31.0, 15.0], level.to_vec()].concat();
        assert_eq!(judge(std::slice::from_ref(&cold), false), WarmUp::Over(3));
        // The command that warms up longest decides.
        assert_eq!(
            judge(&[cold, [vec![9.0, 9.5, 9.0], level.to_vec()].concat()], false),
            WarmUp::Over(3)
        );
        let falling: Vec<f64> = (0..40).map(|n| 100.0 - f64::from(n)).collect();
        assert_eq!(judge(&[falling[..12].to_vec()], false), WarmUp::NotYet);
        assert_eq!(judge(&[falling[..12].to_vec()], true), WarmUp::StillFalling);
        assert_eq!(judge(&[falling], false), WarmUp::StillFalling);
        // What becomes slower is no warm-up.
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(judge(&[rising], false), WarmUp::Over(0));
        assert_eq!(judge(&[vec![1.0; 9]], false), WarmUp::Over(0));
    }
}
