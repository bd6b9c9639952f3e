//! `--server` and `--client`: a server that is started for its client, whose progress is measured.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::support::{
    self, Folder, LIMIT, Running, cpus, figure, free_port, is_installed, joined, marked,
    ringfence_in, skip,
};

// It notes each start with its CPUs, says when it listens, and answers one byte with one; after
// `end` answers it leaves.
const SERVER: &str = "\
import os, socket, sys
end = int(sys.argv[2]) if len(sys.argv) > 2 else -1
with open('started', 'a') as started:
    print(os.getpid(), sorted(os.sched_getaffinity(0)), file=started)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('127.0.0.1', int(sys.argv[1])))
server.listen()
print('listening at last', flush=True)
while end != 0:
    client, _ = server.accept()
    data = client.recv(1)
    while data and end != 0:
        client.send(data)
        end -= 1
        data = client.recv(1)
print('that was enough', file=sys.stderr, flush=True)
sys.exit(7)
";

// It asks so many times, and ends.
const CLIENT: &str = "\
import socket, sys, time
server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
begun = time.time()
for number in range(int(sys.argv[2])):
    server.send(b'x')
    if not server.recv(1):
        sys.exit('the server has gone')
print('took %.6f s' % (time.time() - begun))
";

struct Place {
    folder: Folder,
    port: u16,
}

impl Place {
    fn new() -> Option<Self> {
        if cpus().len() < 2 {
            skip("a victim and an aggressor need two CPUs");
            return None;
        }
        if !is_installed("python3") {
            skip("python3 is not installed");
            return None;
        }
        let (folder, port) = (Folder::new(), free_port());
        fs::write(folder.path().join("server.py"), SERVER).unwrap();
        fs::write(folder.path().join("client.py"), CLIENT).unwrap();
        Some(Self { folder, port })
    }

    fn run(&self, server: &str, ready: &str, rest: &[&str]) -> support::Output {
        let client = format!("python3 client.py {} 300", self.port);
        let args =
            ["--server", server, "--ready", ready, "--client", &client, "--aggressor", "alu"];
        ringfence_in(
            self.folder.path(),
            &[&["neighbours"], &args[..], &["--out", "out"], rest].concat(),
        )
    }

    fn starts(&self) -> Vec<(u32, String)> {
        let text = fs::read_to_string(self.folder.path().join("started")).unwrap_or_default();
        let start = |line: &str| {
            let (pid, cpus) = line.split_once(' ').unwrap();
            (pid.parse().unwrap(), cpus.into())
        };
        text.lines().map(start).collect()
    }
}

#[test]
fn a_servers_client_is_measured_and_nothing_of_it_stays() {
    let Some(place) = Place::new() else { return };
    let on: Vec<String> = cpus().iter().map(usize::to_string).collect();
    let (server, port) =
        (format!("python3 server.py {}", place.port), format!("port:{}", place.port));
    let placed = ["--victim-cpu", &on[1], "--server-cpus", &on[0], "--aggressor-cpus", &on[0]];
    let json =
        place.run(&server, &port, &[&placed[..], &["--trials", "4", "--json"]].concat()).json();
    let result = &json["results"][0];
    assert_eq!(result["unit"], "runs", "{json}");
    // A run takes longer than an instant, and less than it may take.
    let ns = figure(&result["ns_per_unit"]);
    assert!(ns.is_none_or(|ns| ns > 1e6 && ns < LIMIT.as_nanos() as f64), "{result}");
    let starts = place.starts();
    assert_eq!(starts.len(), 4, "once a trial: {starts:?}");
    assert!(starts.iter().all(|(_, cpus)| *cpus == format!("[{}]", on[0])), "{starts:?}");
    // The same from the file that it left, in which a line says that it is ready.
    let file = place.folder.path().join("out/experiment.toml");
    let again = fs::read_to_string(file).unwrap().replace(&port, "line:^listening");
    assert!(again.contains("line:^listening"), "{again}");
    fs::write(place.folder.path().join("again.toml"), again).unwrap();
    let json =
        ringfence_in(place.folder.path(), &["run", "again.toml", "--json", "--out", "again"])
            .json();
    assert_eq!(json["results"][0]["unit"], "runs", "{json}");
    assert_eq!(place.starts().len(), 8);
}

