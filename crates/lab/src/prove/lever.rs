//! What a lever is: something that can be done to the aggressor, or to where it runs.

use ringfence_machine::root::FsRoot;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::{Info, Resctrl, State};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::{AGGRESSOR, ALONE, VICTIM};
use crate::experiment::{Arm, PlacementKind, Role};
use crate::plan::Plan;
use crate::task::Task;

/// A way to disturb less, with some settings. A new one joins by implementing this; whoever measures
/// and chooses sees only [`Offer`]s.
pub trait Lever {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// The settings that this machine and this aggressor allow, the gentlest on the aggressor first.
    ///
    /// # Errors
    /// Why there are none, to follow "because".
    fn offers(&self, scene: &Scene) -> Result<Vec<Offer>, String>;
}

/// What a lever may look at.
pub struct Scene<'a> {
    /// The machine's CPUs and caches.
    pub topology: &'a Topology,
    /// The look's plan: who runs where.
    pub look: &'a Plan,
    /// The aggressor.
    pub aggressor: &'a Task,
    /// The same as a table.
    pub table: &'a Table,
    /// Its role, for levers that need another one like it.
    pub role: &'a Role,
    /// How the aggressor lies to the victim.
    pub placement: PlacementKind,
    /// Bytes a second of one aggressor at full rate, where its work is moving bytes.
    pub bytes_per_s: Option<f64>,
    /// Environment variables that the user wants tried.
    pub try_env: &'a [(String, String)],
    /// What resctrl shares out here, or why it does not.
    pub resctrl: &'a Result<Shared, String>,
}

/// What resctrl shares out, and to whom at present.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Where it is mounted.
    pub place: String,
    /// What can be shared out.
    pub info: Info,
    /// The groups.
    pub state: State,
}

impl Shared {
    /// That of this machine.
    ///
    /// # Errors
    /// Why there is none, to follow "because".
    pub fn here() -> Result<Self, String> {
        let fs = Resctrl::find(&FsRoot::host()).map_err(|why| why.to_string())?;
        let read = || Ok(Self { place: fs.place(), info: fs.info()?, state: State::read(&fs)? });
        read().map_err(|error: ringfence_resctrl::Error| error.to_string())
    }

    /// Groups that can still be made.
    pub fn free_groups(&self) -> u32 {
        let groups = self.state.groups.iter().map(|(id, group)| (id, group.mode));
        self.info.closids_free(groups).unwrap_or(0)
    }
}

/// One setting of a lever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The lever's name.
    pub lever: String,
    /// The arm in which it is measured; its name says what is set.
    pub arm: Arm,
    /// A role besides those of the look, where the lever needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The command or setting that keeps it.
    pub keep: String,
    /// What it cannot do, or what it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// Whether an aggressor that only shows its CPU time shows what it pays.
    pub price_in_cpu_time: bool,
}

impl Offer {
    /// An offer whose arm sets parameters of the aggressor.
    pub fn set(lever: &dyn Lever, words: String, set: Table, keep: String) -> Self {
        let mut arm = Arm::new(&words, &[VICTIM, AGGRESSOR], Some(ALONE));
        arm.set.insert(AGGRESSOR.into(), set);
        Self { lever: lever.name().into(), arm, role: None, keep, caveat: None, price_in_cpu_time: false }
    }
}
