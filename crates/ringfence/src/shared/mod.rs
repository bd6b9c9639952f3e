//! What verbs share. Nothing here knows of a verb.

pub mod announce;
pub mod answer;
pub mod command;
pub mod costs;
pub mod experiment;
pub mod flags;
pub mod folder;
pub mod host;
pub mod medium;
pub mod page;
pub mod program;
pub mod results;
pub mod services;
pub mod traces;
