//! Functions of a test program that run in the guest, several per boot.
//!
//! The test copies its own program into the guest and runs the same test there, with a variable set
//! that says so. In the guest the test runs its scenarios, one after the other, and prints a line
//! as each begins and ends; on the host it holds those lines against the list that it has itself.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Program, Testbed, or_skip};

/// A scenario: its name, and what runs in the guest. It passes when it returns.
pub type Scenario = (&'static str, fn());

const GUEST: &str = "RINGFENCE_IN_GUEST";
const ONLY: &str = "RINGFENCE_SCENARIO";
const BEGAN: &str = "@began ";
const ENDED: &str = "@ended ";

/// Whether this program runs in the guest.
pub fn in_guest() -> bool {
    std::env::var_os(GUEST).is_some()
}

/// Runs functions in the guest, one after the other in one boot: `scenarios!(MACHINE, CLEAN,
/// [FUNCTION, ...])`, in a `#[test]`.
///
/// - `MACHINE` is a closure that describes the machine: `|testbed|
///   testbed.profile("few").mount("-")`. It is called on the host alone.
/// - `CLEAN` is a function of the guest, `fn() -> Result<(), String>`, called before the first
///   scenario and after each: an error says what is not as it should be. It fails the scenario that
///   left it so, and those behind it do not run while it lasts.
/// - Each function takes nothing, runs as root in `/host`, and fails by panicking.
///
/// The test fails when a scenario fails, does not end, or was not begun, and when the kernel warned
/// or worse. It shows every failure with its panic's words. `RINGFENCE_SCENARIO=PART` runs those
/// alone whose names contain PART, for work on them.
#[macro_export]
macro_rules! scenarios {
    ($machine:expr, $clean:expr, [$($scenario:path),+ $(,)?] $(,)?) => {{
        fn here() {}
        $crate::run_scenarios(
            std::any::type_name_of_val(&here),
            $machine,
            $clean,
            &[$((stringify!($scenario), $scenario)),+],
        )
    }};
}

/// What [`scenarios!`](crate::scenarios) does. `here` is the path of a function within the test.
///
/// # Panics
///
/// When a scenario fails, and when the testbed is absent though everything is required.
#[track_caller]
pub fn run_scenarios(
    here: &str,
    machine: impl FnOnce(Testbed) -> Testbed,
    clean: fn() -> Result<(), String>,
    scenarios: &[Scenario],
) {
    // Without the crate's name, and the function and closures in the test.
    let test = here
        .split_once("::")
        .and_then(|(_, rest)| rest.rsplit_once("::"))
        .map_or(here, |(test, _)| test);
    let test = test.split("::{{closure}}").next().unwrap_or(test);
    let only = std::env::var(ONLY).unwrap_or_default();
    let scenarios: Vec<Scenario> =
        scenarios.iter().filter(|(name, _)| name.contains(&only)).copied().collect();
    assert!(!scenarios.is_empty(), "{test} has no scenario that is called '{only}'");
    if in_guest() {
        return guest(clean, &scenarios);
    }
    let Some(testbed) = or_skip(test) else { return };
    let program = Program::this("scenarios").unwrap_or_else(|why| panic!("{why}"));
    let command = format!(
        "{GUEST}=1 {ONLY}='{only}' RUST_BACKTRACE=0 ./scenarios '{test}' --exact --include-ignored \
         --nocapture --test-threads=1"
    );
    let names: Vec<&str> = scenarios.iter().map(|(name, _)| *name).collect();
    let (printed, rest) = match machine(testbed).copy(program.path()).try_run(&command) {
        Ok(output) => {
            let rest = format!("exit code {}\n{}{}", output.code, output.stderr, output.console);
            let complaint =
                complaint(&output.console).map(|line| format!("the kernel complained: {line}"));
            let printed = output.stdout;
            let failures = failures(&names, &printed).into_iter().chain(complaint).collect();
            (failures, rest)
        }
        Err(why) => (failures(&names, &why), why),
    };
    report(&names, printed, &rest);
}

#[track_caller]
fn report(names: &[&str], failures: Vec<String>, rest: &str) {
    if failures.is_empty() {
        println!("{} scenarios in the guest", names.len());
        return;
    }
    panic!(
        "{} of {} scenarios failed:\n{}\nthe guest said:\n{rest}",
        failures.len(),
        names.len(),
        failures.join("\n")
    );
}

/// What the kernel prints when something is wrong with it. While it powers off, it may find that a
/// process still runs on a processor that it has stopped.
fn complaint(console: &str) -> Option<&str> {
    let running = console.split("reboot: Power down").next().unwrap_or_default();
    ["BUG: ", "WARNING: ", "Oops: ", "Call Trace:", "general protection fault"]
        .iter()
        .find_map(|sign| running.lines().find(|line| line.contains(sign)))
}

/// From what the guest printed, those scenarios that did not pass, each with why.
fn failures(names: &[&str], printed: &str) -> Vec<String> {
    let mut failures = Vec::new();
    for name in names {
        let ends: Vec<&str> = lines(printed, ENDED)
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .collect();
        let began = lines(printed, BEGAN).any(|line| line == *name);
        let why = match (began, ends[..].first()) {
            (true, Some(&"ok")) if ends.len() == 1 => continue,
            (_, Some(why)) => unescape(ends.iter().find(|end| **end != "ok").unwrap_or(why)),
            (true, None) => "it began and did not end".into(),
            (false, None) => "it was not begun".into(),
        };
        failures.push(format!("FAILED {name}: {why}"));
    }
    failures
}

fn lines<'a>(printed: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    printed.lines().filter_map(move |line| line.strip_prefix(mark))
}

