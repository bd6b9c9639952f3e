//! Studies, comparisons and tasks in memory, measured on this machine.

mod compare;
mod pair;
mod reads;
mod reproduce;
mod ring;
mod sensitivity;
#[path = "../support/mod.rs"]
mod support;
mod tune;
