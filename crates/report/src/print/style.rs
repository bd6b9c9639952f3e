//! How a terminal wants its text: the caller decides, nothing here asks the environment.

/// Widths below this are treated as this one: nothing sensible fits.
pub const NARROWEST: usize = 40;

/// What the output may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours and weights, as ANSI escape sequences.
    pub color: bool,
    /// Columns of the terminal; at least [`NARROWEST`] are used.
    pub width: usize,
    /// Rules, bars and ellipses from beyond ASCII.
    pub unicode: bool,
    /// Print everything: histograms, circumstances, what did not run and why. Without it, an answer
    /// is short.
    pub details: bool,
}

/// What a stretch of text means to the eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// A heading.
    Strong,
    /// Of secondary interest.
    Faint,
    /// Harm.
    Bad,
    /// Something to reckon with.
    Caution,
    /// As one would have it.
    Good,
}

impl Paint {
    /// All of them.
    pub const ALL: [Paint; 5] =
        [Paint::Strong, Paint::Faint, Paint::Bad, Paint::Caution, Paint::Good];

    /// The escape sequence that begins it; [`Paint::END`] ends each.
    pub fn begin(self) -> &'static str {
        match self {
            Paint::Strong => "\x1b[1m",
            Paint::Faint => "\x1b[2m",
            Paint::Bad => "\x1b[31m",
            Paint::Caution => "\x1b[33m",
            Paint::Good => "\x1b[32m",
        }
    }

    /// The escape sequence that ends it.
    pub const END: &'static str = "\x1b[0m";
}

impl Style {
    /// ASCII without colours and details, `width` columns wide.
    pub const fn plain(width: usize) -> Self {
        Self { color: false, width, unicode: false, details: false }
    }

    /// The width in use.
    pub fn columns(&self) -> usize {
        self.width.max(NARROWEST)
    }

    /// A text so painted, where colours are wanted.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("{}{text}{}", paint.begin(), Paint::END)
        } else {
            text.to_string()
        }
    }

    /// What lines between rows are made of.
    pub fn rule(&self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// What stands for text that is left out.
    pub fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }
}

impl Default for Style {
    /// What a file or a pipe gets.
    fn default() -> Self {
        Self::plain(80)
    }
}
