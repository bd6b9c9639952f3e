//! How durable a store to a path can become, as JSON.

use ringfence_machine::medium::Medium;
use serde::Serialize;

/// How durable a store to a path can become.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "schema", rename = "ringfence/explanation/2")]
pub struct Explanation<'a> {
    /// The path.
    pub path: &'a str,
    /// How durable, in one word or two with a hyphen.
    pub durability: &'a str,
    /// Whether flush instructions are left out there, since caches are persistent.
    pub elides_flushes: bool,
    /// The same in a sentence.
    pub verdict: &'a str,
    /// Why, a sentence each.
    pub reasons: &'a [String],
    /// What would make it more durable, a sentence each.
    pub remedies: &'a [String],
    /// What stands between the file and its medium; `None` of a device.
    pub medium: Option<&'a Medium>,
}

/// How durable a store to a path can become.
pub fn explanation(said: &Explanation) -> impl Serialize {
    said
}
