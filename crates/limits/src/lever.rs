//! What a lever is: something that can be done to the aggressor, or to where it runs.

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_experiment::plan::Plan;
use ringfence_experiment::shell;
use ringfence_experiment::task::{Settings, Task, Tasks};
use ringfence_experiment::{Arm, Limit, PlacementKind, Reason, Role};
use ringfence_machine::Machine;
use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::features::Features;
use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::{DEFAULT_MOUNT, GroupId, GroupState, Info, Mode, Resctrl, State};
use serde::{Deserialize, Serialize};

/// The victim's role, also the metric.
pub const VICTIM: &str = "victim";
/// The aggressor's role.
pub const AGGRESSOR: &str = "aggressor";
/// The arm without an aggressor.
pub const ALONE: &str = "alone";

/// An aggressor that writes fewer bytes a second than this is not limited further.
pub const LEAST_WRITTEN: f64 = (2 << 20) as f64;

/// A method to disturb less, with some settings. A new one implements this trait; the code that
/// measures and chooses sees only [`Candidate`]s.
pub trait Lever {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// What it does, in some words, as the help lists it.
    fn about(&self) -> &'static str;

    /// The settings that this machine and this aggressor allow, the gentlest on the aggressor
    /// first.
    ///
    /// # Errors
    /// Why there are none.
    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason>;
}

/// What a lever may look at.
pub struct LeverContext<'a> {
    /// The machine's CPUs and caches.
    pub topology: &'a Topology,
    /// What the processor can do; where that is not known, everything.
    pub features: Option<&'a Features>,
    /// The baseline's plan: what runs where.
    pub baseline: &'a Plan,
    /// The aggressor.
    pub aggressor: &'a Task,
    /// The same as a role may have it.
    pub tasks: &'a Tasks,
    /// Its role, for levers that need another one like it.
    pub role: &'a Role,
    /// Where the aggressor runs relative to the victim.
    pub placement: PlacementKind,
    /// Bytes a second of one aggressor at full rate, where its work is moving bytes.
    pub bytes_per_s: Option<f64>,
    /// Bytes a second that all aggressors together gave to disks, or to the page cache for them,
    /// where that was seen.
    pub disk_bytes_per_s: Option<f64>,
    /// Environment variables that the user asked to try.
    pub try_env: &'a [(String, String)],
    /// Another folder for its files, which the user names.
    pub other_dir: Option<&'a Path>,
    /// Whether settings of the whole system may be changed.
    pub system: bool,
    /// What resctrl shares out here, or why it does not.
    pub resctrl: &'a Result<Shared, Reason>,
}

/// What resctrl shares out, and which groups have it at present.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Where it is mounted.
    pub place: String,
    /// What can be shared out.
    pub info: Info,
    /// The groups.
    pub state: State,
}

impl LeverContext<'_> {
    /// The aggressor with other parameters of its own workload, as on a command line.
    ///
    /// # Panics
    /// Where they are another workload's.
    pub fn aggressor_with(&self, set: &Settings) -> String {
        self.tasks.with(set).expect("its own parameters").to_string()
    }
}

impl Shared {
    /// That of this machine.
    ///
    /// # Errors
    /// Why there is none.
    pub fn here() -> Result<Self, Reason> {
        let fs = Resctrl::find(&FsRoot::host()).map_err(|why| why.to_string())?;
        let read = || Ok(Self { place: fs.place(), info: fs.info()?, state: State::read(&fs)? });
        read().map_err(|error: ringfence_resctrl::Error| error.to_string().into())
    }

    /// That of a described machine: nothing has been changed there.
    ///
    /// # Errors
    /// Why there is none.
    pub fn described(machine: &Machine) -> Result<Self, Reason> {
        let Some(offered) = &machine.resctrl else {
            return Err("the described processor shows no RDT (Intel) or PQoS (AMD)".into());
        };
        let default = GroupState {
            mode: Some(Mode::Shareable),
            schemata: offered.default.clone(),
            cpus: CpuSet::new(),
            threads: Vec::new(),
        };
        let groups = BTreeMap::from([(GroupId::default(), default)]);
        let state = State { groups, ..State::default() };
        Ok(Self { place: DEFAULT_MOUNT.into(), info: offered.info.clone(), state })
    }

