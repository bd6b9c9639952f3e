//! A recorded program, dealt out to the CPUs that it has.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::hardware::{Line, Region};

use crate::recordings::{Access, Recorded, What};

/// A program, and what its CPUs know of each other.
pub struct Played {
    pub recorded: Arc<Recorded>,
    // By their numbers: where each lies, and its first line there.
    files: Vec<Option<(Region, u32)>>,
    pub shares: Vec<Share>,
    // How often it went back to its beginning.
    pub returns: AtomicUsize,
    pub round: u64,
}

/// What one CPU does.
pub struct Share {
    // Of the recording's accesses.
    pub accesses: Vec<u32>,
    pub waits: Vec<Wait>,
    // Where a trial begins.
    pub start: u64,
    // How many accesses were handed out, those of earlier plays included.
    pub done: AtomicU64,
}

/// Before an access, one of another CPU's must have been handed out.
pub struct Wait {
    pub before: u32,
    pub of: usize,
    pub access: u32,
}

impl Played {
    /// On so many CPUs, or fewer where it has fewer threads. Files have their memory; caches hold
    /// so many lines.
    pub fn new(
        recorded: Arc<Recorded>,
        files: Vec<Option<(Region, u32)>>,
        cpus: usize,
        (seed, caches): (u64, u64),
    ) -> Self {
        let lines: u64 = recorded.files().map(|(_, touched)| touched.len() as u64).sum();
        let mut shares = shared_out(&recorded, cpus);
        // Trials begin at places of their own.
        let begin = begin(&recorded, seed);
        for share in &mut shares {
            let start = share.accesses.partition_point(|access| *access < begin) as u64;
            share.start = start;
            share.done = AtomicU64::new(start);
        }
        // A part of it fills the caches where they do not hold all.
        let held = caches.min(lines.max(1));
        let round = (recorded.events() as f64 * held as f64 / lines.max(1) as f64).ceil() as u64;
        Self { recorded, files, shares, returns: AtomicUsize::new(0), round }
    }

    /// On how many CPUs it runs.
    pub fn cpus(&self) -> usize {
        self.shares.len()
    }

    pub fn line(&self, access: &Access) -> Line {
        let (region, first) =
            self.files[usize::from(access.file)].expect("every file that is touched has memory");
        region.line(access.line - first)
    }
}

// An access with which an event begins.
fn begin(recorded: &Recorded, seed: u64) -> u32 {
    let accesses = recorded.accesses();
    let any = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % accesses.len().max(1) as u64) as usize;
    accesses[..any].iter().rposition(|access| access.ends).map_or(0, |last| last as u32 + 1)
}

fn shared_out(recorded: &Recorded, cpus: usize) -> Vec<Share> {
    let cpus = cpus.clamp(1, recorded.threads().max(1));
    let share =
        |_| Share { accesses: Vec::new(), waits: Vec::new(), start: 0, done: AtomicU64::new(0) };
    let mut shares: Vec<Share> = (0..cpus).map(share).collect();
    // The last access to each line, and which threads have started.
    let mut last: HashMap<(u16, u32), (usize, u32)> = HashMap::new();
    let mut begun = 0;
    let mut event = 0;
    for (number, access) in recorded.accesses().iter().enumerate() {
        let own = usize::from(access.thread) % cpus;
        let here = shares[own].accesses.len() as u32;
        if cpus > 1 {
            if access.thread >= begun {
                begun = access.thread + 1;
                for other in (0..cpus).filter(|other| *other != own) {
                    if let Some(before) = (shares[other].accesses.len() as u32).checked_sub(1) {
                        shares[own].waits.push(Wait {
                            before: event_of(here, event),
                            of: other,
                            access: before,
                        });
                    }
                }
            }
            let fence = matches!(access.what, What::Sfence | What::Mfence | What::LockedElsewhere);
            if !fence
                && let Some((of, before)) = last.insert((access.file, access.line), (own, here))
                && of != own
            {
                shares[own].waits.push(Wait { before: event_of(here, event), of, access: before });
            }
        }
        shares[own].accesses.push(number as u32);
        event = if access.ends { 0 } else { event + 1 };
    }
    shares
}

// Where an event began that has had so many accesses: they are those of one thread, one behind the
// other.
fn event_of(here: u32, so_far: u32) -> u32 {
    here - so_far
}
