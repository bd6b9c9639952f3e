use ringfence_machine::cpulist::CpuSet;
use ringfence_machine::fixtures;
use ringfence_machine::topology::Topology;
use ringfence_resctrl::info::CacheInfo;
use ringfence_resctrl::{GroupState, Info, Mask, Mode, State};
use toml::Table;

use super::*;
use crate::levers::bandwidth::Bandwidth;
use crate::levers::both::Both;
use ringfence_experiment::plan::Plan;
use ringfence_experiment::{Experiment, Role};

fn cascade_lake(closids: u32) -> Shared {
    let mut info = Info::default();
    let l3 = CacheInfo {
        num_closids: closids,
        cbm_mask: Mask(0x7ff),
        min_cbm_bits: 1,
        shareable_bits: Mask(0x600),
        io_alloc: Default::default(),
        sparse_masks: false,
        bit_usage: Default::default(),
    };
    info.caches.insert("L3".into(), l3);
    let group = |schemata: &str| GroupState {
        mode: Some(Mode::Shareable),
        schemata: schemata.parse().unwrap(),
        cpus: CpuSet::new(),
        threads: Vec::new(),
    };
    let mut state = State::default();
    state.groups.insert(GroupId::default(), group("L3:0=7ff;1=7ff\nMB:0=100;1=100"));
    state.groups.insert(GroupId::control("web"), group("L3:0=7f;1=7ff\nMB:0=100;1=100"));
    Shared { place: "/sys/fs/resctrl".into(), info, state }
}

// What a lever offers for a victim and an aggressor on these CPUs of a machine with two sockets.
fn candidates(
    lever: &dyn Lever,
    shared: Result<Shared, String>,
    cpus: (u32, u32),
    placement: PlacementKind,
) -> Result<Vec<Candidate>, String> {
    let topology = Topology::read(&fixtures::xeon_2s64t().root()).unwrap();
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[[role]]\nname = 'victim'\ncpus = '{}'\n\
         task = {{ workload = 'chase' }}\n[[role]]\nname = 'aggressor'\ncpus = '{}'\n\
         task = {{ workload = 'stream' }}\n[[arm]]\nname = 'alone'\nactive = ['victim']\n\
         [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n",
        cpus.0, cpus.1
    );
    let baseline = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
    let aggressor = baseline.variants[1][0].task.clone();
    let role: Role = baseline.experiment.roles[1].clone();
    lever.candidates(&LeverContext {
        features: None,
        topology: &topology,
        baseline: &baseline,
        aggressor: &aggressor,
        table: &Table::new(),
        role: &role,
        placement,
        bytes_per_s: None,
        disk_bytes_per_s: None,
        try_env: &[],
        other_dir: None,
        system: false,
        resctrl: &shared,
    })
}

#[test]
fn the_victim_gets_ways_that_nobody_else_has() {
    let candidates = candidates(&Ways, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).unwrap();
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.arm.name.as_str()).collect();
    assert_eq!(names, ["cat L3 3 of 11 ways", "cat L3 6 of 11 ways", "cat L3 8 of 11 ways"]);
    let domain = Topology::read(&fixtures::xeon_2s64t().root()).unwrap().llc(1).unwrap().id.unwrap();
    let says = |arm: &Arm| {
        let line = |(name, schemata): (&String, &Schemata)| format!("{name} {}", schemata.to_string().trim());
        arm.resctrl.iter().map(line).collect::<Vec<_>>().join(" | ")
    };
    // The two ways of I/O are the highest; the group `web` keeps what is left of its own.
    let expected = format!("/ L3:{domain}=7f8 | /web L3:{domain}=78 | victim L3:{domain}=7");
    let expected = if domain == 0 { expected } else { expected.replace("=78 ", "=7f8 ") };
    assert_eq!(says(&candidates[0].arm), expected);
    for candidate in &candidates {
        let mask = |name: &str| candidate.arm.resctrl[name].settings().next().unwrap().2.to_string();
        let bits = |text: String| text.parse::<Mask>().unwrap();
        assert!(!bits(mask("victim")).overlaps(bits(mask("/"))));
        assert!(!bits(mask("victim")).overlaps(bits(mask("/web"))));
        let script = candidate.commands.join("\n");
        let checked = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
        assert!(checked.success(), "{script}");
        let last = candidate.commands.last().unwrap();
        assert_eq!(*last, "sh -c 'echo $$ > /sys/fs/resctrl/victim/tasks && exec \"$@\"' sh COMMAND");
    }
}

#[test]
fn what_it_cannot_do_is_said() {
    let why =
        |lever: &dyn Lever, shared, cpus, placement| candidates(lever, shared, cpus, placement).unwrap_err();
    assert_eq!(why(&Ways, Err("not mounted".into()), (1, 3), PlacementKind::Llc), "not mounted");
    let apart = why(&Ways, Ok(cascade_lake(16)), (0, 1), PlacementKind::Remote);
    assert!(apart.contains("share no L3"), "{apart}");
    assert!(why(&Ways, Ok(cascade_lake(2)), (1, 3), PlacementKind::Llc).contains("groups are in use"));
    assert!(
        why(&Bandwidth, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).contains("no memory bandwidth")
    );
    assert!(why(&Both, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).contains("no memory bandwidth"));
    let sibling = candidates(&Ways, Ok(cascade_lake(16)), (1, 33), PlacementKind::Smt).unwrap();
    assert!(sibling[0].caveat.as_ref().unwrap().contains("siblings still share L1, L2"));
    let wide = candidates(&Ways, Ok(cascade_lake(16)), (1, 3), PlacementKind::Llc).unwrap();
    assert!(!wide[0].caveat.as_ref().unwrap().contains("siblings"));
}
