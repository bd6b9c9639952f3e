//! Two modes are found where there are two, and not where there is one of any common shape.

use ringfence_analysis::estimate::modes;

use crate::noise::Machine;

fn share_split(machine: &mut Machine, n: usize, draw: impl Fn(&mut Machine) -> f64) -> f64 {
    let runs = 1_000;
    let split = (0..runs).filter(|_| {
        let sample: Vec<f64> = (0..n).map(|_| draw(machine)).collect();
        modes(&sample).len() > 1
    });
    split.count() as f64 / f64::from(runs)
}

#[test]
fn one_mode_of_any_shape_is_one() {
    type Draw = fn(&mut Machine) -> f64;
    let shapes: [(&str, Draw); 4] = [
        ("normal", |m| m.normal()),
        ("uniform", |m| m.uniform()),
        ("exponential", |m| -m.uniform().max(1e-300).ln()),
        ("Cauchy", |m| (std::f64::consts::PI * (m.uniform() - 0.5)).tan()),
    ];
    let mut machine = Machine::new(3);
    for (name, draw) in shapes {
        for n in [20, 30, 60, 200] {
            let share = share_split(&mut machine, n, draw);
            println!("{name}, {n} pairs: split in {share}");
            assert!(share <= 0.03, "{name} with {n} pairs is split in {share}");
        }
    }
}

#[test]
fn two_modes_are_two() {
    let mut machine = Machine::new(4);
    for (apart, rare) in [(12f64.ln(), 0.5), (12f64.ln(), 0.2), (0.6, 0.3)] {
        let share = share_split(&mut machine, 120, |m| {
            let mode = if m.uniform() < rare { apart } else { 0.0 };
            mode + 0.06 * m.normal()
        });
        println!("{apart} apart, {rare} of the pairs: split in {share}");
        assert!(share >= 0.95, "{share}");
    }
}
