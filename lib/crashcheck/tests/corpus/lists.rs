//! Objects that are allocated, linked, unlinked and freed.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

use crate::case::{ADR, ALL, CASE, Case, ensure, has, persist, put};

const HEAD: usize = 0;
const FREE: usize = 64;
// A node: its value, the next node, and the one before.
const NODES: [usize; 3] = [128, 192, 256];
const NEXT: usize = 8;
const PREVIOUS: usize = 16;

fn set_node(m: &Machine, node: usize, value: u64, next: usize) {
    m.store_u64(node, value);
    m.store_u64(node + NEXT, next as u64);
    m.flush(node..node + 16);
}

// The nodes from the one that `head` points at on.
fn walk(m: &Machine, head: usize) -> Result<Vec<usize>, String> {
    let mut nodes = Vec::new();
    let mut at = m.load_u64(head) as usize;
    while at != 0 {
        ensure(nodes.len() < NODES.len(), format!("the list has a cycle: {nodes:?}"))?;
        nodes.push(at);
        at = m.load_u64(at + NEXT) as usize;
    }
    Ok(nodes)
}

fn values(m: &Machine, head: usize) -> Result<Vec<u64>, String> {
    Ok(walk(m, head)?.into_iter().map(|node| m.load_u64(node)).collect())
}

// No node is in use and free at once.
fn nothing_is_owned_twice(m: &Machine, _: bool) -> Result<(), String> {
    let (used, free) = (walk(m, HEAD)?, walk(m, FREE)?);
    ensure(!used.iter().any(|node| free.contains(node)), format!("{used:?} in use, {free:?} free"))
}

fn all_free(m: &Machine) {
    set_node(m, NODES[1], 0, 0);
    set_node(m, NODES[0], 0, NODES[1]);
    m.sfence();
    put(m, FREE, NODES[0] as u64);
}

