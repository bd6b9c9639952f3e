//! Which task runs on which CPU: a pure function of the topology.
//!
//! The metric's role is placed first, each instance on a core whose siblings stay idle. The other
//! roles follow in the file's order, each where its kind of placement says, on the first CPUs there
//! that are free of the roles it runs with. So roles that never run at once, because no arm has
//! both, may share CPUs: two variants of a co-runner then differ in nothing else. CPUs named in a
//! file are taken as they are, and the consequences (one CPU for two, a sibling, another cache,
//! another node) are reported.
//!
//! The core of CPU 0, which also serves the kernel, is taken last, and its use is reported. A role
//! for which there is no room gets fewer CPUs than it wants, never others: its cases are not run.
//! Only instances that wait for a device most of the time run on one CPU together where there are
//! fewer CPUs than instances.

mod notes;
mod seats;
mod want;

use ringfence_machine::topology::Topology;

pub use want::{Place, Placed, Want};

use seats::Floor;

/// Places roles; `metric` is the index of the role whose rate is the figure, `arms` has for each
/// arm the roles that run at once. Roles of the kind `auto` all get the first kind with room for
/// them.
///
/// # Errors
/// One sentence where CPUs named in the file cannot be used.
pub fn place(
    topology: &Topology,
    wants: &[Want],
    metric: usize,
    arms: &[Vec<usize>],
) -> Result<Placed, String> {
    let meets =
        |a: usize, b: usize| a != b && arms.iter().any(|arm| arm.contains(&a) && arm.contains(&b));
    check_named(topology, wants)?;
    let floor = Floor::of(topology);
    let mut best = floor.seat(wants, metric, &meets);
    for (cpus, want) in best.cpus.iter_mut().zip(wants).filter(|(_, want)| want.waits) {
        *cpus = cpus.iter().copied().cycle().take(want.count as usize).collect();
    }
    let mut placed = Placed { cpus: best.cpus, places: best.places, notes: Vec::new() };
    placed.notes = notes::notes(topology, wants, metric, &placed, &meets);
    Ok(placed)
}

fn check_named(topology: &Topology, wants: &[Want]) -> Result<(), String> {
    let usable = topology.usable();
    for cpus in wants.iter().flat_map(|want| want.cpus.iter().chain([&want.besides])) {
        if let Some(bad) = cpus.iter().find(|cpu| !usable.contains(*cpu)) {
            return Err(format!(
                "CPU {bad} is not among the CPUs that are online and allowed ({usable}): choose \
                 from these"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
