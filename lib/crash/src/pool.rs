//! A pool of workers, one per CPU.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::image::Image;
use crate::worker::{Given, Order, Ran, Setup, Worker};

/// What is run on images.
#[derive(Debug, Clone)]
pub struct Command {
    /// The command, for the shell.
    pub text: String,
    /// How long it may take.
    pub time: Duration,
    /// What it is given besides the images.
    pub given: Option<Given>,
    /// A folder that it leaves, and where that is copied to.
    pub keep: Option<(PathBuf, PathBuf)>,
}

/// An image to run it on.
#[derive(Debug, Clone)]
pub struct State {
    /// The image.
    pub image: Image,
    /// Words, by their places, of which it matters whether they are read.
    pub open: Arc<[u32]>,
}

/// Workers, each with the words of its last image.
#[derive(Debug)]
pub struct Pool {
    workers: Vec<Mutex<(Worker, Vec<u64>)>>,
}

impl Pool {
    /// Starts some; each has a folder of its own below that of the setup.
    ///
    /// # Errors
    /// Where one cannot be started.
    pub fn start(program: &Path, setup: &Setup, count: usize, initial: &[u64]) -> io::Result<Self> {
        let one = |number: usize| {
            let folder: PathBuf = setup.folder.join(number.to_string());
            std::fs::create_dir_all(&folder)?;
            let worker = Worker::start(program, &Setup { folder, cpu: number, ..setup.clone() })?;
            Ok(Mutex::new((worker, initial.to_vec())))
        };
        (0..count).map(one).collect::<io::Result<_>>().map(|workers| Self { workers })
    }

    /// Runs a command on each state; the results are in their order.
    ///
    /// # Errors
    /// The first of them.
    pub fn run(&self, command: &Command, states: &[State]) -> io::Result<Vec<Ran>> {
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, io::Result<Ran>)>> = Mutex::new(Vec::new());
        let work = |worker: &Mutex<(Worker, Vec<u64>)>| {
            let mut worker = worker.lock().expect("no run panics");
            while let Some((number, state)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                states.get(number).map(|state| (number, state))
            } {
                let ran = one(&mut worker, command, state);
                let failed = ran.is_err();
                done.lock().expect("no run panics").push((number, ran));
                if failed {
                    break;
                }
            }
        };
        std::thread::scope(|scope| {
            let count = self.workers.len().min(states.len());
            let others: Vec<_> = self.workers[..count]
                .iter()
                .skip(1)
                .map(|one| scope.spawn(move || work(one)))
                .collect();
            if let Some(first) = self.workers.first() {
                work(first);
            }
            others.into_iter().for_each(|other| other.join().expect("no run panics"));
        });
        let mut done = done.into_inner().expect("no run panics");
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, ran)| ran).collect()
    }
}

fn one(
    (worker, current): &mut (Worker, Vec<u64>),
    command: &Command,
    State { image, open }: &State,
) -> io::Result<Ran> {
    let pairs = image.words.iter().zip(current.iter()).enumerate();
    let changed: Vec<(u64, u64)> = pairs
        .filter(|(_, (wanted, has))| wanted != has)
        .map(|(place, (wanted, _))| (place as u64, *wanted))
        .collect();
    current.clone_from(&image.words);
    let order = Order {
        changed: changed.len(),
        sizes: image.sizes.clone(),
        command: command.text.clone(),
        time: command.time,
        given: command.given.clone(),
        keep: command.keep.clone(),
        open: open.to_vec(),
    };
    worker.run(&changed, &order)
}
