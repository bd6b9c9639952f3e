//! Services that stop answering while another process is paused: whether they depend on it.

use ringfence_experiment::Error;

// A service that stopped answering in so many windows in a row, while another process was paused,
// depends on it.
const WINDOWS: u32 = 3;
// The same for a service that was also silent while no process was paused.
const WINDOWS_ALONE: u32 = 10;

/// How often the victim did not answer.
#[derive(Default)]
pub struct Silence {
    // Windows in a row in which it did not while others were paused.
    windows: u32,
    // Whether it did not in a window without a pause.
    alone: bool,
}

impl Silence {
    /// Adds a window. A service that stops answering whenever a process is paused depends on it. A
    /// service that is overloaded stops at other times, too.
    ///
    /// # Errors
    /// Where it depends on what was paused.
    pub fn note(&mut self, is_paused: bool, answers: bool) -> Result<(), Error> {
        match (is_paused, answers) {
            (false, true) => {}
            (false, false) => (self.windows, self.alone) = (0, true),
            (true, true) => self.windows = 0,
            (true, false) => self.windows += 1,
        }
        if self.windows < if self.alone { WINDOWS_ALONE } else { WINDOWS } {
            return Ok(());
        }
        Err(Error::failed(format!(
            "the victim stopped answering {} times in a row while the aggressor was paused (each \
             pause was ended at once): it depends on the aggressor, and cannot be measured without \
             it; choose another aggressor",
            self.windows
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_silent_in_three_pauses_in_a_row_depends_on_what_was_paused() {
        let mut silence = Silence::default();
        for (is_paused, answers) in [
            (true, false),
            (true, false),
            (true, true),
            (true, false),
            (false, true),
            (true, false),
        ] {
            silence.note(is_paused, answers).unwrap();
        }
        let why = silence.note(true, false).unwrap_err().to_string();
        assert!(why.starts_with("the victim stopped answering 3 times in a row"), "{why}");
    }

    #[test]
    fn a_service_that_is_silent_without_a_pause_is_given_longer() {
        let mut silence = Silence::default();
        silence.note(true, false).unwrap();
        silence.note(false, false).unwrap();
        let silent = (1..20).find(|_| silence.note(true, false).is_err());
        assert_eq!(silent, Some(WINDOWS_ALONE));
    }
}
