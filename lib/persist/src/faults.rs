//! Faults that can be planted in the library, to see that its tests find them (`scripts/mutants`).

/// Whether a fault is planted to see that the tests find it: only in builds with `--cfg
/// ringfence_mutants`, and there by the environment variable `RINGFENCE_MUTANT`, which names one,
/// or several with `+` between them.
#[inline(always)]
pub fn planted(name: &str) -> bool {
    #[cfg(ringfence_mutants)]
    {
        static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| std::env::var("RINGFENCE_MUTANT").unwrap_or_default());
        chosen.split('+').any(|chosen| chosen == name)
    }
    #[cfg(not(ringfence_mutants))]
    {
        _ = name;
        false
    }
}
