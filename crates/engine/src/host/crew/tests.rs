use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ringfence_experiment::Error;
use ringfence_experiment::Experiment;
use ringfence_machine::fixtures;

use super::*;
use crate::shm::Report;

/// A plan of a victim and an aggressor, which never rest, on a CPU each.
pub fn plan(measure: &str) -> Plan {
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n[measure]\n{measure}\n\
         [[role]]\nname = 'victim'\ntask = {{ workload = 'alu' }}\n\
         [[role]]\nname = 'aggressor'\ntask = {{ workload = 'alu' }}\n\
         [[arm]]\nname = 'alone'\nactive = ['victim']\n\
         [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n"
    );
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap()
}

/// What a worker of [`Stage`] does, in its slot alone.
#[derive(Default)]
struct Script {
    over: AtomicBool,
    // Whether it stops to report although it runs.
    mute: AtomicBool,
}

/// A crew whose workers are threads of the test.
pub struct Stage<'a> {
    crew: ManuallyDrop<Crew<'a>>,
    events: Sender<Event>,
    scripts: Vec<Arc<Script>>,
    threads: Vec<JoinHandle<()>>,
    // The states that workers took on, in their order.
    log: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl<'a> Stage<'a> {
    pub fn new(plan: &'a Plan, stop: &'a AtomicBool) -> Self {
        let workers = workers::of_plan(plan);
        let shared = Shared::create(workers.len()).unwrap();
        let (guardian, events) = Guardian::stand_in();
        // Neither is dropped.
        let crew = ManuallyDrop::new(Crew {
            plan,
            stop,
            shared,
            guardian: ManuallyDrop::into_inner(guardian),
            workers,
            has_begun: false,
            starts: Vec::new(),
            halved: false,
        });
        let mut stage =
            Self { crew, events, scripts: Vec::new(), threads: Vec::new(), log: Arc::default() };
        for worker in 0..stage.crew.workers.len() {
            stage.crew.slot(worker).reset();
            let (slot, log) = (stage.crew.slot(worker).lasting(), stage.log.clone());
            let script = Arc::new(Script::default());
            stage.scripts.push(script.clone());
            stage.threads.push(std::thread::spawn(move || act(slot, worker, &script, &log)));
            assert!(stage.crew.slot(worker).wait_state(state::PAUSED, ANSWER_LIMIT));
        }
        stage
    }

    fn mute(&self, worker: usize, mute: bool) {
        self.scripts[worker].mute.store(mute, Ordering::Relaxed);
    }
}

// Obeys, reports 10 units every ms while it runs, and answers.
fn act(slot: &Slot, worker: usize, script: &Script, log: &Mutex<Vec<(usize, u32)>>) {
    let (mut number, mut units) = (0, 0);
    while !script.over.load(Ordering::Relaxed) {
        let state = match slot.order() {
            order::PAUSE => state::PAUSED,
            order::HOLD => state::HELD,
            run => state::RUNNING + run - order::RUN,
        };
        if ![state, state::FAILED].contains(&slot.state()) {
            if slot.state() == state::STARTING {
                // What it said before is still there until its slot is reset for good.
                while log.lock().unwrap().iter().any(|(of, _)| *of == worker)
                    && !slot.message().is_empty()
                {
                    std::thread::yield_now();
                }
                slot.say(r#"[{"variant":0,"ns":2.5}]"#);
            }
            log.lock().unwrap().push((worker, state));
            slot.set_state(state);
        }
        if !script.mute.load(Ordering::Relaxed) {
            let mut report = || {
                (number, units) = (number + 1, units + 10);
                slot.publish(number, Report { units, ticks: units * 100, untimed: 0 });
            };
            if state >= state::RUNNING {
                report();
            }
            slot.answer_if_asked(report);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.scripts.iter().for_each(|script| script.over.store(true, Ordering::Relaxed));
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

impl<'a> Deref for Stage<'a> {
    type Target = Crew<'a>;

    fn deref(&self) -> &Crew<'a> {
        &self.crew
    }
}

impl DerefMut for Stage<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.crew
    }
}

/// The only variant of a role, in one instance.
pub fn active(role: usize) -> Active {
    Active { role, variant: 0, count: 1 }
}

fn text<T>(result: Result<T, Error>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn exactly_the_tasks_given_run_and_the_others_pause_first() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[active(0)]).unwrap();
    assert_eq!(stage.running(), [0]);
    stage.log.lock().unwrap().clear();
    stage.switch(&[active(1)]).unwrap();
    assert_eq!(stage.running(), [1]);
    assert_eq!(*stage.log.lock().unwrap(), [(0, state::PAUSED), (1, state::RUNNING)]);
    stage.switch(&[]).unwrap();
    assert!(stage.running().is_empty());
}

