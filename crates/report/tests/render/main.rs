//! What is rendered, as files: `RINGFENCE_BLESS=1 cargo test -p ringfence-report` writes them anew.
//! Pages are kept without style and script; `RINGFENCE_PAGES=FOLDER` writes them whole, to be
//! looked at in a browser.

mod advice;
mod cases;
mod census;
mod commits;
mod compare;
mod consistency;
mod execution;
mod golden;
mod html;
mod latencies;
mod lock;
mod machine;
mod pages;
mod pair;
mod prove;
mod reproduce;
mod resctrl;
mod results;
mod sensitivity;
mod short;
mod survey;
mod tune_files;
mod versus;
