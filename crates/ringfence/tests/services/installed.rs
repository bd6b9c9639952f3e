//! Services that people run.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::support::service::{Neighbour, journals, place};
use crate::support::{Folder, enough_cpus, skip, wait_for};
use crate::{assert_every_answer_has_its_time, run, slowdown};

// As few trials as a figure takes.
const FIGURES: [&str; 8] = ["--probe-rate", "200", "--trials", "4", "--rounds", "1", "--probe", "0ms"];

// Works for some 20 ms, sleeps for 10.
const HOG: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.01; done";

// Somebody else may take it before it is used.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_installed(program: &str) -> bool {
    let folders = std::env::var("PATH").unwrap_or_default();
    // Debian has some of them where root alone looks.
    let all = folders.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    all.into_iter().any(|folder| std::path::Path::new(folder).join(program).exists())
}

// The service beside a hog, each with its process attached: figures, and nothing is changed.
fn beside_a_hog(folder: &Folder, command: Command, port: u16, ask: &[&str]) {
    let service = Neighbour::start(command);
    wait_for("the service listens", || {
        assert!(!service.all().is_empty(), "the service has ended");
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let hog = Neighbour::shell(HOG);
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
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder.path());
    let address = format!("tcp://127.0.0.1:{port}");
    beside_a_hog(&folder, command, port, &[&address, "--probe-send", "PING\\r\\n"]);
}

#[test]
fn nginx_beside_a_hog() {
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
         http {{\n access_log off;\n client_body_temp_path {at}/body;\n proxy_temp_path {at}/proxy;\n \
         fastcgi_temp_path {at}/fastcgi;\n uwsgi_temp_path {at}/uwsgi;\n scgi_temp_path {at}/scgi;\n \
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 'there'; }} }}\n}}\n"
    );
    fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    // Debian's own path, where nginx is for root alone.
    command.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
    beside_a_hog(&folder, command, port, &[&format!("http://127.0.0.1:{port}/")]);
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
    beside_a_hog(&folder, command, port, &[&format!("http://127.0.0.1:{port}/page")]);
}
