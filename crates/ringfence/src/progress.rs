//! Progress on standard error: a bar with what is left, or a line per stage where nobody looks.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_lab::runner::Progress;
use ringfence_lab::survey::Watch;

/// Shows how measuring comes along.
pub struct Show {
    bar: Option<ProgressBar>,
    lines: bool,
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
                ProgressStyle::with_template(template).expect("a constant template").progress_chars("━╸─"),
            );
            bar
        });
        Self { bar, lines: !quiet && !terminal, after: Duration::ZERO }
    }

    /// Names what is measured.
    pub fn begin(&mut self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(name.to_owned());
            bar.set_position(0);
            bar.set_message("");
        } else if self.lines {
            eprintln!("{name}");
        }
    }

    /// Moves the bar.
    pub fn update(&mut self, progress: Progress) {
        let Some(bar) = &self.bar else { return };
        let (elapsed, left) = (progress.elapsed.as_secs_f64(), progress.left.as_secs_f64());
        bar.set_position((elapsed / (elapsed + left).max(1e-9) * 1000.0) as u64);
        let total = progress.left + self.after;
        bar.set_message(format!("about {} left", seconds(total)));
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
        self.begin(&format!("[{}/{of}] {name}", number + 1));
        if let Some(bar) = &self.bar {
            bar.set_message(format!("about {} left", seconds(expected + after)));
            bar.tick();
        }
    }

    fn progress(&mut self, progress: Progress) {
        self.update(progress);
    }
}
