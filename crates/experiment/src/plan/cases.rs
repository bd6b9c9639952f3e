//! Cases: every combination of what the roles of an arm may run.

use serde::{Deserialize, Serialize};

use crate::task::Task;
use crate::task::Variant;
use crate::{Arm, Experiment};

/// One thing that is measured: an arm with every list decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Case {
    /// The arm.
    pub arm: String,
    /// What sets it apart from the arm's other cases, in words; empty where nothing does.
    pub label: String,
    /// The same as (role.parameter, value).
    pub params: Vec<(String, String)>,
    /// The roles that run.
    pub active: Vec<Active>,
    /// The case it is compared with.
    pub baseline: Option<usize>,
    /// The case whose window lies between this one's and its baseline's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<usize>,
}

impl Case {
    /// The cases that run where this one is measured: itself, its baseline, and what lies between.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        self.baseline.into_iter().chain(self.between)
    }
}

/// A role that runs in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Active {
    /// The role's index.
    pub role: usize,
    /// How many of its instances.
    pub count: u32,
    /// Which of its variants.
    pub variant: usize,
}

/// All cases of an experiment, arm by arm, the last role's lists varying fastest.
///
/// # Errors
/// One sentence where a baseline cannot be told.
pub fn cases(experiment: &Experiment, variants: &[Vec<Variant>]) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut arm_of = Vec::new();
    for arm in &experiment.arms {
        for active in combinations(experiment, variants, arm) {
            cases.push(describe(experiment, variants, arm, active));
            arm_of.push(arm);
        }
        if cases.len() > 10_000 {
            return Err("the lists combine to more than 10000 cases: shorten some of them".into());
        }
    }
    for index in 0..cases.len() {
        let arm = arm_of[index];
        let of = |what: &str, wanted: &Option<String>| {
            wanted
                .as_deref()
                .map(|wanted| partner(&cases, index, wanted, what, variants))
                .transpose()
        };
        let (baseline, between) = (of("baseline", &arm.baseline)?, of("between", &arm.between)?);
        (cases[index].baseline, cases[index].between) = (baseline, between);
    }
    Ok(cases)
}

// The one case of another arm that goes with a case.
fn partner(
    cases: &[Case],
    index: usize,
    wanted: &str,
    what: &str,
    variants: &[Vec<Variant>],
) -> Result<usize, String> {
    let case = &cases[index];
    let fits = |other: &Case| {
        other.arm == wanted
            && other.active.iter().all(|theirs| {
                // A role that only the other one runs may be in any state, if there is but one.
                case.active.iter().find(|ours| ours.role == theirs.role).is_none_or(|ours| {
                    let number = |a: &Active| variants[a.role][a.variant].number;
                    ours.count == theirs.count && number(ours) == number(theirs)
                })
            })
    };
    let found: Vec<usize> = (0..cases.len()).filter(|i| fits(&cases[*i])).collect();
    let [found] = found[..] else {
        let to = if what == "baseline" { "compare with" } else { "run between" };
        return Err(format!(
            "arm '{}': its {what} '{wanted}' has {} cases to {to}, but exactly one is needed: vary \
             the same roles in both arms",
            case.arm,
            found.len()
        ));
    };
    Ok(found)
}

fn combinations(experiment: &Experiment, variants: &[Vec<Variant>], arm: &Arm) -> Vec<Vec<Active>> {
    let roles =
        experiment.roles.iter().enumerate().filter(|(_, role)| arm.active.contains(&role.name));
    roles.fold(vec![Vec::new()], |combinations, (role, settings)| {
        combinations
            .into_iter()
            .flat_map(|sofar| {
                settings.count.as_slice().iter().flat_map(move |count| {
                    let sofar = sofar.clone();
                    // What the arm sets of a role stands instead of the role's own.
                    let set =
                        arm.set.contains_key(&experiment.roles[role].name).then_some(&arm.name);
                    let only = arm.only.get(&experiment.roles[role].name);
                    let own = (0..variants[role].len()).filter(move |v| {
                        let Variant { arm, table, .. } = &variants[role][*v];
                        let picked =
                            only.is_none_or(|only| only.as_slice().contains(&(*table as u32 + 1)));
                        arm.as_ref() == set && picked
                    });
                    own.map(move |variant| {
                        let mut next = sofar.clone();
                        next.push(Active { role, count: *count, variant });
                        next
                    })
                })
            })
            .collect()
    })
}

fn describe(
    experiment: &Experiment,
    variants: &[Vec<Variant>],
    arm: &Arm,
    active: Vec<Active>,
) -> Case {
    let mut params = Vec::new();
    let mut words = Vec::new();
    for one in &active {
        let role = &experiment.roles[one.role];
        let chosen = &variants[one.role][one.variant];
        if role.count.as_slice().len() > 1 {
            params.push((format!("{}.count", role.name), one.count.to_string()));
            words.push(format!("{} x", one.count));
        }
        let several =
            variants[one.role].iter().any(|other| other.task.name() != chosen.task.name());
        if several {
            params.push((format!("{}.workload", role.name), chosen.task.name().into()));
            words.push(match &chosen.task {
                Task::Command(command) => command.run.clone(),
                other => other.name().into(),
            });
        }
        for (key, value) in &chosen.varied {
            params.push((format!("{}.{key}", role.name), value.clone()));
            if several && key == "run" {
                continue;
            }
            // A word says by itself what it is; a number does not.
            let plain = matches!(
                key.as_str(),
                "instruction"
                    | "variant"
                    | "workload"
                    | "width"
                    | "target"
                    | "pattern"
                    | "run"
                    | "env"
            );
            words.push(if plain { value.clone() } else { format!("{key}={value}") });
        }
    }
    Case {
        arm: arm.name.clone(),
        label: words.join(" "),
        params,
        active,
        baseline: None,
        between: None,
    }
}