    /// Groups that can still be made.
    pub fn free_groups(&self) -> u32 {
        let groups = self.state.groups.iter().map(|(id, group)| (id, group.mode));
        self.info.closids_free(groups).unwrap_or(0)
    }
}

/// One setting of a lever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The lever's name.
    pub lever: String,
    /// The arm in which it is measured; its name says what is set.
    pub arm: Arm,
    /// An additional role, where the lever needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How it is kept. It is stored as a text, and so is the caveat.
    pub keep: String,
    /// The commands that do so, each a line for a shell; COMMAND in them stands for the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What it cannot do, or what it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Whether an aggressor that only shows its CPU time shows what it pays.
    pub price_in_cpu_time: bool,
}

impl Candidate {
    /// A candidate with an arm.
    pub fn of(lever: &dyn Lever, arm: Arm, keep: String) -> Self {
        Self {
            lever: lever.name().into(),
            arm,
            role: None,
            keep,
            commands: Vec::new(),
            caveat: None,
            price_in_cpu_time: false,
        }
    }

    /// A candidate whose arm sets parameters of the aggressor.
    pub fn set(lever: &dyn Lever, words: String, set: impl Into<Settings>, keep: String) -> Self {
        let mut arm = Arm::new(&words, &[VICTIM, AGGRESSOR], Some(ALONE));
        arm.set.insert(AGGRESSOR.into(), set.into());
        Self::of(lever, arm, keep)
    }

    /// A candidate whose arm gives the aggressor a limit.
    pub fn limit(lever: &dyn Lever, words: &str, limit: Limit, keep: String) -> Self {
        let arm = Arm::new(words, &[VICTIM, AGGRESSOR], Some(ALONE)).with(AGGRESSOR, limit);
        Self { price_in_cpu_time: true, ..Self::of(lever, arm, keep) }
    }

    /// The same with what it cannot do.
    pub fn caveat(self, caveat: impl Into<String>) -> Self {
        Self { caveat: Some(caveat.into()), ..self }
    }

    /// The same with commands that keep it.
    pub fn by(self, commands: Vec<String>) -> Self {
        Self { commands, ..self }
    }
}

/// A command line that starts a task through another program, such as `taskset -c 2`.
pub fn started(before: &[&str], task: &Task) -> String {
    let Task::Command(command) = task else {
        return shell::line(before.iter().copied().chain(["COMMAND"]));
    };
    let env: Vec<String> =
        command.env.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let argv = command.argv().unwrap_or_default();
    let env_program = (!env.is_empty()).then_some("env");
    let words = before.iter().copied().chain(env_program);
    shell::line(words.chain(env.iter().map(String::as_str)).chain(argv.iter().map(String::as_str)))
}

/// A command line that starts a task in one of resctrl's groups, as root.
pub fn started_in_group(tasks_file: &str, task: &Task) -> String {
    let script = format!("echo $$ > {} && exec \"$@\"", shell::quote(tasks_file));
    started(&["sh", "-c", &script, "sh"], task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_experiment::task::Command;

    // What a shell makes of a line: the words that the program gets.
    fn words(line: &str) -> Vec<String> {
        let script = format!("show() {{ printf '%s\\n' \"$@\"; }}; show {line}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{line}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_can_be_pasted_whatever_the_task_is_called() {
        let mut command = Command::new("'./my server' --name \"it's\" '$HOME' '*'");
        command.env.insert("A".into(), "x y".into());
        let line = started(&["taskset", "-c", "1"], &Task::Command(command.clone()));
        let expected =
            ["taskset", "-c", "1", "env", "A=x y", "./my server", "--name", "it's", "$HOME", "*"];
        assert_eq!(words(&line), expected);
        assert_eq!(
            started(&["taskset", "-c", "1"], &Task::Alu(Default::default())),
            "taskset -c 1 COMMAND"
        );
    }

    #[test]
    fn a_task_is_started_in_its_group_by_what_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("a group's tasks");
        let command = Task::Command(Command::new("printf '%s-%s' 'one two' three"));
        let line = started_in_group(tasks.to_str().unwrap(), &command);
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "one two-three", "{line}");
        assert!(std::fs::read_to_string(tasks).unwrap().trim().parse::<u32>().is_ok());
    }
}
