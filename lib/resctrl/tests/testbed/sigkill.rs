//! Transactions on a real kernel, in the testbed: killed by SIGKILL at every moment, and two at
//! once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ringfence_resctrl::transaction::{recover, undo_kept};
use ringfence_resctrl::{Error, GroupId, Mode, Options, State, Step, Thread, Transaction};

use crate::host::{group, resctrl, schemata};

const ROLE: &str = "RINGFENCE_ROLE";
const MOMENT: &str = "RINGFENCE_MOMENT";
const PIDS: &str = "RINGFENCE_PIDS";

#[test]
fn transactions_on_a_real_kernel() {
    ringfence_testbed::scenarios!(
        |testbed| testbed.profile("broadwell").cpus(4).mount("-").time(900),
        clean,
        [
            killed_at_every_moment,
            found_by_the_next_transaction,
            two_programs_at_once,
            what_is_kept_is_undone,
            threads_born_while_a_process_is_moved,
        ],
    );
}

fn clean() -> Result<(), String> {
    let state = State::read(&resctrl()).map_err(|error| error.to_string())?;
    let default = &state.groups[&GroupId::default()];
    let whole = default.schemata.to_string().contains("L3:0=fffff")
        && default.mode == Some(Mode::Shareable);
    if state.groups.len() == 1 && whole { Ok(()) } else { Err(format!("{state:?}")) }
}

// A child of this program that plays a part. The harness's own words end with the blank line before
// its own.
#[test]
#[ignore = "a part that the tests above play in the testbed"]
fn part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dying = std::env::var(MOMENT).ok().and_then(|text| text.parse::<usize>().ok());
    let count = AtomicUsize::new(0);
    let watch = move |_| {
        if Some(count.fetch_add(1, Ordering::Relaxed)) == dying {
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    };
    let options = Options { watch: Some(Arc::new(watch)), ..Options::default() };
    let pids: Vec<u32> = std::env::var(PIDS)
        .unwrap_or_default()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    match role.as_str() {
        "threads" => {
            for _ in 0..2 {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
            }
            println!("\nready");
            std::thread::sleep(Duration::from_secs(3600));
        }
        "breeder" => {
            println!("\nready");
            loop {
                let thread = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(30)));
                std::thread::sleep(Duration::from_millis(2));
                drop(thread);
            }
        }
        "change" => change(&options, &pids),
        "hold" => {
            let mut transaction = Transaction::begin(&resctrl(), "held", &options).unwrap();
            transaction.apply(set("", "L3:0=ff")).unwrap();
            println!("\nready");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            transaction.restore().unwrap();
        }
        "recover" => drop(recover(&resctrl(), &options).unwrap()),
        other => panic!("no part is called {other}"),
    }
}

fn set(group: &str, text: &str) -> Step {
    Step::Schemata { group: group.parse().unwrap(), schemata: schemata(text) }
}

// Takes the database's ways and a process, shrinks all other groups, and makes a group with
// monitoring and CPUs.
fn change(options: &Options, pids: &[u32]) {
    let (own, web, db) =
        ("own".parse::<GroupId>().unwrap(), GroupId::control("web"), GroupId::control("db"));
    let monitor = own.with_monitor("mine");
    let mut transaction = Transaction::begin(&resctrl(), "a test", options).unwrap();
    for step in [
        Step::Mode { group: db.clone(), mode: Mode::Shareable },
        set("db", "L3:0=f"),
        set("", "L3:0=ff000"),
        Step::Create { group: own.clone() },
        set("own", "L3:0=f0"),
        Step::Mode { group: own.clone(), mode: Mode::Exclusive },
        Step::Mode { group: db, mode: Mode::Exclusive },
        Step::Cpus { group: own.clone(), cpus: "1-2".parse().unwrap() },
        Step::Create { group: monitor.clone() },
    ] {
        transaction.apply(step).unwrap();
    }
    for pid in pids {
        transaction.move_process(&own, *pid).unwrap();
    }
    let kernel = resctrl();
    let threads = |pid: u32| -> Vec<Thread> {
        let known = |tid| Some(Thread { tid, start: kernel.kernel().started(tid)? });
        kernel.kernel().threads(pid).into_iter().filter_map(known).collect()
    };
    transaction.apply(Step::Threads { group: monitor, threads: threads(pids[0]) }).unwrap();
    transaction.apply(Step::Threads { group: web, threads: threads(pids[2]) }).unwrap();
    transaction.restore().unwrap();
}

