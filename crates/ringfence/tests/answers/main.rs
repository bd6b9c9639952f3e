//! What is printed and written: text, JSON and pages, of this machine and of datasets.

mod explain;
mod json;
mod looks;
mod report_page;
mod schema;
#[path = "../support/mod.rs"]
mod support;
mod verbs;
