//! Shadow paging: a new page is written beside the old one, and the root is switched.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, last, persist, put};

const ROOT: usize = 0;
// A page: its version, twice.
const PAGES: [usize; 2] = [64, 128];

fn write_page(m: &Machine, page: usize, version: u64) {
    m.store_u64(page, version);
    m.store_u64(page + 8, version);
    m.flush(page..page + 16);
}

fn whole(m: &Machine, page: usize) -> Result<u64, String> {
    let (first, second) = (m.load_u64(page), m.load_u64(page + 8));
    ensure(first == second, format!("half a page: {first} and {second}"))?;
    Ok(first)
}

// The page that the root selects is whole, and no older than what was acknowledged.
fn root_is_good(m: &Machine, _: bool) -> Result<(), String> {
    let root = m.load_u64(ROOT) as usize;
    if root == 0 {
        return ensure(last(m) == 0, "the root is lost");
    }
    let version = whole(m, root)?;
    ensure(version > 0, "a page that was never written")?;
    ensure(version >= last(m), format!("version {version} after {}", last(m)))
}

pub const CASES: &[Case] = &[
    Case {
        name: "root switched before the page is durable",
        source: "BPFS (SOSP 2009), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            for version in 1..=2 {
                let page = PAGES[version as usize % 2];
                write_page(m, page, version);
                if !buggy {
                    m.sfence();
                }
                put(m, ROOT, page as u64);
                m.acknowledge(version);
            }
        },
        recovery: root_is_good,
        ..CASE
    },
    Case {
        name: "page written in place",
        source: "BPFS (SOSP 2009)",
        found_under: ALL,
        program: |m, buggy| {
            for version in 1..=2 {
                let page = PAGES[if buggy { 0 } else { version as usize % 2 }];
                write_page(m, page, version);
                m.sfence();
                put(m, ROOT, page as u64);
                m.acknowledge(version);
            }
        },
        recovery: root_is_good,
        ..CASE
    },
    Case {
        name: "old page used again before the switch is durable",
        source: "BPFS (SOSP 2009), NOVA (FAST 2016)",
        found_under: ADR,
        program: |m, buggy| {
            for version in 1..=3 {
                let page = PAGES[version as usize % 2];
                write_page(m, page, version);
                m.sfence();
                m.store_u64(ROOT, page as u64);
                if !buggy {
                    m.flush(ROOT..ROOT + 8);
                }
                m.sfence();
            }
            persist(m, ROOT..ROOT + 8);
            m.acknowledge(3);
        },
        recovery: root_is_good,
        ..CASE
    },
    Case {
        name: "root of 16 bytes, page and version",
        source: "BPFS (SOSP 2009): 8 bytes are stored at once, not 16",
        found_under: ALL,
        program: |m, _| {
            for version in 1..=2 {
                let page = PAGES[version as usize % 2];
                write_page(m, page, version);
                m.sfence();
                m.store_u64(ROOT, page as u64);
                m.store_u64(ROOT + 8, version);
                persist(m, ROOT..ROOT + 16);
                m.acknowledge(version);
            }
        },
        recovery: |m, buggy| {
            root_is_good(m, buggy)?;
            let root = m.load_u64(ROOT) as usize;
            if root == 0 {
                return Ok(());
            }
            let version = m.load_u64(if buggy { ROOT + 8 } else { root });
            let found = whole(m, root)?;
            ensure(found == version, format!("the root says version {version}, the page {found}"))
        },
        ..CASE
    },
];