struct Part(Child);

impl Part {
    fn start(role: &str, moment: Option<usize>, pids: &[u32]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["sigkill::part", "--exact", "--include-ignored", "--nocapture"])
            .env(ROLE, role);
        command.env(PIDS, pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        if let Some(moment) = moment {
            command.env(MOMENT, moment.to_string());
        }
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn ready(mut self) -> Self {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line == "ready"));
        self
    }

    // Whether it was killed rather than came to its end.
    fn killed(mut self) -> bool {
        let status = self.0.wait().unwrap();
        assert!(status.success() || status.signal() == Some(libc::SIGKILL), "{status}");
        !status.success()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Places = BTreeMap<u32, BTreeSet<String>>;

// Where every thread of these processes is.
fn places(pids: &[u32]) -> Places {
    let fs = resctrl();
    let mut places = Places::new();
    for group in fs.groups().unwrap() {
        for tid in group.tasks().unwrap() {
            let process = fs.kernel().process_and_parent(tid).map(|(pid, _)| pid);
            if process.is_some_and(|pid| pids.contains(&pid)) {
                places.entry(tid).or_default().insert(group.id().to_string());
            }
        }
    }
    places
}

// What others have set up: `db` with ways of its own, monitored; `web` with CPUs and a process.
struct Others {
    parts: Vec<Part>,
}

impl Others {
    fn new() -> Self {
        let parts: Vec<Part> = (0..4).map(|_| Part::start("threads", None, &[]).ready()).collect();
        let others = Self { parts };
        group("").set_schemata(&schemata("L3:0=fff00")).unwrap();
        group("web").create().unwrap();
        group("web").set_schemata(&schemata("L3:0=f0000")).unwrap();
        group("web").set_cpus(&"0-1".parse().unwrap()).unwrap();
        group("db").create().unwrap();
        group("db").set_schemata(&schemata("L3:0=ff")).unwrap();
        group("db").set_mode(Mode::Exclusive).unwrap();
        group("db").set_cpus(&"3".parse().unwrap()).unwrap();
        for monitor in ["db/mon_groups/m", "mon_groups/all"] {
            group(monitor).create().unwrap();
        }
        group("db/mon_groups/m").set_cpus(&"3".parse().unwrap()).unwrap();
        let pids = others.pids();
        for tid in resctrl().kernel().threads(pids[0]) {
            group("db").add_thread(tid).unwrap();
        }
        group("db/mon_groups/m").add_thread(pids[0]).unwrap();
        for tid in resctrl().kernel().threads(pids[1]) {
            group("web").add_thread(tid).unwrap();
        }
        group("mon_groups/all").add_thread(pids[2]).unwrap();
        others
    }

    fn pids(&self) -> Vec<u32> {
        self.parts.iter().map(|part| part.0.id()).collect()
    }

    fn end(self) {
        for name in ["mon_groups/all", "db", "web"] {
            group(name).remove().unwrap();
        }
        group("").set_schemata(&schemata("L3:0=fffff")).unwrap();
    }
}

fn killed_at_every_moment() {
    let others = Others::new();
    let pids = others.pids();
    let (before, threads) = (State::read(&resctrl()).unwrap(), places(&pids));
    let mut moments = 0;
    while Part::start("change", Some(moments), &pids).killed() {
        // Going back is killed too, at another moment each time.
        Part::start("recover", Some(moments % 11), &pids).killed();
        let restored = recover(&resctrl(), &Options::default()).unwrap();
        let left = restored.map_or(Vec::new(), |restored| restored.left);
        assert_eq!(left, [] as [String; 0], "killed at moment {moments}");
        assert_eq!(State::read(&resctrl()).unwrap(), before, "killed at moment {moments}");
        assert_eq!(places(&pids), threads, "killed at moment {moments}");
        moments += 1;
    }
    assert_eq!(State::read(&resctrl()).unwrap(), before);
    assert_eq!(places(&pids), threads);
    assert!(moments > 40, "{moments} moments");
    println!("killed at {moments} moments");
    others.end();
}

// Ours alone: the default group shrinks, and no other program is there.
fn found_by_the_next_transaction() {
    let part = Part::start("threads", None, &[]).ready();
    let pid = part.0.id();
    let before = State::read(&resctrl()).unwrap();
    let mut killed = Transaction::begin(&resctrl(), "killed", &Options::default()).unwrap();
    for step in [
        set("", "L3:0=f0000"),
        Step::Create { group: GroupId::control("own") },
        set("own", "L3:0=ffff"),
    ] {
        killed.apply(step).unwrap();
    }
    let threads = resctrl().kernel().threads(pid).len();
    assert_eq!(killed.move_process(&GroupId::control("own"), pid).unwrap(), threads);
    killed.abandon();
    // The next one finds the journal by itself.
    let mut next = Transaction::begin(&resctrl(), "next", &Options::default()).unwrap();
    assert_eq!(next.recovered().unwrap().purpose, "killed");
    assert_eq!(*next.before(), before);
    next.restore().unwrap();
}

fn two_programs_at_once() {
    let before = State::read(&resctrl()).unwrap();
    let mut holder = Part::start("hold", None, &[]).ready();
    let refused = Transaction::begin(&resctrl(), "second", &Options::default()).err().unwrap();
    let text = refused.to_string();
    assert!(
        matches!(refused, Error::Busy(_)) && text.contains(&holder.0.id().to_string()),
        "{text}"
    );
    let waiting = std::thread::spawn(|| {
        let options = Options { wait: Duration::from_secs(120), ..Options::default() };
        let mut second = Transaction::begin(&resctrl(), "second", &options).unwrap();
        let seen = second.before().clone();
        second.apply(set("", "L3:0=f")).unwrap();
        second.restore().unwrap();
        seen
    });
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waiting.is_finished());
    assert_ne!(State::read(&resctrl()).unwrap(), before, "the first one's setting holds");
    drop(holder.0.stdin.take());
    assert_eq!(waiting.join().unwrap(), before, "the second has seen what was before the first");
    assert_eq!(State::read(&resctrl()).unwrap(), before);
}

