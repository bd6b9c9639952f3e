//! What processors promise about the order in which stores become durable.

use std::fmt;
use std::str::FromStr;

use crate::event::Kind;

/// The rules that a program is checked under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Intel, with the memory controller in the persistence domain: `clflush` is ordered with
    /// stores and with itself, `clflushopt` and `clwb` by fences and locked instructions (Intel SDM
    /// volume 2A, "CLFLUSH", "CLFLUSHOPT", "CLWB").
    IntelAdr,
    /// AMD with `clflushopt`: `clflush` is ordered with nothing but fences, `sfence` or `mfence`
    /// (AMD APM volume 3, "CLFLUSH").
    Amd,
    /// AMD before `clflushopt`: `clflush` is ordered by `mfence` alone.
    OldAmd,
    /// Caches are in the persistence domain: what is globally visible is durable, in the order of
    /// the program; non-temporal stores still wait for a fence.
    Eadr,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 4] = [Profile::IntelAdr, Profile::Amd, Profile::OldAmd, Profile::Eadr];

    /// The name of the profile.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::IntelAdr => "intel",
            Profile::Amd => "amd",
            Profile::OldAmd => "old-amd",
            Profile::Eadr => "eadr",
        }
    }

    /// Whose rules they are, behind "by the rules of".
    pub const fn whose(self) -> &'static str {
        match self {
            Profile::IntelAdr => "Intel's processors without eADR",
            Profile::Amd => "AMD's processors",
            Profile::OldAmd => "AMD's processors before clflushopt",
            Profile::Eadr => "processors whose caches are durable (eADR)",
        }
    }

    /// Whether this waits for every `clflush` before it. For `clwb`, `clflushopt` and non-temporal
    /// stores every fence and locked instruction does.
    pub(crate) fn completes_clflush(self, fence: Kind) -> bool {
        match self {
            Profile::IntelAdr => {
                matches!(fence, Kind::Sfence | Kind::Mfence | Kind::Locked(_) | Kind::LockedOnly)
            }
            Profile::Amd => matches!(fence, Kind::Sfence | Kind::Mfence),
            Profile::OldAmd => fence == Kind::Mfence,
            Profile::Eadr => false,
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    /// By [`Profile::name`].
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("'{text}' is none of intel, amd, old-amd and eadr"))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Profile::IntelAdr => "Intel ADR",
            Profile::Amd => "AMD",
            Profile::OldAmd => "AMD before clflushopt",
            Profile::Eadr => "eADR",
        })
    }
}
