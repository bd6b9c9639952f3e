//! What a newcomer meets: help that fits the screen, completions, manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Folder, Running, command, ringfence, ringfence_in, skip, verbs};

// Help as a terminal of so many columns shows it.
fn help(columns: &str, args: &[&str]) -> String {
    let folder = Folder::new();
    let (mut command, mark) = command(folder.path(), args);
    command.env("COLUMNS", columns);
    Running::spawn(command, mark).wait().ok().to_string()
}

// Every verb, and every verb below one.
fn all_verbs() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for verb in verbs() {
        let short = help("80", &[&verb, "-h"]);
        let below = short.lines().skip_while(|line| *line != "Commands:").skip(1);
        let below = below.take_while(|line| !line.is_empty()).filter_map(|line| {
            line.strip_prefix("  ")?
                .split(' ')
                .next()
                .filter(|verb| !verb.is_empty() && *verb != "help")
        });
        all.extend(below.map(|below| vec![verb.clone(), below.to_owned()]));
        all.push(vec![verb]);
    }
    assert!(all.contains(&vec!["lock".into(), "measure".into()]), "{all:?}");
    all
}

// The flags that a help lists. Their texts follow after two spaces, or in lines that are indented
// by ten.
fn flags(help: &str) -> Vec<&str> {
    let lines = help.lines().filter(|line| !line.starts_with("          "));
    let lines = lines.map(str::trim_start).filter(|line| line.starts_with('-'));
    let lists = lines.filter_map(|line| line.split("  ").next());
    lists.flat_map(|list| list.split([' ', ',']).filter(|word| word.starts_with("--"))).collect()
}

fn fits(text: &str, lines: usize) {
    assert!(text.lines().count() <= lines, "{} lines:\n{text}", text.lines().count());
    let long = text.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None, "{text}");
}

#[test]
fn the_front_page_fits_a_screen() {
    let page = help("80", &["--help"]);
    fits(&page, 39);
    assert_eq!(page, help("80", &["-h"]));
    assert_eq!(page, help("80", &["help"]));
    // Without arguments it is the same, on standard error since nothing was asked for.
    let nothing = ringfence(&[]);
    assert_eq!((nothing.code(), nothing.stdout.as_str()), (Some(2), ""));
    assert_eq!(nothing.stderr, page);
}

#[test]
fn short_help_is_a_line_for_each_flag_and_long_help_has_them_all() {
    for verb in all_verbs() {
        let with = |last: &'static str| -> Vec<&str> {
            verb.iter().map(String::as_str).chain([last]).collect()
        };
        let short = help("80", &with("-h"));
        fits(&short, 36);
        // A flag whose text does not fit would go on in the next line.
        let (_, lists) = short.split_once("\n\nUsage: ").unwrap().1.split_once("\n\n").unwrap();
        let folded =
            lists.lines().find(|line| line.starts_with("       ") && !line.trim().starts_with('-'));
        assert_eq!(folded, None, "{verb:?}\n{short}");
        let long = help("80", &with("--help"));
        let all = flags(&long);
        for flag in flags(&short) {
            assert!(all.contains(&flag), "{verb:?}: {flag} is in short help alone\n{long}");
        }
        let asked: Vec<&str> =
            ["help"].into_iter().chain(verb.iter().map(String::as_str)).collect();
        assert_eq!(long, help("80", &asked));
    }
}

// The pages of topics that the help of a verb names.
fn topic_pages(whole: &str) -> Vec<String> {
    let pages = whole.split_once("\nMore flags:\n").map_or("", |(_, pages)| pages);
    let pages = pages.lines().map(|line| line.trim().strip_prefix("ringfence ").unwrap());
    pages.map(|page| help("80", &page.split(' ').collect::<Vec<_>>())).collect()
}

#[test]
fn no_page_of_help_is_longer_than_120_lines() {
    let hidden = ["aa", "completions", "man"].map(|verb| vec![verb.to_owned()]);
    for verb in all_verbs().into_iter().chain(hidden) {
        let words: Vec<&str> =
            ["help"].into_iter().chain(verb.iter().map(String::as_str)).collect();
        let whole = help("80", &words);
        for page in topic_pages(&whole).into_iter().chain([whole]) {
            assert!(page.lines().count() <= 120, "{} lines:\n{page}", page.lines().count());
        }
    }
}