#[test]
fn a_client_prints_its_figure_or_its_latencies() {
    let Some(place) = Place::new() else { return };
    let (server, port) =
        (format!("python3 server.py {}", place.port), format!("port:{}", place.port));
    for shown in ["--victim-metric=took ([0-9.]+)", "--victim-progress=latencies"] {
        let short = [shown, "--trials", "4", "--window", "300ms", "--json"];
        let json = place.run(&server, &port, &short).json();
        let ns = figure(&json["results"][0]["ns_per_unit"]);
        assert!(ns.is_none_or(|ns| ns > 1e5 && ns < LIMIT.as_nanos() as f64), "{shown}: {json}");
        fs::remove_dir_all(place.folder.path().join("out")).unwrap();
    }
    assert!(!place.starts().is_empty());
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_last_words() {
    let Some(place) = Place::new() else { return };
    let port = format!("port:{}", place.port);
    let refused = |server: &str, code: i32, rest: &[&str], said: &[&str]| {
        let output = place.run(server, &port, rest);
        let stderr = joined(&output.stderr);
        assert!(
            output.code() == Some(code) && said.iter().all(|said| stderr.contains(said)),
            "{server}: {stderr}"
        );
    };
    refused(
        "sh fails",
        1,
        &[],
        &["the server 'sh fails' ended with exit status: 2", "its last output: sh: "],
    );
    refused(
        "true",
        1,
        &[],
        &[
            "the server 'true' ended with exit status: 0",
            "stay in the foreground",
            "it printed nothing",
        ],
    );
    let soon = ["--ready-within", "200ms"];
    let said = [
        "the server 'sleep 900' has accepted no connection at port:",
        "within 200ms; it printed nothing; --ready-within",
    ];
    refused("sleep 900", 1, &soon, &said);
    refused("no-such-server 1", 2, &[], &["no-such-server"]);
    // It leaves while it is measured: the error is about it, and not about its client.
    let leaving = format!("python3 server.py {} 450", place.port);
    refused(&leaving, 1, &[], &["ended with exit status: 7", "its last output: that was enough"]);
    let output = place.run("sleep 900", "line:ready", &soon);
    assert!(
        output.stderr.contains("has printed no line with 'ready' within 200ms"),
        "{}",
        output.stderr
    );
    // Another server answers there.
    let other = TcpListener::bind(("127.0.0.1", place.port)).unwrap();
    refused(
        "sleep 900",
        2,
        &[],
        &["another program already accepts connections at port:", "before the server is started"],
    );
    drop(other);
}

#[test]
fn nothing_is_left_of_a_server_when_the_program_is_killed() {
    let Some(place) = Place::new() else { return };
    let (server, port) =
        (format!("python3 server.py {}", place.port), format!("port:{}", place.port));
    let client = format!("python3 client.py {} 300", place.port);
    let args = ["--server", &server, "--ready", &port, "--client", &client, "--aggressor", "alu"];
    let running = Running::start(
        place.folder.path(),
        &[&["neighbours"], &args[..], &["--out", "out"]].concat(),
    );
    let until = Instant::now() + LIMIT;
    while place.starts().is_empty() {
        assert!(Instant::now() < until, "the server was never started");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(libc::SIGKILL);
    while !marked(&running.mark).is_empty() {
        assert!(Instant::now() < until, "{:?}", marked(&running.mark));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn redis_and_its_benchmark() {
    if cpus().len() < 2 {
        return skip("a victim and an aggressor need two CPUs");
    }
    if !["redis-server", "redis-benchmark"].into_iter().all(is_installed) {
        return skip("redis-server and redis-benchmark are not installed");
    }
    let (folder, port) = (Folder::new(), free_port());
    let server = format!("redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no");
    let client = format!("redis-benchmark -p {port} -n 2000 -q -t get");
    let asked = [
        "neighbours",
        "--server",
        &server,
        "--ready",
        "line:Ready to accept connections",
        "--client",
        &client,
    ];
    let figures = ["--victim-metric", "GET: ([0-9.]+) requests", "--better", "higher"];
    let short = ["--aggressor", "alu", "--trials", "4", "--json", "--out", "redis"];
    let json = ringfence_in(folder.path(), &[&asked[..], &figures, &short].concat()).json();
    let rate = figure(&json["results"][0]["ns_per_unit"]).map(|ns| 1e9 / ns);
    assert!(rate.is_none_or(|rate| rate > 10.0), "{json}");
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let folder = Folder::new();
    let refused = |args: &[&str], said: &str| {
        let output = ringfence_in(folder.path(), args);
        assert!(
            output.code() == Some(2) && output.stderr.contains(said),
            "{args:?}: {}",
            output.stderr
        );
    };
    let server = ["neighbours", "--server", "sleep 900", "--client", "true", "--ready"];
    let with = |ready: &'static str, rest: &[&'static str]| [&server[..], &[ready], rest].concat();
    refused(
        &with("7777", &[]),
        "--ready: '7777' is not a condition for a ready server: write port:PORT",
    );
    refused(&with("line:(", &[]), "'(' is not a regular expression");
    refused(&with("port:7777", &["--ready-within", "10min"]), "at most 100s");
    refused(&with("port:7777", &["--server-cpus", "9999"]), "CPU 9999 is not among the CPUs");
    refused(&with("port:7777", &["--victim", "alu"]), "--client");
    refused(&["neighbours", "--client", "true"], "--server");
    refused(&["neighbours", "--server", "true", "--client", "true"], "--ready");
    refused(
        &["neighbours", "--victim", "true", "--victim-metric", "(.*)"],
        "by --client with its --server",
    );
    let both = with("port:7777", &["--victim-metric", "(.*)", "--victim-progress", "lines"]);
    refused(&both, "leave one out");
    let text = "schema = 2\nname = 'x'\nmetric = 'v'\n[[role]]\nname = 'v'\n\
        task = { workload = 'command', run = 'true', server = \
        { run = 'sleep 9', ready = 'port:7777' } }\n\
        [[arm]]\nname = 'a'\nactive = ['v']\n";
    fs::write(folder.path().join("x.toml"), text).unwrap();
    refused(&["run", "x.toml"], "the client of a server must show its progress");
}
