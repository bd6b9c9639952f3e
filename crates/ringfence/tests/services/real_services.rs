//! Services that people run.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::service::{Neighbour, journals, place};
use crate::support::{self, Folder, enough_cpus, free_port, is_installed, skip, wait_for};
use crate::{assert_every_answer_has_its_time, run, slowdown};

// As few trials as a figure takes.
const FIGURES: [&str; 8] =
    ["--probe-rate", "200", "--trials", "4", "--rounds", "1", "--probe", "0ms"];

// Comes and goes: works for some 20 ms, sleeps for 10.
const HOG: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.01; done";

fn started(command: Command, port: u16) -> Neighbour {
    let service = Neighbour::start(command);
    wait_for("the service listens", || {
        assert!(!service.all().is_empty(), "the service has ended");
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    service
}

// A service and its neighbour, each with its process attached: figures, and nothing is changed.
fn beside(folder: &Folder, service: &Neighbour, hog: &Neighbour, ask: &[&str]) {
    let (victim, aggressor) = (service.pid().to_string(), hog.pid().to_string());
    let places = || (place(service.pid()), place(hog.pid()));
    let before = places();
    let named = ["--victim-pid", &victim, "--aggressor-pid", &aggressor, "--out", "d", "--json"];
    let (owner, output) =
        run(folder.path(), &[&["neighbours", "--victim-probe"], ask, &named, &FIGURES].concat());
    let slowdown = slowdown(&output);
    assert!(slowdown.is_none_or(|slowdown| slowdown > 0.0), "{slowdown:?}");
    assert_every_answer_has_its_time(&folder.path().join("d"));
    hog.must_go_on(true);
    assert!(!service.is_stopped());
    assert_eq!(places(), before);
    assert!(journals(owner).is_empty(), "{:?}", journals(owner));
}

#[test]
fn redis_beside_a_hog() {
    if !enough_cpus() {
        return;
    }
    if !is_installed("redis-server") {
        return skip("redis-server is not installed");
    }
    let (folder, port) = (Folder::new(), free_port());
    let mut command = Command::new("redis-server");
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    command.arg("--dir").arg(folder.path());
    let address = format!("redis://127.0.0.1:{port}");
    beside(&folder, &started(command, port), &Neighbour::shell(HOG), &[&*address]);
}

#[test]
fn nginx_beside_a_compiler() {
    if !enough_cpus() {
        return;
    }
    if !is_installed("nginx") {
        return skip("nginx is not installed");
    }
    let (folder, port) = (Folder::new(), free_port());
    let at = folder.path().display();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {at}/pid;\nerror_log {at}/errors;\nevents {{}}\n\
         http {{\n access_log off;\n client_body_temp_path {at}/body;\n proxy_temp_path \
         {at}/proxy;\n \
         fastcgi_temp_path {at}/fastcgi;\n uwsgi_temp_path {at}/uwsgi;\n scgi_temp_path \
         {at}/scgi;\n \
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 'there'; }} }}\n}}\n"
    );
    fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    // Debian's own path, where nginx is for root alone.
    command.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
    let source: String = (0..400)
        .map(|at| format!("int f{at}(int a) {{ return a * {at} + (a >> 3); }}\n"))
        .collect();
    fs::write(folder.path().join("source.c"), source).unwrap();
    let compile = format!("while :; do gcc -O2 -c -o /dev/null {at}/source.c; done");
    let ask = format!("http://127.0.0.1:{port}/");
    beside(&folder, &started(command, port), &Neighbour::shell(&compile), &[&ask]);
}

#[test]
fn pythons_server_beside_a_hog() {
    if !enough_cpus() {
        return;
    }
    if !is_installed("python3") {
        return skip("python3 is not installed");
    }
    let (folder, port) = (Folder::new(), free_port());
    fs::write(folder.path().join("page"), "there").unwrap();
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1", "--directory"]);
    command.arg(folder.path());
    let ask = format!("http://127.0.0.1:{port}/page");
    beside(&folder, &started(command, port), &Neighbour::shell(HOG), &[&ask]);
}

// Where PostgreSQL's programs are: in no folder that is searched, with Debian.
fn postgresql() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).find(|folder| folder.join("initdb").exists())
}

// PostgreSQL refuses to run as root.
fn as_nobody(mut command: Command, data: &PathBuf) -> Command {
    const NOBODY: u32 = 65534;
    if rustix::process::geteuid().is_root() {
        if fs::metadata(data).unwrap().uid() == 0 {
            chown(data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir(data);
    command
}

#[test]
fn postgresql_beside_another_service() {
    if !enough_cpus() {
        return;
    }
    let Some(programs) = postgresql() else { return skip("PostgreSQL is not installed") };
    if !is_installed("psql") || !is_installed("redis-benchmark") {
        return skip("psql or redis-benchmark is not installed");
    }
    let (folder, port) = (Folder::new(), free_port());
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut initdb = as_nobody(Command::new(programs.join("initdb")), &data);
    initdb.args(["-U", "us", "--auth", "trust", "--no-sync", "-D"]).arg(&data);
    let made = initdb.stdout(Stdio::null()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = as_nobody(Command::new(programs.join("postgres")), &data);
    command.arg("-D").arg(&data).args(["-p", &port.to_string(), "-k"]).arg(&data);
    command.args(["-c", "listen_addresses=127.0.0.1"]);
    let service = started(command, port);
    // Another service with a client that queries it all the time, in one process group.
    let other = free_port();
    let script = format!(
        "redis-server --port {other} --bind 127.0.0.1 --save '' --appendonly no --dir {} & \
         until redis-cli -p {other} ping; do sleep 0.1; done; \
         while :; do redis-benchmark -p {other} -n 2000 -q -t get; sleep 0.01; done",
        folder.path().display()
    );
    let neighbour = Neighbour::shell(&script);
    neighbour.wait_for(3);
    let ask = format!("postgres://us@127.0.0.1:{port}/postgres");
    beside(&folder, &service, &neighbour, &[&ask]);
    // So that it removes its shared memory, which outlives processes.
    support::kill(service.pid() as i32, libc::SIGINT);
    wait_for("PostgreSQL ends", || service.all().is_empty().then_some(()));
}
