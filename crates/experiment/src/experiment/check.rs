//! What the types of an experiment cannot rule out.

use ringfence_machine::cpulist::CpuSet;

use super::{Arm, Experiment, Measure, Role, SCHEMA, limit};
use crate::nearest;
use crate::one_or_many::OneOrMany;
use crate::task::Settings;
use crate::units::Span;

impl Experiment {
    pub(super) fn problem(&self) -> Option<String> {
        let roles: Vec<&str> = self.roles.iter().map(|role| role.name.as_str()).collect();
        let arms: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        self.heading_problem()
            .or_else(|| self.names_problem(&roles, &arms))
            .or_else(|| self.arms.iter().find_map(|arm| self.arm_problem(arm, &roles, &arms)))
            .or_else(|| self.roles.iter().find_map(|role| self.role_problem(role)))
            .or_else(|| self.decision_problem(&arms))
            .or_else(|| self.quantity_problem())
            .or_else(|| self.aa_problem())
            .or_else(|| self.measure.problem())
    }

    fn heading_problem(&self) -> Option<String> {
        if !(1..=SCHEMA).contains(&self.schema) {
            return Some(format!(
                "schema = {} is not known: this program reads 1 to {SCHEMA}",
                self.schema
            ));
        }
        if self.name.is_empty() || self.name.contains('/') || self.name.starts_with('.') {
            return Some(format!(
                "name = '{}' cannot be a folder's name: choose another",
                self.name
            ));
        }
        None
    }

    fn names_problem(&self, roles: &[&str], arms: &[&str]) -> Option<String> {
        if let Some(twice) = duplicate(roles) {
            return Some(format!("duplicate role '{twice}': use unique names"));
        }
        if let Some(twice) = duplicate(arms) {
            return Some(format!("duplicate arm '{twice}': use unique names"));
        }
        if arms.is_empty() {
            return Some("there is no [[arm]]: at least one is needed".into());
        }
        if !roles.contains(&self.metric.as_str()) {
            return Some(format!(
                "metric = '{}' is not a role{}",
                self.metric,
                hint(&self.metric, roles)
            ));
        }
        None
    }

    fn arm_problem(&self, arm: &Arm, roles: &[&str], arms: &[&str]) -> Option<String> {
        self.activity_problem(arm, roles)
            .or_else(|| limit::problem(arm).map(|problem| format!("arm '{}': {problem}", arm.name)))
            .or_else(|| values_problem(arm))
            .or_else(|| between_problem(arm, arms))
            .or_else(|| baseline_problem(arm, arms))
    }

    // What an arm runs.
    fn activity_problem(&self, arm: &Arm, roles: &[&str]) -> Option<String> {
        if let Some(unknown) = arm.active.iter().find(|name| !roles.contains(&name.as_str())) {
            return Some(format!(
                "arm '{}': '{unknown}' is not a role{}",
                arm.name,
                hint(unknown, roles)
            ));
        }
        if !arm.active.contains(&self.metric) {
            return Some(format!(
                "arm '{}' does not run '{}', whose rate is the figure: add it to active",
                arm.name, self.metric
            ));
        }
        if let Some(unknown) = arm.set.keys().find(|name| !arm.active.contains(name)) {
            return Some(format!(
                "arm '{}' sets parameters of '{unknown}', which it does not run",
                arm.name
            ));
        }
        if let Some(unknown) = arm.only.keys().find(|name| !arm.active.contains(name)) {
            return Some(format!(
                "arm '{}' picks a task of '{unknown}', which it does not run",
                arm.name
            ));
        }
        for role in &self.roles {
            let tasks = role.task.as_slice().len();
            let picked = arm.only.get(&role.name).map_or(&[][..], OneOrMany::as_slice);
            if let Some(number) =
                picked.iter().find(|number| !(1..=tasks).contains(&(**number as usize)))
            {
                return Some(format!(
                    "arm '{}': only has task {number} of '{}', which has {tasks}: count from 1",
                    arm.name, role.name
                ));
            }
        }
        None
    }

