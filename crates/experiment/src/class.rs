//! How close two CPUs are, from a ping-pong between them rather than from sysfs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Round trips below this are between CPUs that share a last-level cache.
///
/// Measured where a VM's two vCPUs moved between one core complex of a Zen 5 and two: 66-130 ns or
/// 358-399 ns. Between two cores of a Xeon's mesh, under one L3: 140-240 ns.
pub const SHARING_BELOW_NS: f64 = 250.0;

/// Round trips above this are between CPUs that do not.
pub const APART_ABOVE_NS: f64 = 300.0;

/// Two probes whose round trips differ by more than this factor saw different distances. Those of
/// one distance above differ by up to 2, those of the two by at least 2.7.
pub const MOVED_BY: f64 = 2.3;

/// What the ping-pongs before and after a pair of windows say of the CPUs in use.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// They share a last-level cache.
    Sharing,
    /// They do not.
    Apart,
    /// The round trips lie between the two.
    Unclear,
    /// The two probes disagree: it changed during the pair.
    Mixed,
    /// A probe is missing, or was not a number.
    #[default]
    Unprobed,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Sharing => "sharing",
            Class::Apart => "apart",
            Class::Unclear => "unclear",
            Class::Mixed => "mixed",
            Class::Unprobed => "unprobed",
        })
    }
}

/// The class of a pair from its two ping-pong round trips in ns.
pub fn classify(before_ns: Option<f64>, after_ns: Option<f64>) -> Class {
    let is_trip = |ns: &f64| *ns > 0.0 && ns.is_finite();
    let (Some(before), Some(after)) = (before_ns.filter(is_trip), after_ns.filter(is_trip)) else {
        return Class::Unprobed;
    };
    let between = (before * after).sqrt();
    if before.max(after) > MOVED_BY * before.min(after) {
        Class::Mixed
    } else if between < SHARING_BELOW_NS {
        Class::Sharing
    } else if between > APART_ABOVE_NS {
        Class::Apart
    } else {
        Class::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_make_a_class() {
        assert_eq!(classify(Some(66.0), Some(130.0)), Class::Sharing);
        assert_eq!(classify(Some(358.0), Some(399.0)), Class::Apart);
        assert_eq!(classify(Some(195.0), Some(230.0)), Class::Sharing);
        assert_eq!(classify(Some(250.0), Some(300.0)), Class::Unclear);
        assert_eq!(classify(Some(100.0), Some(370.0)), Class::Mixed);
        assert_eq!(classify(Some(250.0), Some(100.0)), Class::Mixed);
    }

    #[test]
    fn a_missing_probe_leaves_the_pair_unprobed() {
        assert_eq!(classify(None, None), Class::Unprobed);
        assert_eq!(classify(Some(100.0), None), Class::Unprobed);
        assert_eq!(classify(Some(f64::NAN), Some(100.0)), Class::Unprobed);
        assert_eq!(classify(Some(100.0), Some(0.0)), Class::Unprobed);
    }

    #[test]
    fn json_and_display_agree() {
        for class in [Class::Sharing, Class::Apart, Class::Unclear, Class::Mixed, Class::Unprobed] {
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{class}\""));
            assert_eq!(serde_json::from_str::<Class>(&json).unwrap(), class);
        }
    }
}