pub const CASES: &[Case] = &[
    Case {
        name: "allocation published before it is initialised",
        source: "Agamotto (OSDI 2020), nvm_malloc (ADMS 2015)",
        found_under: ALL,
        program: |m, buggy| {
            let publish = || put(m, HEAD, NODES[0] as u64);
            if buggy {
                publish();
            }
            put(m, NODES[0], 7);
            if !buggy {
                publish();
            }
        },
        recovery: |m, _| {
            let node = m.load_u64(HEAD) as usize;
            ensure(node == 0 || m.load_u64(node) == 7, "published and not initialised")
        },
        ..CASE
    },
    Case {
        name: "next pointer durable before the node that is appended",
        source: "NV-Heaps (ASPLOS 2011), PMTest (ASPLOS 2019)",
        found_under: ADR,
        program: |m, buggy| {
            set_node(m, NODES[0], 1, 0);
            m.sfence();
            put(m, HEAD, NODES[0] as u64);
            m.acknowledge(1);
            set_node(m, NODES[1], 2, 0);
            if !buggy {
                m.sfence();
            }
            put(m, NODES[0] + NEXT, NODES[1] as u64);
            m.acknowledge(2);
        },
        recovery: |m, _| {
            let values = values(m, HEAD)?;
            ensure(
                [&[][..], &[1], &[1, 2]].contains(&&values[..]),
                format!("the list is {values:?}"),
            )?;
            ensure(values.len() as u64 >= crate::case::last(m), "acknowledged and lost")
        },
        ..CASE
    },
    Case {
        name: "node pushed in front without its own next pointer durable",
        source: "NV-Heaps (ASPLOS 2011), Jaaru (ASPLOS 2021)",
        found_under: ADR,
        program: |m, buggy| {
            for (number, node) in [(1, NODES[0]), (2, NODES[1])] {
                put(m, node, number);
                m.store_u64(node + NEXT, m.load_u64(HEAD));
                if !buggy {
                    m.flush(node + NEXT..node + NEXT + 8);
                }
                m.sfence();
                put(m, HEAD, node as u64);
                m.acknowledge(number);
            }
        },
        recovery: |m, _| {
            let values = values(m, HEAD)?;
            ensure(
                values.len() as u64 >= crate::case::last(m),
                format!("{} were acknowledged, the list is {values:?}", crate::case::last(m)),
            )
        },
        ..CASE
    },
    Case {
        name: "node used again before its unlinking is durable",
        source: "Mnemosyne (ASPLOS 2011), NVTraverse (PLDI 2020)",
        found_under: ADR,
        program: |m, buggy| {
            set_node(m, NODES[1], 2, 0);
            set_node(m, NODES[0], 1, NODES[1]);
            m.sfence();
            put(m, HEAD, NODES[0] as u64);
            m.store_u64(HEAD, NODES[1] as u64);
            if !buggy {
                persist(m, HEAD..HEAD + 8);
            }
            set_node(m, NODES[0], 99, 0);
            m.sfence();
            persist(m, HEAD..HEAD + 8);
        },
        recovery: |m, _| {
            let values = values(m, HEAD)?;
            ensure(
                [&[][..], &[1, 2], &[2]].contains(&&values[..]),
                format!("the list is {values:?}"),
            )
        },
        ..CASE
    },
    Case {
        name: "pop of the free list not durable",
        source: "Makalu (OOPSLA 2016), nvm_malloc (ADMS 2015)",
        found_under: ADR,
        program: |m, buggy| {
            all_free(m);
            let node = m.load_u64(FREE) as usize;
            m.store_u64(FREE, m.load_u64(node + NEXT));
            if !buggy {
                m.flush(FREE..FREE + 8);
            }
            m.sfence();
            put(m, node + NEXT, 0);
            put(m, HEAD, node as u64);
            persist(m, FREE..FREE + 8);
        },
        recovery: nothing_is_owned_twice,
        ..CASE
    },
    Case {
        name: "published before the pop of the free list",
        source: "nvm_malloc (ADMS 2015)",
        found_under: ALL,
        program: |m, buggy| {
            all_free(m);
            let node = m.load_u64(FREE);
            let next = m.load_u64(node as usize + NEXT);
            let publish = || put(m, HEAD, node);
            if buggy {
                publish();
            }
            put(m, FREE, next);
            put(m, node as usize + NEXT, 0);
            if !buggy {
                publish();
            }
        },
        recovery: nothing_is_owned_twice,
        ..CASE
    },
    Case {
        name: "freed before it is unlinked",
        source: "Makalu (OOPSLA 2016): freed twice after a crash",
        found_under: ALL,
        program: |m, buggy| {
            put(m, HEAD, NODES[0] as u64);
            let unlink = || put(m, HEAD, 0);
            if !buggy {
                unlink();
            }
            put(m, FREE, NODES[0] as u64);
            if buggy {
                unlink();
            }
        },
        recovery: nothing_is_owned_twice,
        ..CASE
    },
    Case {
        name: "linked before the allocator's bitmap knows",
        source: "Yat (USENIX ATC 2014), Chipmunk (EuroSys 2023): bitmap and list disagree",
        found_under: ALL,
        program: |m, buggy| {
            let bitmap = FREE;
            let link = || put(m, HEAD, NODES[0] as u64);
            if buggy {
                link();
            }
            put(m, bitmap, 1);
            if !buggy {
                link();
            }
        },
        recovery: |m, _| {
            let linked = walk(m, HEAD)?.contains(&NODES[0]);
            ensure(!linked || m.load_u64(FREE) & 1 == 1, "linked, and the bitmap calls it free")
        },
        ..CASE
    },
    Case {
        name: "pointer back not rebuilt by recovery",
        source: "NV-Heaps (ASPLOS 2011), Jaaru (ASPLOS 2021): a doubly linked list has no atomic \
                 insert",
        found_under: ALL,
        program: |m, _| {
            let [first, second, between] = NODES;
            set_node(m, second, 2, 0);
            put(m, second + PREVIOUS, first as u64);
            set_node(m, first, 1, second);
            m.sfence();
            put(m, HEAD, first as u64);
            set_node(m, between, 3, second);
            put(m, between + PREVIOUS, first as u64);
            put(m, first + NEXT, between as u64);
            put(m, second + PREVIOUS, between as u64);
        },
        recovery: |m, buggy| {
            let forward = walk(m, HEAD)?;
            if !buggy {
                for pair in forward.windows(2) {
                    put(m, pair[1] + PREVIOUS, pair[0] as u64);
                }
            }
            let back = |pair: &[usize]| m.load_u64(pair[1] + PREVIOUS) as usize == pair[0];
            ensure(forward.windows(2).all(back), format!("{forward:?} has no way back"))
        },
        ..CASE
    },
    Case {
        name: "queue's tail taken for the last node",
        source: "Friedman et al. (PPoPP 2018): the tail lags behind",
        found_under: ALL,
        program: |m, _| {
            let tail = FREE;
            put(m, HEAD, NODES[0] as u64);
            put(m, tail, NODES[0] as u64);
            put(m, NODES[1], 2);
            put(m, NODES[0] + NEXT, NODES[1] as u64);
            m.acknowledge(2);
            put(m, tail, NODES[1] as u64);
        },
        recovery: |m, buggy| {
            let mut tail = m.load_u64(FREE) as usize;
            if tail == 0 {
                return Ok(());
            }
            while !buggy && m.load_u64(tail + NEXT) != 0 {
                tail = m.load_u64(tail + NEXT) as usize;
            }
            put(m, NODES[2], 3);
            put(m, tail + NEXT, NODES[2] as u64);
            ensure(
                !has(m, 2) || values(m, HEAD)?.contains(&2),
                "appending cut off what was acknowledged",
            )
        },
        ..CASE
    },
];
