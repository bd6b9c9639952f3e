//! The testbed held against its words. One program, so that its guests fill the processors.

mod guest;
mod machine;
mod profiles;
