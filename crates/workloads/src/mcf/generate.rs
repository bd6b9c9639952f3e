//! Instances made from a seed: timetables to measure with, random networks to test with.

use ringfence_machine::units::Bytes;

use super::draw::Draw;
use super::instance::{Arc, Instance};

/// The footprint of a solver for [`timetable`]s, per trip. Measured from 1 MiB to 256 MiB,
/// over which it varies by less than 2 %; a test holds it to that.
const BYTES_PER_TRIP: u64 = 1510;

/// The most trips that may follow a trip with the same vehicle.
const SUCCESSORS: usize = 30;

/// What it costs to use one more vehicle: more than any sensible detour.
const VEHICLE: i64 = 100_000;

/// The side of the square city, in metres, and the speed through it, in metres a second.
const SIDE: u64 = 20_000;
const SPEED: i64 = 8;

/// The longest a vehicle waits between two trips, in seconds, the way there included.
const WAIT: i64 = 2 * 3600;

/// A trip in the timetable: where and when it starts and ends.
#[derive(Clone, Copy)]
struct Trip {
    start: i64,
    end: i64,
    from: [i64; 2],
    to: [i64; 2],
}

/// Seconds from one place to another.
fn travel(from: [i64; 2], to: [i64; 2]) -> i64 {
    ((from[0] - to[0]).abs() + (from[1] - to[1]).abs()) / SPEED
}

fn place(draw: &mut Draw) -> [i64; 2] {
    [draw.below(SIDE) as i64, draw.below(SIDE) as i64]
}

/// A time of day between 5 and 23 o'clock: one half spread evenly, the other in two peaks.
fn time(draw: &mut Draw) -> i64 {
    match draw.below(4) {
        0 => 7 * 3600 + draw.between(0, 3600) + draw.between(0, 3600),
        1 => 16 * 3600 + draw.between(0, 3600) + draw.between(0, 3600),
        _ => draw.between(5 * 3600, 23 * 3600),
    }
}

fn trips(count: u32, draw: &mut Draw) -> Vec<Trip> {
    let mut trips: Vec<Trip> = (0..count)
        .map(|_| {
            let (start, from, to) = (time(draw), place(draw), place(draw));
            Trip { start, end: start + travel(from, to) + draw.between(60, 660), from, to }
        })
        .collect();
    // Stable, so that trips starting in the same second keep the order they were drawn in.
    trips.sort_by_key(|trip| trip.start);
    trips
}

/// A vehicle schedule: serve a day's trips with few vehicles and little empty driving.
///
/// Trip `i` of `n` is split in two nodes. Its vehicle ends up at node `i`, which demands 1, and
/// comes free again at node `n + i`, which supplies 1; so the requirement that every trip be
/// served has become supplies, and no arc needs a lower bound. Node `2n` is the depot. Arcs
/// lead from the depot to every trip, at the price of a vehicle, from every trip to the depot,
/// and from a trip to up to 30 later ones that a vehicle reaches in time, at a price for the
/// way and the wait. All capacities are 1. One vehicle for each trip is always a solution.
///
/// The same arguments make the same instance on every machine and in every version.
///
/// # Panics
///
/// With 2^31 trips or more, whose nodes have no numbers.
pub fn timetable(trips: u32, seed: u64) -> Instance {
    assert!(trips < 1 << 31, "{trips} trips are too many");
    let draw = &mut Draw::new(seed);
    let table = self::trips(trips, draw);
    let depot = 2 * trips;
    let home = place(draw);
    let mut instance = Instance::with_arc_capacity(depot + 1, table.len() * (2 + SUCCESSORS));
    for (i, trip) in table.iter().enumerate() {
        let (begin, end) = (i as u32, trips + i as u32);
        instance.set_supply(begin, -1);
        instance.set_supply(end, 1);
        let mut add = |tail, head, cost| instance.add_arc(Arc { tail, head, capacity: 1, cost });
        add(depot, begin, VEHICLE + 2 * travel(home, trip.from));
        add(end, depot, 2 * travel(trip.to, home));
        successors(&table, trip, draw, |j, cost| add(end, j, cost));
    }
    instance
}

/// Calls `add` with some of the trips that can follow `trip`, spread over the time after it,
/// and with what the way there and the wait cost.
fn successors(table: &[Trip], trip: &Trip, draw: &mut Draw, mut add: impl FnMut(u32, i64)) {
    let first = table.partition_point(|next| next.start < trip.end);
    let last = table.partition_point(|next| next.start <= trip.end + WAIT);
    // One from each of as many stretches of like length, where trips are that many.
    let bound = |stretch| first + (last - first) * stretch / SUCCESSORS;
    for (low, high) in (0..SUCCESSORS).map(|stretch| (bound(stretch), bound(stretch + 1))) {
        if low == high {
            continue;
        }
        let j = low + draw.below((high - low) as u64) as usize;
        let next = &table[j];
        let (way, time) = (travel(trip.to, next.from), next.start - trip.end);
        if way <= time {
            add(j as u32, way + time);
        }
    }
}

