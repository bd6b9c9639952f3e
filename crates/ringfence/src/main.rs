//! temp
use std::sync::atomic::AtomicBool;
use ringfence_lab::{experiment::Experiment, plan::Plan, engine::host::HostEngine, runner::{self,Observer,Progress}, sample::Sample, results};
use ringfence_machine::{root::FsRoot, topology::Topology};
struct O;
impl Observer for O { fn samples(&mut self, _: &[Sample]) -> Result<(), String> { Ok(()) } fn progress(&mut self, _p: Progress) {} }
fn main() {
    ringfence_lab::engine::guardian::enter_hidden_role();
    let f = std::env::args().nth(1).unwrap();
    let e = Experiment::parse(&std::fs::read_to_string(f).unwrap()).unwrap();
    let t = Topology::read(&FsRoot::host()).unwrap();
    let p = Plan::new(&e, &t).unwrap();
    println!("{:?}", p.placed);
    for n in &p.not_run { println!("not run {:?}", n); }
    let mut en = HostEngine::new(&p, &t).unwrap();
    let t0=std::time::Instant::now();
    let (s, ended) = runner::run(&p, &mut en, &AtomicBool::new(false), &mut O).unwrap();
    println!("{} samples {:?} in {:?}", s.len(), ended, t0.elapsed());
    for r in results::results(&p, &s, 0.95) {
        let v = r.ns_per_unit.as_ref().map(|i| format!("{:.2} [{:.2},{:.2}]", i.value, i.low, i.high)).unwrap_or_else(|e| e.to_string());
        println!("{:<30} {} ns/{} {:?} {} {:?}", format!("{} {}", r.arm, r.label), v, r.unit, r.classes, r.effect.map(|e| e.sentence).unwrap_or_default(), r.co_runners);
    }
}