fn guest(clean: fn() -> Result<(), String>, scenarios: &[Scenario]) {
    let said = Arc::new(Mutex::new(String::new()));
    let hook = std::panic::take_hook();
    let heard = said.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let at = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no words");
        let mut said = lock(&heard);
        let between = if said.is_empty() { "" } else { "; " };
        _ = write!(said, "{between}{what} ({at})");
    }));
    let mut state = clean().map_err(|why| format!("not run: before the first scenario: {why}"));
    for (name, run) in scenarios {
        if let Err(why) = &state {
            say(ENDED, &format!("{name}: {}", escape(why)));
            state = clean().map_err(|_| why.clone());
            continue;
        }
        lock(&said).clear();
        say(BEGAN, name);
        let mut result = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(()) => Ok(()),
            Err(_) => Err(lock(&said).clone()),
        };
        if let Err(why) = clean() {
            state = Err(format!("not run: since {name}: {why}"));
            let before = result.err().map_or(String::new(), |failed| format!("{failed}; and "));
            result = Err(format!("{before}it left behind: {why}"));
        }
        match result {
            Ok(()) => say(ENDED, &format!("{name}: ok")),
            Err(why) => say(ENDED, &format!("{name}: {}", escape(&why))),
        }
    }
    std::panic::set_hook(hook);
}

fn lock(said: &Mutex<String>) -> MutexGuard<'_, String> {
    said.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A line of its own, whatever was printed before, and past the test harness.
fn say(mark: &str, text: &str) {
    let mut out = std::io::stdout().lock();
    _ = write!(out, "\n{mark}{text}\n");
    _ = out.flush();
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n    ").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn the_kernel_complains_only_before_it_powers_off() {
        let warning = "[   13.8] WARNING: CPU: 3 PID: 1 at arch/x86/kernel/apic/ipi.c:68";
        let off = "[   13.8] reboot: Power down";
        assert_eq!(complaint(&format!("{off}\n{warning}\n")), None);
        assert_eq!(complaint(&format!("{warning}\n{off}\n")), Some(warning));
        assert_eq!(complaint(warning), Some(warning));
    }
}
