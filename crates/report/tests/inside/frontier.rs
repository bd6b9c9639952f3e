use ringfence_analysis::estimate::Interval;
use ringfence_analysis::frontier::judge;

use super::*;

fn point(bytes: [f64; 3], slowdown: [f64; 3]) -> Point {
    let interval = |[low, value, high]: [f64; 3]| {
        Ok(Interval { value, low, high, level: 0.95, trials: 20, spread: 0.1, slack: 0.0 })
    };
    Point {
        case: 0,
        label: String::new(),
        writers: Vec::new(),
        bytes_per_s: interval(bytes),
        slowdown: Some(interval(slowdown)),
        standing: Standing::Incomplete,
    }
}

#[test]
fn another_one_is_said_to_be_better_only_where_the_intervals_say_so() {
    let (fast, slow, either) = ([7.9, 8.0, 8.1], [3.9, 4.0, 4.1], [2.0, 7.0, 9.0]);
    let (gentle, harsh, unclear) = ([1.0, 1.1, 1.2], [1.9, 2.0, 2.1], [1.0, 1.4, 2.0]);
    let told = |bytes: [f64; 3], slowdown: [f64; 3]| {
        let mut points = vec![point(fast, gentle), point(bytes, slowdown)];
        judge(&mut points);
        let frontier = Frontier { victim: None, reached: Reached::Flushed, points };
        standing(&frontier, &frontier.points[1])
    };
    assert_eq!(told(slow, harsh), "another one writes more and is gentler");
    assert_eq!(told(slow, unclear), "another one writes more and may be as gentle");
    assert_eq!(told(slow, gentle), "another one writes more and may be as gentle");
    assert_eq!(told(either, harsh), "another one is gentler and may write as much");
    assert_eq!(told(either, unclear), "a faster one may be as gentle");
}
