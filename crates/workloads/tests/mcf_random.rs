//! The network simplex on thousands of small networks, every answer proved or refuted by means
//! that share nothing with it.

use std::collections::VecDeque;

use ringfence_workloads::mcf::{
    Arc, Instance, RandomShape, Solver, State, TooLarge, random, verify,
};

fn solve(instance: &Instance) -> (Solver, State) {
    let mut solver = Solver::new(instance).expect("small numbers");
    loop {
        let state = solver.run(10_000).state;
        if state != State::Running {
            return (solver, state);
        }
    }
}

/// Whether any flow meets the supplies: by augmenting paths from supplies to demands.
fn is_feasible(instance: &Instance) -> bool {
    let n = instance.nodes() as usize;
    let (source, sink) = (n, n + 1);
    let mut room = vec![vec![0i128; n + 2]; n + 2];
    for arc in instance.arcs() {
        // A sum of a few of these does not overflow.
        room[arc.tail as usize][arc.head as usize] += i128::from(arc.capacity);
    }
    let (mut supplied, mut demanded) = (0, 0);
    for (node, &supply) in instance.supply().iter().enumerate() {
        let supply = i128::from(supply);
        room[source][node] = supply.max(0);
        room[node][sink] = (-supply).max(0);
        supplied += supply.max(0);
        demanded += (-supply).max(0);
    }
    let mut sent = 0;
    loop {
        let mut from = vec![usize::MAX; n + 2];
        let mut queue = VecDeque::from([source]);
        while let Some(at) = queue.pop_front() {
            for to in 0..n + 2 {
                if room[at][to] > 0 && from[to] == usize::MAX && to != source {
                    from[to] = at;
                    queue.push_back(to);
                }
            }
        }
        if from[sink] == usize::MAX {
            return supplied == demanded && sent == supplied;
        }
        let path: Vec<(usize, usize)> =
            std::iter::successors(Some((from[sink], sink)), |&(at, _)| {
                (at != source).then(|| (from[at], at))
            })
            .collect();
        let amount = path.iter().map(|&(a, b)| room[a][b]).min().expect("a path has arcs");
        for (a, b) in path {
            room[a][b] -= amount;
            room[b][a] += amount;
        }
        sent += amount;
    }
}

/// Whether arcs without capacity form a cycle of negative cost: by Bellman and Ford.
fn has_endless_gain(instance: &Instance) -> bool {
    let mut distance = vec![0i128; instance.nodes() as usize];
    for _ in 0..=instance.nodes() {
        let mut changed = false;
        for arc in instance.arcs().filter(|arc| arc.capacity == Instance::UNCAPPED) {
            let through = distance[arc.tail as usize] + i128::from(arc.cost);
            if through < distance[arc.head as usize] {
                distance[arc.head as usize] = through;
                changed = true;
            }
        }
        if !changed {
            return false;
        }
    }
    true
}

/// Solves an instance and checks the answer.
fn check(instance: &Instance, what: &str) -> State {
    let (solver, state) = solve(instance);
    match state {
        State::Running => unreachable!(),
        State::Optimal => {
            let proved = verify(instance, &solver.flows(), &solver.potentials());
            assert_eq!(proved, Ok(solver.cost()), "{what}");
        }
        State::Infeasible => assert!(!is_feasible(instance), "{what}: there is a flow"),
        State::Unbounded => assert!(has_endless_gain(instance), "{what}: no gain is endless"),
    }
    state
}

#[test]
fn small_networks_are_solved() {
    let mut counts = [0; 3];
    for seed in 0..20_000 {
        let pick = |choices: &[i64], of: u64| choices[(seed / of) as usize % choices.len()];
        let (min_cost, max_cost) = [(0, 0), (0, 5), (-5, 5), (-20, -1), (-1, 1)][seed as usize % 5];
        let shape = RandomShape {
            nodes: 1 + seed as u32 % 13,
            arcs: pick(&[0, 3, 8, 15, 40], 5) as u32,
            max_capacity: pick(&[0, 1, 2, 10], 25),
            min_cost,
            max_cost,
            uncapped_one_in: pick(&[0, 0, 6, 2], 100) as u32,
            feasible: seed % 3 > 0,
        };
        let instance = random(shape, seed);
        let state = check(&instance, &format!("{shape:?} with seed {seed}"));
        assert!(!shape.feasible || state != State::Infeasible, "{shape:?} with seed {seed}");
        counts[match state {
            State::Optimal => 0,
            State::Infeasible => 1,
            _ => 2,
        }] += 1;
    }
    assert!(counts.iter().all(|count| *count > 500), "too few of a kind: {counts:?}");
}

#[test]
fn great_numbers_are_solved() {
    for seed in 0..500 {
        let cost = (1 << 60) / 21 - 1;
        let shape = RandomShape {
            nodes: 20,
            arcs: 100,
            max_capacity: 1 << 52,
            min_cost: -cost,
            max_cost: cost,
            uncapped_one_in: 0,
            feasible: true,
        };
        assert_eq!(check(&random(shape, seed), &format!("seed {seed}")), State::Optimal);
    }
}

#[test]
fn supplies_must_balance() {
    for (supply, expected) in
        [([3, -3], State::Optimal), ([3, -2], State::Infeasible), ([3, -4], State::Infeasible)]
    {
        let mut instance = Instance::new(2);
        instance.set_supply(0, supply[0]);
        instance.set_supply(1, supply[1]);
        instance.add_arc(Arc { tail: 0, head: 1, capacity: Instance::UNCAPPED, cost: 2 });
        assert_eq!(check(&instance, "two nodes"), expected);
    }
}

#[test]
fn the_smallest_instances_are_solved() {
    assert_eq!(check(&Instance::new(0), "nothing"), State::Optimal);
    assert_eq!(check(&Instance::new(3), "nodes"), State::Optimal);
    let mut instance = Instance::new(1);
    instance.add_arc(Arc { tail: 0, head: 0, capacity: 4, cost: -3 });
    assert_eq!(check(&instance, "a loop"), State::Optimal);
    assert_eq!(solve(&instance).0.cost(), -12);
    instance.add_arc(Arc { tail: 0, head: 0, capacity: Instance::UNCAPPED, cost: -1 });
    assert_eq!(check(&instance, "an endless loop"), State::Unbounded);
}

#[test]
fn what_might_overflow_is_refused() {
    let with = |supply, capacity, cost| {
        let mut instance = Instance::new(3);
        instance.set_supply(0, supply);
        instance.add_arc(Arc { tail: 0, head: 1, capacity, cost });
        Solver::new(&instance).map(|_| ())
    };
    // (3 nodes + 1) * (2^58 - 1 + 1) = 2^60
    assert_eq!(with(1, 1, (1 << 58) - 1), Ok(()));
    assert_eq!(with(1, 1, 1 << 58), Err(TooLarge::Cost));
    assert_eq!(with(1, 1, i64::MIN), Err(TooLarge::Cost));
    assert_eq!(with(1, (1 << 60) - 1, 1), Ok(()));
    assert_eq!(with(1, 1 << 60, 1), Err(TooLarge::Flow));
    assert_eq!(with(i64::MIN, 1, 1), Err(TooLarge::Flow));
    assert_eq!(with(1, Instance::UNCAPPED, 1), Ok(()));
}
