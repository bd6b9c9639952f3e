//! The question: which tasks, how they are paired now, and how it is measured.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use ringfence_dataset::text_file;
use ringfence_engine::available;
use ringfence_experiment::task::{OneTask, Task, Tasks};
use ringfence_experiment::{
    Arm, Error, Experiment, Kind as Of, Measure, OneOrMany, Placement, PlacementKind, Role,
};
use serde::{Deserialize, Serialize};

use super::assignment::{Assignment, MOST_TASKS};

/// The file of a pair's folder that holds the question.
pub const FILE: &str = "question.json";

const KIND: &str = "pair";
// The experiments' roles.
const TASK: &str = "task";
const NEIGHBOUR: &str = "neighbour";

/// The question, as it is stored next to the datasets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PairQuestion"))]
pub struct Question {
    /// Version of this structure.
    pub schema: u32,
    /// What question it is: `pair`.
    pub kind: String,
    /// The tasks, as they were given, in that order.
    pub tasks: Vec<String>,
    /// How they are paired now.
    pub present: Assignment,
    /// Where the two CPUs are relative to each other.
    pub placement: PlacementKind,
    /// The seed of everything random.
    pub seed: u64,
    /// How every pair is measured.
    pub screen: Measure,
    /// How the advice is measured again.
    pub confirm: Measure,
}

/// Tasks that are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// The task as it was first given.
    pub text: String,
    /// The task.
    pub task: OneTask,
    /// Whose kind it is, from 0.
    pub tasks: Vec<usize>,
}

impl Question {
    /// The newest [`Question::schema`] that this program reads.
    pub const SCHEMA: u32 = 2;

    /// Asks; `present` is an assignment's text.
    ///
    /// # Errors
    /// One sentence for what makes no sense.
    pub fn new(
        tasks: &[String],
        present: Option<&str>,
        placement: PlacementKind,
        seed: u64,
        [screen, confirm]: [Measure; 2],
    ) -> Result<Self, String> {
        if !(2..=MOST_TASKS).contains(&tasks.len()) {
            return Err(format!(
                "pair needs 2 to {MOST_TASKS} tasks, but {} given: name each with --task, such as \
                 --task 'chase footprint=4MiB'",
                tasks.len()
            ));
        }
        let present = match present {
            Some(text) => Assignment::parse(text, tasks.len())
                .map_err(|error| format!("--present: {error}"))?,
            None => Assignment::in_order(tasks.len()),
        };
        let (kind, tasks) = (KIND.into(), tasks.to_vec());
        let question =
            Self { schema: Self::SCHEMA, kind, tasks, present, placement, seed, screen, confirm };
        question.kinds()?;
        Ok(question)
    }

    /// The different tasks among those given.
    ///
    /// # Errors
    /// One sentence about the first that is not a task.
    pub fn kinds(&self) -> Result<Vec<Kind>, String> {
        let mut kinds: Vec<Kind> = Vec::new();
        for (number, given) in self.tasks.iter().enumerate() {
            let failed = |error: String| format!("--task '{given}': {error}");
            let tasks = available::parse_task(given).map_err(failed)?;
            if tasks.each().map_err(failed)?.len() != 1 {
                return Err(failed(
                    "a list stands for several tasks: give each one its own --task".into(),
                ));
            }
            let task = OneTask::try_from(tasks).map_err(failed)?;
            if matches!(task.task(), Task::Idle(_)) {
                return Err(failed("it does no work that could be counted; leave it out".into()));
            }
            match kinds.iter_mut().find(|kind| kind.task.task() == task.task()) {
                Some(kind) => kind.tasks.push(number),
                None => kinds.push(Kind { text: given.trim().into(), task, tasks: vec![number] }),
            }
        }
        Ok(kinds)
    }

    /// Per task, the number of its kind.
    pub fn kind_of_each(&self, kinds: &[Kind]) -> Vec<usize> {
        let kind = |task| kinds.iter().position(|kind| kind.tasks.contains(&task));
        (0..self.tasks.len()).map(|task| kind(task).expect("every task has a kind")).collect()
    }