#[test]
fn a_trial_restarts_the_metrics_workers_alone_and_notes_their_starts() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.begin_trial(0).unwrap();
    stage.events.send(Event::Ended { slot: 0, how: "exit status 0".into() }).unwrap();
    stage.begin_trial(1).unwrap();
    assert!(stage.workers.iter().all(|worker| worker.ended.is_none()));
    let starts: Vec<(u32, f64)> =
        stage.starts.iter().map(|start| (start.trial, start.ns)).collect();
    assert_eq!(starts, [(0, 2.5), (1, 2.5)]);
}

#[test]
fn a_worker_that_has_ended_is_named_and_so_is_how() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.settle(&[active(0), active(1)], &mut false).unwrap();
    stage.all_live(&[0, 1]).unwrap();
    stage.events.send(Event::Ended { slot: 1, how: "signal 9".into() }).unwrap();
    let on = &stage.workers[1].home.to_string();
    let why = format!("aggressor 0 on CPU {on} ended: signal 9");
    assert_eq!(text(stage.all_live(&[0, 1])), why);
    // What waits for it ends as well.
    stage.mute(1, true);
    stage.workers[1].on_demand = true;
    assert_eq!(text(stage.reports(&[1])), why);
}

#[test]
fn what_a_failed_task_says_is_passed_on_and_its_kind_kept() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[]).unwrap();
    let fail =
        |usage| serde_json::to_string(&Failure { usage, text: "no such file".into() }).unwrap();
    stage.slot(1).fail(&fail(true));
    stage.none_failed(&[0]).unwrap();
    assert_eq!(stage.none_failed(&[0, 1]), Err(Error::usage("aggressor: no such file")));
    stage.slot(1).fail(&fail(false));
    let why = stage.switch(&[active(1)]);
    assert!(
        matches!(&why, Err(why) if !why.is_usage() && why.text().ends_with(": no such file")),
        "{why:?}"
    );
}

#[test]
fn reports_of_workers_that_are_asked_are_later_than_the_question() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[]).unwrap();
    let before = stage.last_reports(&[0, 1]);
    stage.workers[1].on_demand = true;
    let after = stage.reports(&[0, 1]).unwrap();
    let progress: Vec<u64> =
        before.iter().zip(&after).map(|(before, after)| after.number - before.number).collect();
    assert_eq!(progress, [0, 1]);
}

#[test]
fn a_window_is_held_open_for_a_task_that_is_silent() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[active(0), active(1)]).unwrap();
    stage.mute(1, true);
    // It may be in the middle of a report.
    std::thread::sleep(Duration::from_millis(20));
    let (begun, due) = (stage.reports(&[0, 1]).unwrap(), Instant::now());
    let mut ended = stage.reports(&[0, 1]).unwrap();
    let script = stage.scripts[1].clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        script.mute.store(false, Ordering::Relaxed);
    });
    let length = Duration::from_millis(10);
    let held = stage.hold_open(&[0, 1], &begun, &mut ended, due, length).unwrap();
    assert!(held >= Duration::from_millis(10), "{held:?}");
    assert!(begun.iter().zip(&ended).all(|(begun, ended)| begun.number < ended.number));
    later.join().unwrap();
    // And not where none is.
    let begun = stage.last_reports(&[0]);
    std::thread::sleep(Duration::from_millis(50));
    let mut ended = stage.last_reports(&[0]);
    let held = stage.hold_open(&[0], &begun, &mut ended, Instant::now(), length).unwrap();
    assert_eq!(held, Duration::ZERO);
}

#[test]
fn a_service_that_stops_answering_is_noticed() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[active(0)]).unwrap();
    let mut looks = 0;
    let window = Duration::from_secs(20);
    assert!(stage.while_it_answers(0, window, || {
        looks += 1;
        looks > 3
    }));
    stage.mute(0, true);
    let begun = Instant::now();
    assert!(!stage.while_it_answers(0, Duration::from_millis(10), || false));
    assert!(begun.elapsed() >= Duration::from_millis(30), "{:?}", begun.elapsed());
}

#[test]
fn whoever_is_held_stays_where_it_is() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.switch(&[active(0), active(1)]).unwrap();
    stage.hold(&[1]).unwrap();
    assert_eq!(stage.slot(1).state(), state::HELD);
    assert_eq!((stage.all_spent(&[]), stage.all_spent(&[1])), (false, false));
    stage.slot(1).set_spent(true);
    assert!(stage.all_spent(&[1]) && !stage.all_spent(&[0, 1]));
}

#[test]
fn a_run_that_is_to_stop_does_not_wait_for_what_takes_long() {
    let (plan, stop) = (plan(""), AtomicBool::new(false));
    let mut stage = Stage::new(&plan, &stop);
    stage.may_go_on().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(stage.may_go_on(), Err(Error::interrupted()));
    stage.scripts[0].over.store(true, Ordering::Relaxed);
    stage.threads.remove(0).join().unwrap();
    assert_eq!(stage.begin_trial(0), Err(Error::interrupted()));
}
