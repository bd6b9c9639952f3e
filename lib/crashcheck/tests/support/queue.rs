//! A durable queue of linked nodes, after Michael and Scott's with flushes (Friedman, Herlihy,
//! Marathe and Petrank, A Persistent Lock-Free Queue for Non-Volatile Memory, PPoPP 2018), for one
//! thread.

use ringfence_crashcheck::Machine;
use ringfence_persist::Memory;

/// The word at which the queue begins, the word at which it ends or nearly so, and nodes from there
/// on: a value, and where the next node is.
const HEAD: usize = 0;
const TAIL: usize = 64;
const NODES: usize = 128;
const NODE: usize = 64;

/// Elements in the queue while operations go on.
const KEPT: u64 = 2;

/// Bytes for so many operations, and one more in each of a few lives.
pub fn len(operations: usize) -> usize {
    NODES + NODE * (operations + KEPT as usize + 8)
}

fn durable(memory: &Machine, at: usize, value: u64) {
    memory.store_u64(at, value);
    memory.flush(at..at + 8);
    memory.sfence();
}

fn enqueue(memory: &Machine, value: u64) {
    let last = memory.load_u64(TAIL) as usize;
    let node = last + NODE;
    memory.store_u64(node, value);
    memory.store_u64(node + 8, 0);
    memory.flush(node..node + 16);
    memory.sfence();
    durable(memory, last + 8, node as u64);
    memory.acknowledge(value);
    durable(memory, TAIL, node as u64);
}

fn dequeue(memory: &Machine) {
    let next = memory.load_u64(memory.load_u64(HEAD) as usize + 8);
    if next != 0 {
        durable(memory, HEAD, next);
    }
}

/// Makes a queue and does so many operations: values from 1 on are put in, and most of them taken
/// out again.
pub fn run(memory: &Machine, operations: usize) {
    durable(memory, TAIL, NODES as u64);
    durable(memory, HEAD, NODES as u64);
    for operation in 0..operations {
        if operation % 2 == 0 || operation < KEPT as usize {
            enqueue(memory, operation as u64 + 1);
        } else {
            dequeue(memory);
        }
    }
}

/// Fixes the end of the queue, holds what is in it against what was acknowledged, and goes on.
pub fn recovery(memory: &Machine) -> Result<(), String> {
    let acknowledged = memory.marks().last().copied().unwrap_or(0);
    let head = memory.load_u64(HEAD) as usize;
    if head == 0 {
        return if acknowledged == 0 { Ok(()) } else { Err("the queue is gone".into()) };
    }
    // The first node is one whose value was taken out.
    let (mut last, mut newest) = (head, memory.load_u64(head));
    loop {
        let next = memory.load_u64(last + 8) as usize;
        if next == 0 {
            break;
        }
        let value = memory.load_u64(next);
        if value <= newest {
            return Err(format!("{value} behind {newest}"));
        }
        (last, newest) = (next, value);
    }
    if newest < acknowledged {
        return Err(format!("{acknowledged} was acknowledged, the newest is {newest}"));
    }
    // The link may be there and not yet durable for good: what follows relies on it.
    memory.flush(last..last + 16);
    memory.sfence();
    durable(memory, TAIL, last as u64);
    enqueue(memory, newest + 1);
    dequeue(memory);
    Ok(())
}