/// The number of trips whose [`timetable`] gives a solver of about this footprint.
///
/// ```
/// use ringfence_workloads::mcf::{Solver, timetable, trips_for_footprint};
/// use ringfence_machine::units::Bytes;
/// let trips = trips_for_footprint(Bytes::mib(4));
/// let footprint = Solver::new(&timetable(trips, 1)).unwrap().footprint_bytes();
/// assert!(footprint.abs_diff(4 << 20) < 4 << 15);
/// ```
pub fn trips_for_footprint(footprint: Bytes) -> u32 {
    (footprint.0 / BYTES_PER_TRIP).clamp(1, (1 << 31) - 1) as u32
}

/// What a [`random`] network looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomShape {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of arcs between nodes drawn freely, so that there are loops, parallel arcs
    /// and, with few arcs, several components.
    pub arcs: u32,
    /// Capacities, and supplies of pairs of nodes, are drawn from 0 to this.
    pub max_capacity: i64,
    /// The least cost.
    pub min_cost: i64,
    /// The greatest cost.
    pub max_cost: i64,
    /// On average, one arc in this many has no capacity; with 0, every arc has one.
    pub uncapped_one_in: u32,
    /// Whether supplies come from a flow, so that there is one, or are drawn freely (they sum
    /// to 0 either way).
    pub feasible: bool,
}

/// A random network, the same for the same arguments on every machine and in every version.
///
/// # Panics
///
/// With arcs but no nodes, or with an empty range of capacities or costs.
pub fn random(shape: RandomShape, seed: u64) -> Instance {
    let draw = &mut Draw::new(seed);
    let mut supply = vec![0; shape.nodes as usize];
    let mut instance = Instance::with_arc_capacity(shape.nodes, shape.arcs as usize);
    let mut give = |from: u32, to: u32, amount: i64| {
        supply[from as usize] += amount;
        supply[to as usize] -= amount;
    };
    let node = |draw: &mut Draw| draw.below(u64::from(shape.nodes)) as u32;
    for _ in 0..shape.arcs {
        let (tail, head) = (node(draw), node(draw));
        let (most, cost) =
            (draw.between(0, shape.max_capacity), draw.between(shape.min_cost, shape.max_cost));
        let capacity = if draw.one_in(shape.uncapped_one_in) { Instance::UNCAPPED } else { most };
        instance.add_arc(Arc { tail, head, capacity, cost });
        // Half the arcs carry nothing, which makes for degenerate bases.
        if shape.feasible && draw.one_in(2) {
            give(tail, head, draw.between(0, most));
        }
    }
    if !shape.feasible {
        for _ in 0..shape.nodes / 3 {
            give(node(draw), node(draw), draw.between(0, shape.max_capacity));
        }
    }
    supply
        .into_iter()
        .enumerate()
        .for_each(|(node, supply)| instance.set_supply(node as u32, supply));
    instance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcf::Solver;

    #[test]
    fn timetables_are_schedules() {
        let instance = timetable(500, 7);
        assert_eq!(instance.nodes(), 1001);
        assert_eq!(instance.supply().iter().sum::<i64>(), 0);
        let mut followers = vec![Vec::new(); 500];
        for Arc { tail, head, capacity, .. } in instance.arcs() {
            assert_eq!(capacity, 1);
            match (tail, head) {
                (1000, begin) => assert!(begin < 500),
                (end, 1000) => assert!((500..1000).contains(&end)),
                (end, begin) => {
                    assert!(begin > end - 500, "a trip follows an earlier one");
                    followers[end as usize - 500].push(begin);
                }
            }
        }
        assert!(followers.iter().all(|f| f.len() <= SUCCESSORS && f.is_sorted_by(|a, b| a < b)));
        assert!(followers.iter().filter(|f| f.len() >= 10).count() > 400);
    }

    #[test]
    fn a_seed_fixes_the_instance() {
        let shape = RandomShape {
            nodes: 20,
            arcs: 50,
            max_capacity: 9,
            min_cost: -5,
            max_cost: 5,
            uncapped_one_in: 4,
            feasible: true,
        };
        assert_eq!(timetable(30, 5), timetable(30, 5));
        assert_ne!(timetable(30, 5), timetable(30, 6));
        assert_eq!(random(shape, 5), random(shape, 5));
        assert_ne!(random(shape, 5), random(shape, 6));
    }

    #[test]
    fn a_footprint_is_met() {
        for mib in [1, 4, 16, 64] {
            let solver =
                Solver::new(&timetable(trips_for_footprint(Bytes::mib(mib)), mib)).unwrap();
            let ratio = solver.footprint_bytes() as f64 / Bytes::mib(mib).0 as f64;
            assert!((0.98..1.02).contains(&ratio), "{mib} MiB: {ratio:.4}");
        }
        assert_eq!(trips_for_footprint(Bytes(0)), 1);
    }
}