// The usual flags of a topic have a line on the verb's page besides.
#[test]
fn every_flag_is_on_one_page_of_help() {
    let folder = Folder::new();
    ringfence_in(folder.path(), &["man", "man"]).ok();
    let mut divided = 0;
    for verb in verbs() {
        let whole = help("80", &["help", &verb]);
        let pages = topic_pages(&whole);
        divided += usize::from(!pages.is_empty());
        let short = help("80", &[&verb, "-h"]);
        let page = folder.path().join(format!("man/ringfence-{verb}.1"));
        for flag in flags_of_manual(&fs::read_to_string(page).unwrap()) {
            let has = |page: &str| flags(page).contains(&flag.as_str());
            let topics = pages.iter().filter(|page| has(page)).count();
            let usual = has(&short);
            assert_eq!(has(&whole), usual || topics == 0, "{verb}: {flag}\n{whole}");
            assert!(topics <= 1, "{verb}: {flag} is on {topics} pages");
        }
    }
    assert!(divided >= 9, "{divided} verbs have pages of topics");
    let levers = help("80", &["help", "prove", "levers"]);
    assert!(levers.contains("--try-env") && levers.contains("\n  memory-high "), "{levers}");
}

// All long flags that have an entry in a manual page.
fn flags_of_manual(page: &str) -> Vec<String> {
    let plain = ["\\fB", "\\fI", "\\fR", "\\"]
        .iter()
        .fold(page.to_owned(), |page, mark| page.replace(mark, ""));
    let heads = plain.split("\n.TP\n").skip(1).filter_map(|entry| entry.lines().next());
    let words = heads.flat_map(|head| head.split([' ', ',']));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

#[test]
fn completions_name_every_verb_and_flag() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ringfence(&["completions", shell]);
        for verb in verbs() {
            assert!(script.ok().contains(&verb), "{shell}: {verb}");
        }
        for flag in ["victim-metric", "isolation-settle", "present"] {
            assert!(script.stdout.contains(flag), "{shell}: {flag}");
        }
    }
}

// What bash offers for the last of some words.
// The script comes from a file: it is longer than an argument may be (128 KiB).
fn bash(script: &Path, words: &[&str]) -> Option<String> {
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let ask = format!(
        "source '{}'\nCOMP_WORDS=({}) COMP_CWORD={}\n_ringfence ringfence '{last}' \
         '{before}'\necho \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len() - 1,
    );
    let ran = match Command::new("bash").args(["--norc", "-c", &ask]).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        ran => ran.unwrap(),
    };
    assert!(
        ran.status.success() && ran.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Some(String::from_utf8(ran.stdout).unwrap().trim().to_string())
}

#[test]
fn bash_completes_verbs_flags_and_values() {
    let folder = Folder::new();
    let script = folder.path().join("completions");
    fs::write(&script, ringfence(&["completions", "bash"]).ok()).unwrap();
    for (words, offered) in [
        (&["ringfence", "nei"][..], "neighbours"),
        (&["ringfence", "re"], "resctrl restore run report reproduce"),
        (&["ringfence", "prove", "--victim-m"], "--victim-metric"),
        (&["ringfence", "lock", "mis"], "misses"),
        (&["ringfence", "neighbours", "--placement", "re"], "remote"),
        (&["ringfence", "write", "--instruction", "clflush"], "clflush clflushopt"),
        (&["ringfence", "prove", "--levers", "pl"], "placement"),
        (
            &["ringfence", "prove", "--victim-progress", ""],
            "instructions lines latencies counter runs",
        ),
        (&["ringfence", "prove", "--aggressor-progress", "c"], "counter cpu-time"),
        // Nothing of ours: bash completes files then.
        (&["ringfence", "show", ""], ""),
        (&["ringfence", "show", "--json", ""], ""),
        (&["ringfence", "compare", "before", ""], ""),
        (&["ringfence", "run", ""], ""),
        (&["ringfence", "show", "--j"], "--json"),
        (&["ringfence", "lock", "list", ""], "-h --folder --root --json --help"),
    ] {
        let Some(found) = bash(&script, words) else { return skip("there is no bash") };
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        let offered: Vec<String> = sorted(offered)
            .into_iter()
            .filter(|word| word.starts_with(words[words.len() - 1]))
            .collect();
        assert_eq!(sorted(&found), offered, "{words:?}");
    }
}

