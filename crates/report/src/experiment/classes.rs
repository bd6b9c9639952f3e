//! What the classes of pairs mean.

use std::collections::BTreeSet;

use ringfence_experiment::class::{APART_ABOVE_NS, Class, SHARING_BELOW_NS};

use crate::style::{Paint, Style};
use crate::text::hanging;

/// Explains the classes that occurred, one line each; empty where there are none.
pub fn classes_legend(classes: impl IntoIterator<Item = Class>, style: &Style) -> String {
    let mut out = String::new();
    for class in classes.into_iter().collect::<BTreeSet<_>>() {
        hanging(&mut out, &format!("{class:<9} "), Some(Paint::Faint), &meaning(class), style);
    }
    out
}

fn meaning(class: Class) -> String {
    match class {
        Class::Sharing => {
            format!("the CPUs shared a last-level cache (round trip < {SHARING_BELOW_NS} ns)")
        }
        Class::Apart => {
            format!("the CPUs shared no last-level cache (round trip > {APART_ABOVE_NS} ns)")
        }
        Class::Unclear => {
            format!(
                "the round trip does not tell which ({SHARING_BELOW_NS} to {APART_ABOVE_NS} ns)"
            )
        }
        Class::Mixed => "the CPUs moved between the two during the pair".into(),
        Class::Unprobed => "no round trip was measured before and after the pair".into(),
    }
}
