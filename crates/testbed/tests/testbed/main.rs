//! The testbed checked against its documentation. One program, so that its guests fill the
//! processors.

mod guest;
mod machine;
mod profiles;