// What was called otherwise says the same.
#[test]
fn old_names_of_verbs_are_read() {
    for (old, new) in [
        (&["reproduce", "--list"][..], &["notes", "run", "--list"][..]),
        (&["topology", "--root", "absent"], &["machine", "host", "--root", "absent"]),
        (&["neighbors", "-h"], &["neighbours", "-h"]),
        (&["claims", "--results", "absent"], &["notes", "claims", "--results", "absent"]),
        (&["contribute", "absent"], &["notes", "contribute", "absent"]),
        (&["calibrate", "laptop", "--from", "x"], &["machine", "fit", "laptop", "--from", "x"]),
        (
            &["whatif", "laptop", "--change", "core.x=1", "--", "write"],
            &["machine", "whatif", "laptop", "--change", "core.x=1", "--", "write"],
        ),
        (&["report", "absent"], &["show", "--html", "absent"]),
    ] {
        let [old_said, new_said] = [old, new].map(ringfence);
        assert_eq!(
            (old_said.code(), old_said.stdout, old_said.stderr),
            (new_said.code(), new_said.stdout, new_said.stderr),
            "{old:?}"
        );
        assert!(!verbs().contains(&old[0].to_owned()), "{old:?} is listed");
    }
    for hidden in ["aa", "completions", "man"] {
        ringfence(&["help", hidden]).ok();
        assert!(!verbs().contains(&hidden.to_owned()), "{hidden} is listed");
    }
}

#[test]
fn other_shells_can_read_their_completions() {
    for (shell, args) in [("zsh", ["-n"]), ("fish", ["--no-execute"])] {
        let folder = Folder::new();
        let script = folder.path().join("script");
        fs::write(&script, ringfence(&["completions", shell]).ok()).unwrap();
        match Command::new(shell).args(args).arg(&script).output() {
            Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr)),
            Err(_) => skip(&format!("there is no {shell}")),
        }
    }
}

#[test]
fn every_verb_has_a_manual_page_with_all_its_flags() {
    let folder = Folder::new();
    let wrote = ringfence_in(folder.path(), &["man", "man 1"]);
    let dir = folder.path().join("man 1");
    assert!(wrote.ok().contains("man -l 'man 1/ringfence.1'"), "{}", wrote.stdout);
    let all = all_verbs();
    let pages = fs::read_dir(&dir).unwrap().count();
    assert_eq!(pages, all.len() + 1);
    for verb in &all {
        let page = fs::read_to_string(dir.join(format!("ringfence-{}.1", verb.join("-")))).unwrap();
        let plain =
            ["\\fB", "\\fI", "\\fR", "\\"].iter().fold(page, |page, mark| page.replace(mark, ""));
        let long: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let long = help("100", &long);
        for flag in flags(&long) {
            // The flag's own entry, and after it what the flag is for.
            let entry = plain.split("\n.TP\n").skip(1).find(|entry| {
                let head = entry.lines().next().unwrap();
                head.split([' ', ',']).any(|word| word == flag)
            });
            let text = entry.and_then(|entry| entry.lines().nth(1)).unwrap_or_default();
            assert!(
                text.len() > 3 && !text.starts_with('.'),
                "{verb:?}: {flag}: {entry:?}\n{plain}"
            );
        }
    }
    let page = fs::read_to_string(dir.join("ringfence-prove.1")).unwrap();
    for section in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "LEVERS",
        "EXIT STATUS",
        "EXAMPLES",
        "SEE ALSO",
    ] {
        assert!(
            page.contains(&format!(".SH {section}"))
                || page.contains(&format!(".SH \"{section}\"")),
            "{section}\n{page}"
        );
    }
    let front = fs::read_to_string(dir.join("ringfence.1")).unwrap();
    assert!(front.contains("6  met, but only on a simulated machine"), "{front}");
}

