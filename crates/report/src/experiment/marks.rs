//! What stands above a result that is simulated or incomplete.

use crate::style::{Paint, Style};
use crate::text::painted;

/// The label of figures that were not measured.
pub(crate) const SIMULATED: &str = "simulated: nothing here was measured";

/// That measuring ended early: what is shown may be less than was asked for.
pub fn ended_early(why: &str, style: &Style) -> String {
    let mut out = String::new();
    let text = format!("Ended early: {why}. These are the trials until then.");
    painted(&mut out, &text, Paint::Caution, style);
    out
}
