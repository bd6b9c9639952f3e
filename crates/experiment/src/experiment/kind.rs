//! What is concluded from an experiment beyond the figures of its cases.

use serde::{Deserialize, Serialize};

/// The study that an experiment is a stage of, which knows what to make of its samples. A user's
/// own experiment file needs none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Stage"))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What a durable write costs: of `survey`.
    SurveyCost,
    /// A victim next to writers: of `survey`.
    SurveyBeside {
        /// The victim, by name.
        victim: String,
        /// Whether all writers are held to one rate.
        paced: bool,
    },
    /// Commits to files, alone or next to writers: of `survey`.
    SurveyFiles,
    /// Whether a lever is needed: of `prove`. It was called `prove-look` once.
    #[serde(alias = "prove-look")]
    ProveBaseline,
    /// All levers at once: of `prove`.
    ProveLevers,
    /// One lever on fresh trials: of `prove`.
    ProveConfirmation {
        /// Which attempt, from 0.
        number: usize,
    },
    /// Every pair of tasks: of `pair`.
    PairScreen,
    /// The present and the advised pairs, on fresh trials: of `pair`.
    PairConfirmation,
    /// The cost of each method to make a store durable: of `tune`.
    TuneCosts,
    /// The chosen method against a fixed rule, on fresh trials: of `tune`.
    TuneConfirmation,
    /// A victim's rate over the footprint of a polluter.
    Sensitivity,
    /// Reads of a region, under everything that may keep it in the cache: of `lock measure`.
    Lock,
}

impl Kind {
    /// Whether what it concludes can be about a quantile of latencies.
    pub(super) fn tells_quantiles(&self) -> bool {
        match self {
            Self::ProveBaseline | Self::ProveLevers | Self::ProveConfirmation { .. } => true,
            Self::SurveyCost | Self::SurveyBeside { .. } | Self::SurveyFiles => false,
            Self::PairScreen | Self::PairConfirmation => false,
            Self::TuneCosts | Self::TuneConfirmation | Self::Sensitivity | Self::Lock => false,
        }
    }

    /// The kind that follows from a name, for experiments that do not state their kind: of datasets
    /// and saved files of version 0.1.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "cost" => Self::SurveyCost,
            "look" => Self::ProveBaseline,
            "levers" => Self::ProveLevers,
            "pair-screen" => Self::PairScreen,
            "pair-confirm" => Self::PairConfirmation,
            "sensitivity" => Self::Sensitivity,
            "lock" => Self::Lock,
            _ if name.starts_with("lock-after-") => Self::Lock,
            _ => match (name.strip_prefix("neighbours-"), name.strip_prefix("confirm-")) {
                (Some(rest), _) => {
                    let (victim, paced) =
                        rest.strip_suffix("-paced").map_or((rest, false), |victim| (victim, true));
                    Self::SurveyBeside { victim: victim.into(), paced }
                }
                (_, Some(number)) => Self::ProveConfirmation {
                    number: number.parse::<usize>().ok()?.checked_sub(1)?,
                },
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proofs_first_stage_is_known_by_its_old_name() {
        assert_eq!(serde_json::from_str::<Kind>("\"prove-look\"").unwrap(), Kind::ProveBaseline);
        assert_eq!(serde_json::to_string(&Kind::ProveBaseline).unwrap(), "\"prove-baseline\"");
    }

    #[test]
    fn names_tell_the_kinds_that_they_told_before() {
        let beside =
            |victim: &str, paced| Some(Kind::SurveyBeside { victim: victim.into(), paced });
        for (name, kind) in [
            ("cost", Some(Kind::SurveyCost)),
            ("neighbours-chase", beside("chase", false)),
            ("neighbours-mcf-paced", beside("mcf", true)),
            ("confirm-2", Some(Kind::ProveConfirmation { number: 1 })),
            ("lock-after-clwb", Some(Kind::Lock)),
            ("sensitivity", Some(Kind::Sensitivity)),
            ("confirm-0", None),
            ("confirm-x", None),
            ("costs", None),
            ("neighbours", None),
        ] {
            assert_eq!(Kind::of_name(name), kind, "{name}");
        }
    }
}