#[test]
fn manual_pages_are_formatted_without_a_warning() {
    let folder = Folder::new();
    ringfence_in(folder.path(), &["man", "."]).ok();
    let mut pages = folder.entries();
    pages.retain(|name| name.ends_with(".1"));
    let mut read = 0;
    for (program, args) in [
        ("groff", &["-man", "-Tutf8", "-wall", "-z"][..]),
        ("mandoc", &["-T", "lint", "-W", "error"]),
    ] {
        let ran = Command::new(program).args(args).args(&pages).current_dir(folder.path()).output();
        let Ok(ran) = ran else { continue };
        let said = String::from_utf8_lossy(&ran.stderr).into_owned()
            + &String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.is_empty(), "{program}: {said}");
        read += 1;
    }
    if read == 0 {
        skip("there is neither groff nor mandoc");
    }
}

#[test]
fn manual_pages_replace_their_own_kind_alone() {
    let folder = Folder::new();
    ringfence_in(folder.path(), &["man", "pages"]).ok();
    ringfence_in(folder.path(), &["man", "pages"]).ok();
    let mine = folder.path().join("pages/ringfence-write.1");
    fs::write(&mine, "mine").unwrap();
    fs::remove_file(folder.path().join("pages/ringfence.1")).unwrap();
    for (dir, part) in [
        ("pages", "is not a page that 'ringfence man' wrote"),
        ("pages/ringfence-write.1", "cannot be written"),
    ] {
        let refused = ringfence_in(folder.path(), &["man", dir]);
        assert_eq!(
            (refused.code(), refused.stderr.lines().count()),
            (Some(2), 1),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    assert!(!folder.path().join("pages/ringfence.1").exists());
}

#[test]
fn what_a_victim_is_refused_is_not_offered_to_it() {
    let long = help("100", &["help", "prove", "programs"]);
    let (_, from) = long.split_once("--victim-progress <HOW>").expect("the flag");
    let (victim, aggressor) = from.split_once("--aggressor-progress <HOW>").expect("the next one");
    assert!(victim.contains("lines") && !victim.contains("cpu-time"), "{victim}");
    assert!(aggressor.contains("- cpu-time:"), "{aggressor}");
}

// Title, section, date, source: without a date man takes the source for one.
#[test]
fn manual_pages_have_a_date() {
    let folder = Folder::new();
    ringfence_in(folder.path(), &["man", "pages"]).ok();
    let page = fs::read_to_string(folder.path().join("pages/ringfence-prove.1")).unwrap();
    let title = page.lines().find(|line| line.starts_with(".TH ")).expect("a title");
    let words: Vec<&str> = title.split_whitespace().collect();
    let is_date =
        |word: &str| word.len() == 10 && word.chars().all(|c| c.is_ascii_digit() || c == '-');
    assert!(is_date(words[3]) && words[4] == "\"ringfence", "{title}");
}

// Each says in one line how it was read; what is exact says nothing.
#[test]
fn quantities_are_taken_as_people_type_them() {
    let folder = Folder::new();
    for (flags, said) in [
        (&["--block", "4k"][..], "--block 4k: read as 4KiB\n"),
        (
            &["--block", "4KB", "--size", "1M"],
            "--block 4KB: read as 4KiB\n--size 1M: read as 1MiB\n",
        ),
        (&["--time", "60"], "--time 60: read as 60s\n"),
        (&["--time", "1m"], "--time 1m: read as 1min\n"),
        (&["--margin", "2"], "--margin 2: read as 2%\n"),
        (&["--block", "4KiB", "--time", "60s", "--margin", "2%"], ""),
    ] {
        let _ = fs::remove_file(folder.path().join("saved.toml"));
        let args = [&["write", "--save", "saved.toml"], flags].concat();
        let saved = ringfence_in(folder.path(), &args);
        saved.ok();
        let read: String = saved
            .stderr
            .lines()
            .filter(|line| line.starts_with("--"))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(read, said, "{flags:?}");
    }
}
