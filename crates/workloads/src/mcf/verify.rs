//! A proof that a flow is optimal, or what refutes it. Shares no code with the solver.

use super::instance::{Arc, Instance};

/// What is wrong with a flow or with the potentials said to prove it optimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is not one flow for each arc and one potential for each node.
    #[error("there must be one flow for each arc and one potential for each node")]
    Length,
    /// An arc carries less than nothing or more than its capacity.
    #[error("arc {arc} carries {flow}")]
    Bounds {
        /// The arc.
        arc: usize,
        /// Its flow.
        flow: i64,
    },
    /// A node's outflow less its inflow is not its supply.
    #[error("node {node} gives {balance} more than it takes")]
    Balance {
        /// The node.
        node: usize,
        /// Its outflow less its inflow.
        balance: i128,
    },
    /// An arc's reduced cost says that another flow on it may cost less.
    #[error("arc {arc} carries {flow} at reduced cost {reduced_cost}")]
    Slackness {
        /// The arc.
        arc: usize,
        /// Its flow.
        flow: i64,
        /// Its cost, plus its tail's potential, less its head's.
        reduced_cost: i128,
    },
}

/// Checks that a flow meets all supplies within all capacities, and that it and the potentials
/// are optimal by complementary slackness; returns the flow's cost.
///
/// An arc of positive reduced cost must carry nothing and one of negative reduced cost must be
/// full. That proves the optimum whatever computed it.
pub fn verify(instance: &Instance, flows: &[i64], potentials: &[i64]) -> Result<i128, Violation> {
    if flows.len() != instance.arc_count() || potentials.len() != instance.nodes() as usize {
        return Err(Violation::Length);
    }
    let mut balance = vec![0i128; potentials.len()];
    let mut total = 0;
    for (arc, (Arc { tail, head, capacity, cost }, &flow)) in instance.arcs().zip(flows).enumerate()
    {
        if !(0..=capacity).contains(&flow) {
            return Err(Violation::Bounds { arc, flow });
        }
        let [tail, head] = [tail as usize, head as usize];
        balance[tail] += i128::from(flow);
        balance[head] -= i128::from(flow);
        total += i128::from(cost) * i128::from(flow);
        let reduced_cost =
            i128::from(cost) + i128::from(potentials[tail]) - i128::from(potentials[head]);
        let full = flow == capacity && capacity != Instance::UNCAPPED;
        if reduced_cost > 0 && flow > 0 || reduced_cost < 0 && !full {
            return Err(Violation::Slackness { arc, flow, reduced_cost });
        }
    }
    let supply = instance.supply().iter().map(|supply| i128::from(*supply));
    match balance.iter().zip(supply).position(|(balance, supply)| *balance != supply) {
        Some(node) => Err(Violation::Balance { node, balance: balance[node] }),
        None => Ok(total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_an_optimum_from_the_rest() {
        // Two ways from 0 to 1, one cheap and narrow.
        let mut instance = Instance::new(2);
        instance.set_supply(0, 3);
        instance.set_supply(1, -3);
        instance.add_arc(Arc { tail: 0, head: 1, capacity: 2, cost: 1 });
        instance.add_arc(Arc { tail: 0, head: 1, capacity: Instance::UNCAPPED, cost: 4 });
        let check = |flows: [i64; 2], potentials: [i64; 2]| verify(&instance, &flows, &potentials);
        assert_eq!(check([2, 1], [0, 4]), Ok(6));
        assert_eq!(
            check([1, 2], [0, 4]),
            Err(Violation::Slackness { arc: 0, flow: 1, reduced_cost: -3 })
        );
        assert_eq!(
            check([2, 1], [0, 3]),
            Err(Violation::Slackness { arc: 1, flow: 1, reduced_cost: 1 })
        );
        assert_eq!(
            check([2, 1], [0, 5]),
            Err(Violation::Slackness { arc: 1, flow: 1, reduced_cost: -1 })
        );
        assert_eq!(check([2, 0], [0, 4]), Err(Violation::Balance { node: 0, balance: 2 }));
        assert_eq!(check([3, 0], [0, 4]), Err(Violation::Bounds { arc: 0, flow: 3 }));
        assert_eq!(check([2, -1], [0, 4]), Err(Violation::Bounds { arc: 1, flow: -1 }));
        assert_eq!(verify(&instance, &[2, 1], &[0]), Err(Violation::Length));
    }
}
