//! Progress on standard error: a bar with what is left, or a line per stage without a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_engine::runner::Progress;
use ringfence_studies::Watch;
use ringfence_studies::prove::time::Precision;

use crate::output;

/// Shows how measuring comes along.
pub struct Show {
    bar: Option<ProgressBar>,
    lines: bool,
    // Not shown yet: what is announced, and a name.
    announced: Option<String>,
    line: Option<String>,
    after: Duration,
}

impl Show {
    /// A display; none where `quiet`.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (!quiet && terminal).then(|| {
            let bar = ProgressBar::new(1000);
            let template = "{prefix} {bar:24} {percent:>3} %  {msg}";
            bar.set_style(
                ProgressStyle::with_template(template)
                    .expect("a constant template")
                    .progress_chars("━╸─"),
            );
            bar
        });
        Self { bar, lines: !quiet && !terminal, announced: None, line: None, after: Duration::ZERO }
    }

    /// A display without a bar.
    pub fn in_lines(quiet: bool) -> Self {
        Self { bar: None, lines: !quiet, announced: None, line: None, after: Duration::ZERO }
    }

    /// Names what is measured. A line appears once measuring has begun: what is refused before
    /// leaves nothing but its error.
    pub fn begin(&mut self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(name.to_owned());
            bar.set_position(0);
            bar.set_message("");
        } else if self.lines {
            self.line = Some(name.to_owned());
        }
    }

    /// Prints a line once measuring begins, above the bar or in the place of the name; none where
    /// nothing is announced.
    pub fn announce(&mut self, text: Option<String>) {
        self.announced = text.filter(|_| self.bar.is_some() || self.lines);
        self.line = None;
    }

    fn write_line(&mut self) {
        for line in [self.announced.take(), self.line.take()].into_iter().flatten() {
            // A reader that has gone is not a failure.
            let write = || drop(writeln!(std::io::stderr(), "{line}"));
            match &self.bar {
                Some(bar) => bar.suspend(write),
                None => write(),
            }
        }
    }

    /// Moves the bar.
    pub fn update(&mut self, progress: Progress) {
        self.write_line();
        let Some(bar) = &self.bar else { return };
        let (elapsed, left) = (progress.elapsed.as_secs_f64(), progress.left.as_secs_f64());
        bar.set_position((elapsed / (elapsed + left).max(1e-9) * 1000.0) as u64);
        let total = progress.left + self.after;
        bar.set_message(format!("about {} left", seconds(total)));
    }

    /// Moves the bar to a share, from 0 to 1, of what began then.
    pub fn share(&mut self, began: Instant, share: f64) {
        let elapsed = began.elapsed();
        let left = elapsed.div_f64(share.max(1e-3)).saturating_sub(elapsed);
        self.update(Progress { done: 0, most: 0, elapsed, left });
    }

    /// Takes the bar away.
    pub fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        s if s < 90 => format!("{s} s"),
        s => format!("{} min {:02} s", s / 60, s % 60),
    }
}

impl Watch for Show {
    fn stage(&mut self, name: &str, number: usize, of: usize, expected: Duration, after: Duration) {
        self.after = after;
        self.write_line();
        self.begin(&format!("[{}/{of}] {name}", number + 1));
        self.write_line();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("about {} left", seconds(expected + after)));
            bar.tick();
        }
    }

    fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => {
                let mut lines = String::new();
                ringfence_report::paragraph(&mut lines, 0, text, &output::style_of_stderr());
                bar.suspend(|| {
                    let _ = write!(std::io::stderr(), "{lines}");
                });
            }
            None if self.lines => {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            None => {}
        }
    }

    fn precision(&mut self, found: &Precision) {
        self.note(&ringfence_report::precision(found));
    }

    fn progress(&mut self, progress: Progress) {
        self.update(progress);
    }
}
