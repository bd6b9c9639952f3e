//! The survey: what durable writes cost on this machine and what they slow down, without any
//! options.
//!
//! Probes first, since what the kernel says of caches and cores may not be so; then the experiments
//! of [`experiments`], each a dataset of its own; then [`advice`], which follows from the figures
//! alone.

pub mod advice;
mod advise;
pub mod answer;
pub(crate) mod conclude;
pub mod experiments;
pub mod files;
pub(crate) mod folder;
mod frontiers;
pub mod parts;
mod probes;
mod run;
mod tables;
mod victim;

pub use advice::Advice;
pub use experiments::Depth;
pub use files::Files;
pub use probes::{Probes, Reloads};
pub use run::{Options, expected, planned, run, writes};
pub use tables::{CostRow, NeighbourRow, Neighbours, Survey};
pub use victim::{Level, Outside};

#[cfg(test)]
mod tests {
    use ringfence_analysis::estimate::Verdict;
    use ringfence_experiment::task::{FenceAt, Instruction, Task};

    use super::*;
    use crate::fixtures::{harmless, ns_per_commit, ns_per_line, survey, zen};

    #[test]
    fn the_tables_hold_what_was_put_in() {
        let survey = survey(zen);
        assert_eq!(survey.cost.len(), 45 + 2 + 12);
        for row in &survey.cost {
            let cost = row.result.ns_per_unit.as_ref().unwrap();
            let truth = ns_per_line(&row.write);
            assert!((cost.value / truth - 1.0).abs() < 0.01, "{cost:?} for {truth}");
        }
        let chase = &survey.neighbours[0];
        assert_eq!((chase.victim.as_str(), chase.rows.len()), ("chase", 7 + 2 + 5));
        let row = |name: &str, paced: bool| {
            chase.rows.iter().find(|row| row.label == name && row.paced == paced).unwrap()
        };
        let slowdown = |name: &str, paced: bool| {
            let effect = row(name, paced).result.effect.as_ref().unwrap();
            (effect.finding.verdict, effect.by_class.all.slowdown.as_ref().unwrap().value)
        };
        assert!((slowdown("clwb", false).1 - 12.0).abs() < 0.2);
        assert_eq!(slowdown("clwb", true).0, Verdict::Slower);
        assert_eq!(slowdown("nt", false).0, Verdict::NoChangeLargerThanMargin);
        // Wider, since it holds together with all the others.
        let each = *row("clwb", false)
            .result
            .effect
            .as_ref()
            .unwrap()
            .by_class
            .all
            .slowdown
            .as_ref()
            .unwrap();
        let together = row("clwb", false).together.unwrap();
        assert!(together.low < each.low && together.high > each.high);
        // clflush, fenced once a block, is the slowest: 64 B in 103.25 ns, less 5 %.
        let slowest = 64e9 / (102.0 + 80.0 / 64.0) * 0.95 / f64::from(1 << 20);
        assert_eq!(survey.pace, Some(format!("{}MiB/s", slowest.floor())));
        // And stays so when paced writers, which are slower still, were measured.
        assert_eq!(survey.slowest_writer().map(|pace| pace.to_string()), survey.pace);
    }

    #[test]
    fn the_parts_add_up_to_what_was_put_in() {
        let survey = survey(harmless);
        let clwb = survey.parts.iter().find(|parts| parts.instruction == "clwb").unwrap();
        let close = |part: &parts::Part, truth: f64| {
            let part = part.as_ref().unwrap();
            assert!(
                (part.ns - truth).abs() < 0.5 && part.low <= part.ns && part.ns <= part.high,
                "{part:?}, {truth}"
            );
        };
        close(&clwb.copy, 2.0);
        close(clwb.ownership.as_ref().unwrap(), 3.0);
        close(&clwb.flush, 10.0);
        close(&clwb.fence_per_block, 80.0 / 64.0);
        close(&clwb.fence_per_line, 80.0);
        assert!((clwb.reload.unwrap() - 0.2).abs() < 1e-9);
        let nt = survey.parts.iter().find(|parts| parts.instruction == "nt").unwrap();
        assert!(nt.ownership.is_none() && nt.reload.is_none());
        let unfenced = survey.cost.iter().find(|row| {
            row.write.instruction == Instruction::Nt
                && row.write.fence_at == FenceAt::None
                && row.write.block.0 == 64
        });
        assert!((unfenced.unwrap().result.ns_per_unit.as_ref().unwrap().value - 3.0).abs() < 0.05);
    }

