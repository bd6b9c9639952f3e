//! Another place: the aggressor where it shares less with the victim.

use ringfence_experiment::placement::{self, Want};
use ringfence_experiment::task::Task;
use ringfence_experiment::{Arm, PlacementKind, Reason, Role};
use ringfence_machine::cpulist::CpuSet;

use crate::prove::{AGGRESSOR, ALONE, VICTIM};
use ringfence_limits::lever::{Candidate, Lever, LeverContext, started};

pub struct OtherPlacement;

impl Lever for OtherPlacement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn about(&self) -> &'static str {
        "CPUs farther away from the victim"
    }

    fn candidates(&self, context: &LeverContext) -> Result<Vec<Candidate>, Reason> {
        if let Task::Idle(_) = context.aggressor {
            return Err("the aggressor does nothing".into());
        }
        if context.aggressor.is_attached() {
            return Err("the aggressor is a running process, which stays on its CPUs".into());
        }
        // From the nearest to the farthest; what is as near as the present place is not a lever.
        let kinds =
            [PlacementKind::Smt, PlacementKind::Llc, PlacementKind::Node, PlacementKind::Remote];
        let farther = kinds.iter().skip_while(|kind| **kind != context.placement).skip(1);
        let candidates: Vec<Candidate> =
            farther.filter_map(|kind| self.candidate(context, *kind)).collect();
        if candidates.is_empty() {
            return Err("this machine has no other CPUs that share less with the victim".into());
        }
        Ok(candidates)
    }
}

impl OtherPlacement {
    // A role of the same task on CPUs that are named: those of the victim stay where they are.
    fn candidate(&self, context: &LeverContext, kind: PlacementKind) -> Option<Candidate> {
        let metric = context.baseline.metric;
        let victims: CpuSet = context.baseline.placed.cpus[metric].iter().copied().collect();
        let present: CpuSet = context.baseline.placed.cpus.iter().flatten().copied().collect();
        let count = context.role.count.as_slice().iter().copied().max().unwrap_or(1);
        let home = Want { count: victims.len() as u32, cpus: Some(victims), ..Want::one(VICTIM) };
        let wants = [home, Want { count, kind, ..Want::one(AGGRESSOR) }];
        let placed = placement::place(context.topology, &wants, 0, &[vec![0, 1]]).ok()?;
        let cpus: CpuSet = placed.cpus[1].iter().copied().collect();
        if cpus.len() < count as usize || cpus.iter().any(|cpu| present.contains(cpu)) {
            return None;
        }
        let word = match kind {
            PlacementKind::Llc | PlacementKind::Auto => "same LLC, another core",
            PlacementKind::Node => "same node, another LLC",
            PlacementKind::Remote => "another node",
            PlacementKind::Smt => "SMT sibling",
        };
        let name = format!("aggressor on CPUs {cpus}");
        let role = Role {
            name: name.clone(),
            placement: None,
            cpus: Some(cpus.clone()),
            ..context.role.clone()
        };
        Some(Candidate {
            lever: self.name().into(),
            arm: Arm::new(
                &format!("placement {word} (CPUs {cpus})"),
                &[VICTIM, &name],
                Some(ALONE),
            ),
            role: Some(role),
            keep: format!(
                "start the aggressor on CPU{} {cpus}",
                if cpus.len() == 1 { "" } else { "s" }
            ),
            commands: vec![started(&["taskset", "-c", &cpus.to_string()], context.aggressor)],
            caveat: None,
            price_in_cpu_time: false,
        })
    }
}
