//! For each victim of a survey: its slowdown against the bytes written next to it.

use ringfence_analysis::frontier::{self, Frontier};
use ringfence_experiment::Kind;

use super::Survey;
use crate::findings::Findings;

impl Survey {
    /// A frontier for each victim, of its experiments at full rate and paced together.
    pub fn frontiers(&self, found: &[&Findings]) -> Vec<Frontier> {
        let of_victim = |victim: &str| {
            let is_one = |found: &&&Findings| match &found.plan.experiment.kind {
                Some(Kind::SurveyBeside { victim: of, .. }) => of == victim,
                _ => false,
            };
            let parts: Vec<&Frontier> =
                found.iter().filter(is_one).map(|found| &found.frontier).collect();
            frontier::merged(&parts)
                .map(|merged| Frontier { victim: Some(victim.into()), ..merged })
        };
        self.neighbours.iter().filter_map(|table| of_victim(&table.victim)).collect()
    }

    /// That of the victim that was harmed most, by what all intervals together bear out; else the
    /// first.
    pub fn most_harmed(&self, frontiers: &[Frontier]) -> Option<usize> {
        let harm = |frontier: &Frontier| -> f64 {
            let tables = self
                .neighbours
                .iter()
                .filter(|table| Some(&table.victim) == frontier.victim.as_ref());
            let rows = tables.flat_map(|table| &table.rows).filter_map(|row| row.together);
            rows.map(|slowdown| slowdown.low).fold(1.0, f64::max)
        };
        let harms: Vec<f64> = frontiers.iter().map(harm).collect();
        let most = harms.iter().copied().max_by(f64::total_cmp)?;
        // The first of equals.
        harms.iter().position(|harm| *harm == most)
    }
}