    fn role_problem(&self, role: &Role) -> Option<String> {
        let counts = role.count.as_slice();
        if counts.is_empty() || counts.contains(&0) {
            return Some(format!("role '{}': count must be at least 1", role.name));
        }
        if role.placement.is_some() && role.name == self.metric {
            return Some(format!(
                "role '{}': placement is relative to the metric's role, which is this one: leave \
                 it out",
                role.name
            ));
        }
        if role.placement.is_some() && role.cpus.is_some() {
            return Some(format!(
                "role '{}': placement and cpus exclude each other: leave one out",
                role.name
            ));
        }
        if role.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            return Some(format!(
                "role '{}': cpus names no CPU: name some, or leave it out",
                role.name
            ));
        }
        None
    }

    fn decision_problem(&self, arms: &[&str]) -> Option<String> {
        let decide = self.measure.decide.as_ref()?;
        // A time is compared as it is, a slowdown with a baseline.
        let absolute = decide.at_most.is_some() && decide.slowdown.is_none();
        let what = if absolute { "an arm" } else { "an arm with a baseline" };
        let is_comparable = |arm: &String| {
            let mut named = self.arms.iter().filter(|known| known.name == *arm);
            named.any(|known| absolute || known.baseline.is_some())
        };
        if let Some(arm) = decide.arm.as_slice().iter().find(|arm| !is_comparable(arm)) {
            return Some(format!("decide: '{arm}' is not {what}{}", hint(arm, arms)));
        }
        if decide.arm.as_slice().is_empty() {
            return Some(format!("decide: arm is empty: name {what}, or leave out decide"));
        }
        if decide.budget(self.measure.quantity).is_none() {
            return Some("decide: give one limit, slowdown = \"5%\" or at_most = \"5ms\"".into());
        }
        if decide.at_most.is_some_and(|time| time.0.is_zero()) {
            return Some("decide: at_most must be more than 0, such as \"5ms\"".into());
        }
        None
    }

    fn quantity_problem(&self) -> Option<String> {
        if let (Some(quantile), Some(kind)) = (self.measure.quantity.quantile(), &self.kind)
            && !kind.tells_quantiles()
        {
            return Some(format!(
                "quantity = '{quantile}': the experiment's kind compares means; leave quantity or \
                 kind out"
            ));
        }
        None
    }

    fn aa_problem(&self) -> Option<String> {
        let most = self.measure.looks.last().copied().unwrap_or(0);
        if self.aa.is_some_and(|trials| trials < 2 || trials > most) {
            return Some(format!(
                "an A/A run takes at least 2 trials, and at most the {most} of the experiment"
            ));
        }
        None
    }
}

// What an arm sets of its tasks' parameters.
fn values_problem(arm: &Arm) -> Option<String> {
    let mut values = arm.set.values().flat_map(Settings::written);
    if let Some((key, _)) = values.find(|(key, value)| *key == "workload" || value.is_array()) {
        return Some(format!(
            "arm '{}': set can give {key} one value, not a list, and no other workload",
            arm.name
        ));
    }
    None
}

fn between_problem(arm: &Arm, arms: &[&str]) -> Option<String> {
    let between = arm.between.as_ref()?;
    if arm.baseline.is_none()
        || [&arm.name].into_iter().chain(&arm.baseline).any(|own| own == between)
    {
        return Some(format!(
            "arm '{}': between must name a third arm, whose window lies between this arm's and its \
             baseline's",
            arm.name
        ));
    }
    if !arms.contains(&between.as_str()) {
        return Some(format!(
            "arm '{}': between '{between}' is not an arm{}",
            arm.name,
            hint(between, arms)
        ));
    }
    None
}

fn baseline_problem(arm: &Arm, arms: &[&str]) -> Option<String> {
    match arm.baseline.as_deref() {
        Some(name) if name == arm.name => {
            Some(format!("arm '{name}' is its own baseline: name another arm"))
        }
        Some(name) if !arms.contains(&name) => {
            Some(format!("arm '{}': baseline '{name}' is not an arm{}", arm.name, hint(name, arms)))
        }
        _ => None,
    }
}

impl Measure {
    fn problem(&self) -> Option<String> {
        match self.looks.first() {
            None => return Some("looks is empty: give a number of trials".into()),
            Some(first) if *first < 2 => {
                return Some(
                    format!("a measurement of {first} trials: give at least 2")
                        .replace("1 trials", "1 trial"),
                );
            }
            Some(_) if !self.looks.is_sorted_by(|one, next| one < next) => {
                let looks: Vec<String> = self.looks.iter().map(u32::to_string).collect();
                return Some(format!(
                    "the numbers of trials are {}: each must be larger than the one before",
                    looks.join(", ")
                ));
            }
            Some(_) => {}
        }
        if self.looks.last().is_some_and(|last| *last > 100_000) {
            return Some("at most 100000 trials are possible".into());
        }
        if self.rounds == 0 {
            return Some("0 rounds measure nothing: use at least 1".into());
        }
        if self.window < Span::ms(1) || self.window > Span::ms(600_000) {
            return Some(format!(
                "a window of {}: its length must be between 1ms and 10min",
                self.window
            ));
        }
        let episode = self.episode.and_then(|episode| episode.problem());
        if let Some(problem) =
            episode.or_else(|| self.freezing.and_then(|freezing| freezing.problem()))
        {
            return Some(problem);
        }
        if self.isolation_settle > Span::ms(600_000) {
            return Some("isolation: settle can be at most 10min".into());
        }
        if self.settle > Span::ms(600_000) || self.probe > Span::ms(10_000) {
            return Some("settle can be at most 10min, and probe at most 10s".into());
        }
        if !(0.5..1.0).contains(&self.confidence.0) {
            return Some(format!(
                "a confidence of {}: it must be at least 50% and below 100%",
                self.confidence
            ));
        }
        if self.last_look.is_some_and(|share| !(share.0 > 0.0 && share.0 < 1.0)) {
            return Some(
                "last_look must be more than 0% and less than 100% of the permitted error".into(),
            );
        }
        if self.margin.0 <= 0.0 {
            return Some("a margin of 0% allows no difference at all: use at least 0.1%".into());
        }
        None
    }
}

fn hint(word: &str, known: &[&str]) -> String {
    match nearest::nearest(word, known) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; there are: {}", known.join(", ")),
    }
}

fn duplicate<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| *name)
}
