//! Hosts' own variances, each a little nearer to what is usual for them.
//!
//! A variance that is known from a dozen trials is by chance half of what it is, or twice. The host
//! would then have too much weight, and look like an outlier. So each is combined with the others',
//! with the weight that their own scatter allows: much where all could be one variance, none where
//! hosts are truly of different noise (Smyth, "Linear models and empirical Bayes methods", Stat.
//! Appl. Genet. Mol. Biol. 3, 2004, section 6.2).

use statrs::function::gamma::digamma;

use super::OnHost;

/// As good as known.
const MOST_FREEDOM: f64 = 1e4;

/// The same hosts with moderated variances.
pub(super) fn moderated(hosts: &[OnHost]) -> Vec<OnHost> {
    let Some((usual, weight)) = usual(hosts) else { return hosts.to_vec() };
    let moderate = |host: &OnHost| OnHost {
        variance: (weight * usual + host.freedom * host.variance) / (weight + host.freedom),
        freedom: (weight + host.freedom).min(MOST_FREEDOM),
        ..*host
    };
    hosts.iter().map(moderate).collect()
}

// The usual variance, and how many degrees of freedom it is worth for a single host.
fn usual(hosts: &[OnHost]) -> Option<(f64, f64)> {
    let count = hosts.len() as f64;
    if hosts.len() < 3 {
        return None;
    }
    let log = |host: &OnHost| {
        let half = host.freedom / 2.0;
        host.variance.ln() - digamma(half) + half.ln()
    };
    let mean = hosts.iter().map(log).sum::<f64>() / count;
    let spread = hosts.iter().map(|host| (log(host) - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = hosts.iter().map(|host| trigamma(host.freedom / 2.0)).sum::<f64>() / count;
    let beyond = spread - by_chance;
    if !beyond.is_finite() {
        return None;
    }
    let half = if beyond > trigamma(MOST_FREEDOM / 2.0) {
        inverse_trigamma(beyond)
    } else {
        MOST_FREEDOM / 2.0
    };
    Some(((mean + digamma(half) - half.ln()).exp(), 2.0 * half))
}

// The derivative of digamma, by its recurrence and asymptotic series (Abramowitz and Stegun, 6.4.6
// and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 8.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    below
        + 1.0 / x
        + square / 2.0
        + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

// It falls with x: by bisection, on a logarithmic scale.
fn inverse_trigamma(target: f64) -> f64 {
    let (mut low, mut high) = (1e-3f64.ln(), MOST_FREEDOM.ln());
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if trigamma(middle.exp()) > target { low = middle } else { high = middle }
    }
    low.exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    // As printed in tables: pi squared over 6, and over 2 at a half.
    #[test]
    fn trigamma_by_the_table() {
        let squared = std::f64::consts::PI.powi(2);
        assert!((trigamma(1.0) - squared / 6.0).abs() < 1e-9);
        assert!((trigamma(0.5) - squared / 2.0).abs() < 1e-9);
        assert!((inverse_trigamma(squared / 6.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_variance_becomes_one_and_two_stay_apart() {
        let host = |variance: f64, freedom: f64| OnHost { log: 0.0, variance, freedom };
        let alike = moderated(&[1.1, 0.9, 1.05, 0.95, 1.0].map(|variance| host(variance, 10.0)));
        assert!(
            alike.iter().all(|host| (host.variance - alike[0].variance).abs() < 1e-3),
            "{alike:?}"
        );
        assert!(alike[0].freedom > 1000.0);
        let apart = moderated(&[1.0, 1.0, 1.0, 100.0, 100.0].map(|variance| host(variance, 10.0)));
        assert!(apart[0].variance < 3.0 && apart[4].variance > 50.0, "{apart:?}");
    }
}
