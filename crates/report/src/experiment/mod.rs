//! One experiment: its cases, figures and checks.

pub(crate) mod cases;
pub(crate) mod classes;
pub(crate) mod json;
pub(crate) mod marks;
pub(crate) mod page;
pub(crate) mod short;
pub(crate) mod starts;
pub(crate) mod text;
pub(crate) mod too_long;
pub(crate) mod verdicts;
