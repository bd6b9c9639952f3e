//! What the README shows a newcomer is what comes out.

use ringfence_crashcheck::{Check, Profile};
use ringfence_persist::Memory;

const README: &str = include_str!("../README.md");

fn push(memory: &impl Memory, number: u64, fenced: bool) {
    let count = memory.load_u64(0);
    let slot = 64 + 8 * count as usize;
    memory.store_u64(slot, number);
    memory.flush(slot..slot + 8);
    if fenced {
        memory.sfence();
    }
    memory.store_u64(0, count + 1);
    memory.flush(0..8);
    memory.sfence();
}

fn numbers(memory: &impl Memory) -> Vec<u64> {
    (0..memory.load_u64(0) as usize).map(|slot| memory.load_u64(64 + 8 * slot)).collect()
}

fn told(profile: Profile, fenced: bool) -> String {
    let check =
        Check::new(profile, 4096).name(0..8, "count").array(64, 8, 8, "number", &[(0..8, "")]);
    let report = check.run(
        |memory| {
            for number in [70, 71, 72] {
                push(memory, number, fenced);
                memory.acknowledge(number);
            }
        },
        |memory| {
            let (acknowledged, found) = (memory.marks(), numbers(memory));
            let right = found.starts_with(&acknowledged) && [70, 71, 72].starts_with(&found);
            if right {
                Ok(())
            } else {
                Err(format!("acknowledged {acknowledged:?}, found {found:?}"))
            }
        },
    );
    report.to_string()
}

// Without the places in the source, and however columns are aligned.
fn lines(text: &str) -> Vec<String> {
    let place = |word: &&str| !word.contains(".rs:");
    text.lines()
        .map(|line| line.split_whitespace().filter(place).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_story_in_the_readme_is_the_one_that_is_told() {
    let (_, shown) = README.split_once("`cargo test` says\n\n```text\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let told = lines(&told(Profile::IntelAdr, false));
    let shown = lines(shown);
    assert!(shown.len() > 10);
    assert_eq!(told[..shown.len()], shown);
}

#[test]
fn the_fix_of_the_readme_is_one() {
    for profile in Profile::ALL {
        assert!(told(profile, true).contains("nothing wrong was found"), "{profile}");
        let bug = told(profile, false).contains("recovery fails");
        assert_eq!(bug, profile != Profile::Eadr, "{profile}");
    }
}
