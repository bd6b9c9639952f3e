//! Help of verbs with many flags: a page with the usual flags, and a page for each topic.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The verbs whose help is divided.
const VERBS: [&str; 10] = [
    "aa",
    "commit",
    "neighbours",
    "pair",
    "prove",
    "run",
    "sensitivity",
    "tune",
    "versus",
    "write",
];

/// A topic: its name, the heading of its flags, and the other text on its page.
struct Topic {
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    notes: &'static str,
}

const TOPICS: [Topic; 6] = [
    Topic {
        name: "services",
        heading: "Services",
        about: "Services and other running processes as victims and aggressors",
        notes: "\
--victim probe:SERVICE queries a running service and times its responses: http://HOST:PORT/PATH, \
redis://HOST:PORT, postgres://HOST/DATABASE (through psql), tcp://HOST:PORT and unix:PATH with \
send= and the bytes to send, such as send='PING\\r\\n', or exec:COMMAND, a program that answers \
lines with lines. Requests are sent at a fixed rate (rate=1000), whether or not the last one was \
answered; a response time counts from the moment at which its request was due. of=pid:N, \
of=unit:NAME, of=cgroup:PATH or of=container:ID names the process that responds. It is never \
paused, moved or sent a signal.

--aggressor pid:N, unit:NAME, cgroup:PATH or container:ID is a running process and all that it \
started. It is paused for windows of a tenth of a second, for a fifth of its time at most, and \
resumed whatever happens.

Examples:
  ringfence VERB --victim probe:redis://localhost --aggressor unit:backup
  ringfence VERB --victim probe:exec:./ask --aggressor ./noise --metric p99",
    },
    Topic {
        name: "programs",
        heading: "Programs",
        about: "Programs as victims and aggressors: how they show their progress",
        notes: "\
Where the kernel counts instructions, any program will do. Elsewhere, have the program print a \
line for each unit of work (--victim-progress lines) or the latency of each operation (latencies), \
or count in a file (counter). Or name a command that exits: its runs are timed (run:COMMAND), or \
it prints a figure (--victim-metric).

A victim that is a program is first paused for half of the time. If that does not slow it down \
(because it always exits after a fixed time, for example), there is no verdict. There is no \
verdict either if the aggressor does almost nothing.

Examples:
  ringfence prove --victim ./bench --victim-progress lines --aggressor ./noise
  ringfence prove --victim 'run:./sort input' --aggressor ./backup",
    },
    Topic {
        name: "levers",
        heading: "Levers",
        about: "Levers: changes to the aggressor, or to where it runs",
        notes: LEVERS,
    },
    Topic {
        name: "commands",
        heading: "Around commands",
        about: "Commands: parameters, preparation, shell, input and output",
        notes: "",
    },
    Topic {
        name: "measuring",
        heading: "Measuring",
        about: "Measuring: time, trials, windows and intervals",
        notes: "",
    },
    Topic { name: "export", heading: "Export", about: "Export: files with the results", notes: "" },
];

const LEVERS: &str = "\
The levers, each tried where this machine and the aggressor allow it:
LIST

cat and mba need a mounted resctrl and usually root. --system allows settings that affect the \
whole machine.

Examples:
  ringfence prove --victim mcf --aggressor stream --levers quota,cat --time 2min
  ringfence prove --victim commit --aggressor dirty --other-dir /mnt/other";

impl Topic {
    fn has(&self, arg: &Arg) -> bool {
        arg.get_help_heading() == Some(self.heading)
    }

    fn is_of(&self, verb: &Command) -> bool {
        verb.get_arguments().any(|arg| self.has(arg))
    }

    fn notes(&self, verb: &str) -> String {
        self.notes.replace("VERB", verb).replace("LIST", &ringfence_studies::prove::lever_list())
    }
}

/// Moves the flags of each topic to the topic's page, for verbs that have such pages. Flags that
/// the short help lists keep one line in the long help.
pub fn divide(command: Command) -> Command {
    VERBS.iter().fold(command, |command, verb| command.mut_subcommand(verb, divided))
}

fn divided(verb: Command) -> Command {
    let of_verb = |topic: &&Topic| topic.is_of(&verb);
    let pages: Vec<String> = TOPICS
        .iter()
        .filter(of_verb)
        .map(|topic| format!("  ringfence help {} {}", verb.get_name(), topic.name))
        .collect();
    let more = format!("More flags:\n{}", pages.join("\n"));
    let help = match verb.get_after_long_help() {
        Some(help) => format!("{help}\n\n{more}"),
        None => more,
    };
    verb.after_long_help(help).mut_args(|arg| {
        if !TOPICS.iter().any(|topic| topic.has(&arg)) {
            return arg;
        }
        let elsewhere = arg.is_hide_short_help_set();
        match arg.get_help().cloned() {
            Some(line) => arg.hide_long_help(elsewhere).long_help(line),
            None => arg.hide_long_help(elsewhere),
        }
    })
}

/// The page that `help VERB TOPIC` asks for, if that is what was typed.
pub fn page(command: &mut Command, words: &[OsString]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let [_, "help", verb, name] = words[..] else { return None };
    let topic = TOPICS.iter().find(|topic| topic.name == name)?;
    if !VERBS.contains(&verb) {
        return None;
    }
    command.build();
    let verb = command.find_subcommand(verb).filter(|verb| topic.is_of(verb))?;
    let usage = format!("ringfence {} [OPTION]...", verb.get_name());
    let page = verb.clone().about(topic.about).long_about(None).override_usage(usage);
    let notes = topic.notes(verb.get_name());
    let mut page = page.after_long_help(notes).mut_args(|arg| {
        let elsewhere = !topic.has(&arg);
        arg.hide(elsewhere)
    });
    Some(page.render_long_help().to_string())
}

/// What pages of topics say besides flags, for the manual page of a verb; without examples.
pub fn notes(verb: &Command) -> Vec<String> {
    let divided = VERBS.contains(&verb.get_name());
    let topics = TOPICS.iter().filter(|topic| divided && topic.is_of(verb));
    let paragraphs = |topic: &Topic| {
        let notes = topic.notes(verb.get_name());
        let all = notes.split("\n\n").map(str::to_owned).collect::<Vec<_>>();
        all.into_iter().filter(|one| !one.is_empty() && !one.starts_with("Examples:"))
    };
    topics.flat_map(paragraphs).collect()
}