    /// The experiment that measures every pair of kinds, each side in its turn as the one whose
    /// rate is the figure.
    pub fn screening(&self, kinds: &[Kind]) -> Experiment {
        let all = (0..kinds.len()).flat_map(|a| (0..kinds.len()).map(move |b| (a, b)));
        let about = "How much do these tasks slow each other down?";
        let experiment = self.experiment("pair-screen", about, self.seed, &self.screen, kinds, all);
        Experiment { kind: Some(Of::PairScreen), ..experiment }
    }

    /// The experiment that measures, on fresh trials, the pairs of the present and of the advised
    /// assignment.
    pub fn confirming(&self, kinds: &[Kind], advised: &Assignment) -> Experiment {
        let of_each = self.kind_of_each(kinds);
        let pairs =
            [&self.present, advised].map(|assignment| assignment.by_kind(&of_each).pairs).concat();
        let both: BTreeSet<_> = pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let about = "What is gained by pairing these tasks as was advised?";
        // Another seed: another order, other memory layouts.
        let seed = self.seed.wrapping_add(0x5eed);
        let experiment =
            self.experiment("pair-confirm", about, seed, &self.confirm, kinds, both.into_iter());
        Experiment { kind: Some(Of::PairConfirmation), ..experiment }
    }

    fn experiment(
        &self,
        name: &str,
        about: &str,
        seed: u64,
        measure: &Measure,
        kinds: &[Kind],
        pairs: impl Iterator<Item = (usize, usize)>,
    ) -> Experiment {
        let tasks: Vec<Tasks> = kinds.iter().map(|kind| kind.task.tasks().clone()).collect();
        let role = |name: &str| Role::new(name, tasks.clone());
        let pairs: Vec<(usize, usize)> = pairs.collect();
        // A task that no other task is measured with need not be measured alone.
        let first: BTreeSet<u32> = pairs.iter().map(|pair| pair.0 as u32 + 1).collect();
        let alone = Arm {
            only: [(TASK.to_string(), OneOrMany::Many(first.into_iter().collect()))].into(),
            ..Arm::new("alone", &[TASK], None)
        };
        let beside = pairs.into_iter().map(|(a, b)| Arm {
            only: [(TASK, a), (NEIGHBOUR, b)]
                .map(|(role, kind)| (role.to_string(), OneOrMany::One(kind as u32 + 1)))
                .into(),
            ..Arm::new(
                &format!("{} beside {}", letter(a), letter(b)),
                &[TASK, NEIGHBOUR],
                Some("alone"),
            )
        });
        Experiment {
            seed,
            measure: measure.clone(),
            placement: Placement { kind: self.placement },
            roles: vec![role(TASK), role(NEIGHBOUR)],
            arms: std::iter::once(alone).chain(beside).collect(),
            ..Experiment::asking(name, about, TASK)
        }
    }

    /// Reads that of a folder; `None` where there is none, or one of another kind.
    ///
    /// # Errors
    /// One sentence where it cannot be read.
    pub fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        let broken = |error: &dyn std::fmt::Display| {
            Error::usage(format!("{}: {error}; restore the original", path.display()))
        };
        let text = match text_file::read(&path, text_file::LONGEST) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(broken(&error)),
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| broken(&error))?;
        if value["kind"] != KIND {
            return Ok(None);
        }
        if !value["schema"]
            .as_u64()
            .is_some_and(|schema| (1..=u64::from(Self::SCHEMA)).contains(&schema))
        {
            let problem = format!(
                "schema {} is not known: this program reads 1 to {}",
                value["schema"],
                Self::SCHEMA
            );
            return Err(broken(&problem));
        }
        let question: Self = serde_json::from_value(value).map_err(|error| broken(&error))?;
        // It may have been changed by hand.
        let fits = Assignment::parse(&question.present.written(), question.tasks.len())
            .is_ok_and(|present| present == question.present);
        if !fits {
            return Err(broken(&"present is not an assignment of these tasks"));
        }
        question.kinds().map_err(|error| broken(&error))?;
        Ok(Some(question))
    }
}

/// How a kind is called: A, B, C.
pub fn letter(kind: usize) -> char {
    char::from(b'A' + kind as u8)
}