fn what_is_kept_is_undone() {
    let before = State::read(&resctrl()).unwrap();
    let mut change = Transaction::begin(&resctrl(), "kept", &Options::default()).unwrap();
    change.apply(set("", "L3:0=ff00")).unwrap();
    change.apply(Step::Create { group: GroupId::control("kept") }).unwrap();
    change.keep().unwrap();
    assert_eq!(recover(&resctrl(), &Options::default()).unwrap(), None);
    assert!(group("kept").exists());
    assert_eq!(
        undo_kept(&resctrl(), &Options::default()).unwrap().unwrap().left,
        [] as [String; 0]
    );
    assert_eq!(State::read(&resctrl()).unwrap(), before);
}

fn threads_born_while_a_process_is_moved() {
    let breeder = Part::start("breeder", None, &[]).ready();
    let own = GroupId::control("own");
    for _ in 0..5 {
        let mut change = Transaction::begin(&resctrl(), "breeder", &Options::default()).unwrap();
        change.apply(Step::Create { group: own.clone() }).unwrap();
        change.move_process(&own, breeder.0.id()).unwrap();
        for _ in 0..20 {
            let fs = resctrl();
            let threads = fs.kernel().threads(breeder.0.id());
            let inside: BTreeSet<u32> = group("own").tasks().unwrap().into_iter().collect();
            let outside = threads.into_iter().filter(|tid| !inside.contains(tid));
            // Born or ended between the two readings.
            let living: Vec<u32> =
                outside.filter(|tid| fs.kernel().started(*tid).is_some()).collect();
            let again: BTreeSet<u32> = group("own").tasks().unwrap().into_iter().collect();
            let strays: Vec<&u32> = living
                .iter()
                .filter(|tid| !again.contains(tid) && fs.kernel().started(**tid).is_some())
                .collect();
            assert!(strays.is_empty(), "outside: {strays:?}");
        }
        change.restore().unwrap();
        assert!(!group("own").exists());
    }
}