    #[test]
    fn commits_to_files_cost_what_was_put_in_alone_and_beside_writers() {
        let survey = survey(zen);
        let [alone, beside] = &survey.files[..] else { panic!("two experiments") };
        assert_eq!(alone.results.len(), 3);
        for result in &alone.results {
            let Task::Commit(commit) = alone.plan.metric_task(result.case) else {
                panic!("no commit")
            };
            let truth = ns_per_commit(commit);
            assert!((result.ns_per_unit.as_ref().unwrap().value / truth - 1.0).abs() < 0.01);
        }
        let harmed = beside.results.iter().filter(|result| {
            result.effect.as_ref().is_some_and(|effect| effect.finding.verdict == Verdict::Slower)
        });
        assert_eq!(harmed.count(), 1);
    }

    #[test]
    fn a_survey_opens_from_its_folder_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let was = crate::fixtures::survey_in(dir.path(), zen);
        let mut seen = Vec::new();
        let is =
            Survey::open(dir.path(), |dataset| seen.push(dataset.plan.experiment.name.clone()))
                .unwrap();
        let json = |survey: &Survey| serde_json::to_value(survey).unwrap();
        assert_eq!(json(&is), json(&was));
        assert_eq!(seen[..3], ["cost", "neighbours-chase", "neighbours-mcf"]);
        assert_eq!(seen.len(), 7 + 2);
        assert_eq!(seen[7..], ["commits", "commits-beside-writers"]);
        assert!(Survey::is_at(dir.path()) && !Survey::is_at(&dir.path().join("cost")));
        // What lacks a part is not judged by the rest.
        std::fs::remove_dir_all(dir.path().join("cost")).unwrap();
        let error = Survey::open(dir.path(), |_| {}).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("'cost' is missing"), "{error}");
    }

    #[test]
    fn a_folder_that_is_no_survey_or_a_newer_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = || Survey::open(dir.path(), |_| {}).unwrap_err();
        assert!(refused().is_usage());
        for (text, part) in [
            ("{", "not a survey"),
            ("{}", "its schema version is missing"),
            (r#"{"schema":3}"#, "newer"),
            (r#"{"schema":1}"#, "not a survey"),
        ] {
            std::fs::write(dir.path().join("survey.json"), text).unwrap();
            let error = refused();
            assert!(error.is_usage() && error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_advised_follows_from_the_tables() {
        let survey = survey(zen);
        let beside = |of: &str| {
            let mut all = survey.advice.iter().filter_map(|said| match said {
                Advice::Beside { victim, writers, at_most } if victim == of => {
                    Some((writers, *at_most))
                }
                _ => None,
            });
            all.next().unwrap()
        };
        let seen = |of: &str, seen: answer::Seen| -> Vec<String> {
            beside(of)
                .0
                .iter()
                .filter(|one| one.seen == seen)
                .map(|one| one.writer.clone())
                .collect()
        };
        assert_eq!(seen("chase", answer::Seen::Slows), ["clflush", "clwb", "plain store"]);
        assert!(seen("mcf", answer::Seen::Slows).is_empty());
        let (writers, at_most) = beside("mcf");
        assert_eq!(writers.len(), 7);
        assert!((1.0..1.02).contains(&at_most.unwrap()), "{at_most:?}");
        let paced: Vec<(&str, advice::Pacing)> = survey
            .advice
            .iter()
            .filter_map(|said| match said {
                Advice::Paced { writer, pacing, .. } => Some((writer.as_str(), *pacing)),
                _ => None,
            })
            .collect();
        use advice::Pacing::{Helps, LeavesIt};
        assert_eq!(paced, [("clflush", Helps), ("clwb", LeavesIt), ("plain store", LeavesIt)]);
        let cheapest = survey.advice.iter().filter(|said| matches!(said, Advice::Cheapest(_)));
        assert_eq!(cheapest.count(), answer::WRITTEN.len());
        assert!(!survey.advice.contains(&Advice::Moved));
    }

    #[test]
    fn nothing_is_advised_of_what_was_not_measured() {
        let mut survey = survey(harmless);
        let (median, worst) = survey.precision.unwrap();
        assert!(median > 0.0 && median <= worst && worst < 0.02, "{median} {worst}");
        survey.neighbours.clear();
        survey.cost.clear();
        survey.conclude();
        assert_eq!((&survey.answer, answer::Answer::new(&survey)), (&None, None));
        assert!(
            survey.advice.iter().all(|said| matches!(said, Advice::Reload { .. })),
            "{:?}",
            survey.advice
        );
    }
}
