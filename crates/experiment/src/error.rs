//! Why something was not done: the one error of what plans, limits, measures and compares.

use std::error::Error as Cause;
use std::fmt;
use std::sync::Arc;

use crate::ended::AT_A_LIMIT;

/// What kind of error it is, which decides the program's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid, or this machine in its current state cannot fulfil it.
    Usage,
    /// It was tried and failed.
    Failed,
    /// A limit that protects the system was reached.
    Limit,
    /// An end was requested.
    Interrupted,
    /// The time for it was over.
    OutOfTime,
}

/// Why something was not done: a sentence for people, its kind, and where another error is the
/// reason, that one as [`Cause::source`], whose text is part of the sentence.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    text: String,
    source: Option<Arc<dyn Cause + Send + Sync>>,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    /// The request cannot be fulfilled.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, text)
    }

    /// It failed.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, text)
    }

    /// A limit that protects the system was reached: which one.
    pub fn limit(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Limit, format!("{AT_A_LIMIT}{what}"))
    }

    /// An early end of which only the reason is kept: at a limit, or a failure.
    pub fn early(why: &str, text: impl Into<String>) -> Self {
        let at_a_limit = why.contains(AT_A_LIMIT);
        Self::new(if at_a_limit { ErrorKind::Limit } else { ErrorKind::Failed }, text)
    }

    /// An end was requested before anything was measured.
    pub fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted before anything was measured")
    }

    /// The time was over before anything was measured.
    pub fn out_of_time() -> Self {
        Self::new(ErrorKind::OutOfTime, "the time ran out before a window ended")
    }

    /// A failure that another error tells in its own words.
    pub fn failed_by(error: impl Cause + Send + Sync + 'static) -> Self {
        Self::failed(error.to_string()).because(error)
    }

    /// A request that cannot be fulfilled, as another error tells in its own words.
    pub fn usage_by(error: impl Cause + Send + Sync + 'static) -> Self {
        Self::usage(error.to_string()).because(error)
    }

    /// Another error in its own words: the request is at fault, or it failed.
    pub fn by(error: impl Cause + Send + Sync + 'static, is_usage: bool) -> Self {
        if is_usage { Self::usage_by(error) } else { Self::failed_by(error) }
    }

    /// For `map_err`: what was tried failed; the text is `TRIED: ERROR`.
    pub fn trying<E: Cause + Send + Sync + 'static>(
        tried: impl fmt::Display,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::failed(format!("{tried}: {error}")).because(error)
    }

    /// The same with the error that is the reason, which the text already tells.
    #[must_use]
    pub fn because(mut self, source: impl Cause + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same with `within: ` before its text, unless it is about the end of measuring.
    #[must_use]
    pub fn within(mut self, within: &str) -> Self {
        if !matches!(self.kind, ErrorKind::Interrupted | ErrorKind::OutOfTime) {
            self.text = format!("{within}: {}", self.text);
        }
        self
    }

    /// The same in other words.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the request is at fault, rather than the machine.
    pub fn is_usage(&self) -> bool {
        self.kind == ErrorKind::Usage
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cause for Error {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Errors are the same if they are of one kind and tell the same.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.text) == (other.kind, &other.text)
    }
}

impl Eq for Error {}

impl From<ringfence_resctrl::Error> for Error {
    fn from(error: ringfence_resctrl::Error) -> Self {
        let is_usage = error.is_usage();
        Self::by(error, is_usage)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_error_below_is_kept() {
        let full = || io::Error::from_raw_os_error(28);
        let error = Error::trying("writing /d/samples")(full()).within("baseline");
        assert_eq!(error.to_string(), format!("baseline: writing /d/samples: {}", full()),);
        let below = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(below.raw_os_error(), Some(28));
        assert_eq!(error.kind(), ErrorKind::Failed);
    }

    #[test]
    fn an_end_is_not_of_a_stage() {
        assert_eq!(Error::interrupted().within("baseline"), Error::interrupted());
        assert_eq!(
            Error::limit("redis was paused too long").within("baseline").text(),
            "baseline: a limit was reached: redis was paused too long",
        );
    }
}
