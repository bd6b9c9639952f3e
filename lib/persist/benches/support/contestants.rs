//! The contestants in the comparison of rings.

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ringfence_machine::cpulist::CpuId;
use ringfence_machine::probe::pin;
use ringfence_persist::{Flush, Region, Ring, Width, isa};

use crate::baselines::ours::Lazy;
use crate::baselines::payload::{Payload, Seen};
use crate::baselines::{Form, Reader, Writer, primitives, reader, writer};
use crate::support::foreign::Library;
use crate::support::options::Options;
use crate::{CURSOR_EVERY, Load};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The library's.
    Ours,
    /// One of the webinar's.
    Slides(Form),
    /// Non-temporal stores and a fence, as many bytes as our entry has.
    BareEntry,
    /// The same, of the payload alone.
    BarePayload,
    /// PMDK's log.
    PmemLog,
    /// A ring that forgets.
    Volatile,
}

impl Kind {
    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Slides(Form::Repaired) => "two fences (the webinar's, repaired)",
            Kind::Slides(Form::Published) => "the webinar's optimised, as published",
            Kind::Slides(Form::Naive) => "the webinar's naive",
            Kind::BareEntry => "bare nt + sfence, bytes of our entry",
            Kind::BarePayload => "bare nt + sfence, payload alone",
            Kind::PmemLog => "libpmemlog, append",
            Kind::Volatile => "rtrb (volatile)",
        }
    }
}

/// What a window gave.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// From the first push until the last entry was read.
    pub ns: f64,
    /// By the consumer, if there is one.
    pub seen: Seen,
}

/// Takes part.
pub trait Contestant {
    /// Which it is.
    fn kind(&self) -> Kind;
    /// Pushes the load's entries.
    fn window(&mut self, load: &Load, cpus: [CpuId; 2]) -> Result<Window, String>;
}

/// All that can take part, and why others cannot.
pub type Field = (Vec<Box<dyn Contestant>>, Vec<String>);

/// Maps and makes them.
pub fn all(load: &Load, options: &Options) -> Result<Field, String> {
    const SHARES: usize = 8;
    let size = (options.size / SHARES) & !4095;
    if size < 16 << 20 {
        return Err("--size must be 128 MiB at least: eight rings share it".into());
    }
    let map = || Region::map(&options.request(size)?).map_err(|error| error.to_string());
    let flushes = [Flush::Clwb, Flush::Clflushopt, Flush::Clflush];
    let flush = flushes.into_iter().find(|flush| isa::supports(*flush)).expect("all have clflush");
    let mut all: Vec<Box<dyn Contestant>> = Vec::new();
    let ring = Ring::create_in(map()?).map_err(|error| error.to_string())?;
    let sides = ring.producer().and_then(|producer| Ok((producer, ring.consumer()?)));
    let (producer, consumer) = sides.map_err(|error| error.to_string())?;
    let lazy = Lazy { consumer, every: CURSOR_EVERY, popped: 0 };
    all.push(Box::new(Sides::new(Kind::Ours, producer, lazy)));
    for form in [Form::Repaired, Form::Published, Form::Naive] {
        let region = Arc::new(map()?);
        let writer = writer(&region, form, flush, load.payload);
        let reader = reader(&region, form, flush, load.payload, CURSOR_EVERY);
        all.push(Box::new(Sides::new(Kind::Slides(form), writer, reader)));
    }
    let entry = ring.shape().size_of(load.payload);
    for (kind, bytes) in [(Kind::BareEntry, entry), (Kind::BarePayload, load.payload)] {
        all.push(Box::new(Bare { kind, region: map()?, at: 0, bytes, width: Width::widest() }));
    }
    // As large as a ring need be that forgets, so that its lines stay in the caches.
    let (producer, consumer) = rtrb::RingBuffer::new(1 << 20);
    let (producer, consumer) = (VolatilePush(producer), VolatileRead(consumer, load.payload));
    all.push(Box::new(Sides::new(Kind::Volatile, producer, consumer)));
    let mut absent = Vec::new();
    if load.batch == 1 {
        match PmemLog::create(options, size) {
            Ok(log) => all.push(Box::new(log)),
            Err(reason) => absent.push(format!("libpmemlog: not run, because {reason}")),
        }
    }
    Ok((all, absent))
}

struct Sides<W, R> {
    kind: Kind,
    writer: W,
    reader: R,
    next: u64,
}

impl<W: Writer, R: Reader> Sides<W, R> {
    fn new(kind: Kind, writer: W, reader: R) -> Self {
        Self { kind, writer, reader, next: 0 }
    }
}

impl<W: Writer, R: Reader> Contestant for Sides<W, R> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn window(&mut self, load: &Load, cpus: [CpuId; 2]) -> Result<Window, String> {
        let Self { writer, reader, next, .. } = self;
        let (first, end) = (*next, *next + load.entries);
        *next = end;
        let ready = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ready = &ready;
            let consumer = scope.spawn(move || {
                let pinned = pin::pin_current_thread(cpus[1]).map_err(|error| error.to_string());
                let mut seen = Seen::before(first);
                ready.store(true, Ordering::Release);
                while seen.entries < load.entries {
                    if !reader.take(|bytes| seen.look(bytes)) {
                        std::hint::spin_loop();
                    }
                }
                let end = Instant::now();
                pinned.map(|()| (end, seen))
            });
            let mut payload = Payload::new(load.payload);
            while !ready.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            push(writer, first..end, load.batch, &mut payload);
            let (end, seen) = consumer.join().map_err(|_| "a consumer failed".to_owned())??;
            Ok(Window { ns: (end - start).as_nanos() as f64, seen })
        })
    }
}

#[inline(always)]
fn push(
    writer: &mut impl Writer,
    numbers: std::ops::Range<u64>,
    batch: u64,
    payload: &mut Payload,
) {
    if batch == 1 {
        numbers.for_each(|number| writer.push(payload.numbered(number)));
    } else {
        numbers
            .step_by(batch as usize)
            .for_each(|first| writer.push_all(first..first + batch, payload));
    }
}

// Only writes.
fn alone(load: &Load, writer: &mut impl Writer, bytes: usize) -> Window {
    let mut payload = Payload::new(bytes);
    let start = Instant::now();
    push(writer, 0..load.entries, load.batch, &mut payload);
    Window { ns: start.elapsed().as_nanos() as f64, seen: Seen::default() }
}

struct Bare {
    kind: Kind,
    region: Region,
    at: usize,
    bytes: usize,
    width: Width,
}

impl Bare {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() > self.region.len() {
            self.at = 0;
        }
        // SAFETY: inside the region, whole lines.
        unsafe {
            primitives::stream(
                self.region.base().add(self.at),
                bytes.as_ptr(),
                bytes.len(),
                self.width,
            )
        };
        primitives::end_of(self.width);
        self.at += bytes.len();
    }
}

impl Writer for Bare {
    #[inline(always)]
    fn push(&mut self, payload: &[u8]) {
        self.put(payload);
        isa::sfence();
    }

    #[inline(always)]
    fn push_all(&mut self, numbers: std::ops::Range<u64>, payload: &mut Payload) {
        numbers.for_each(|number| self.put(payload.numbered(number)));
        isa::sfence();
    }
}

impl Contestant for Bare {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn window(&mut self, load: &Load, _: [CpuId; 2]) -> Result<Window, String> {
        let bytes = self.bytes;
        Ok(alone(load, self, bytes))
    }
}

struct VolatilePush(rtrb::Producer<u8>);
struct VolatileRead(rtrb::Consumer<u8>, usize);

impl VolatilePush {
    // Entries of so many bytes together, under one commit.
    #[inline(always)]
    fn put(&mut self, bytes: usize, entries: impl FnOnce(&mut dyn FnMut(&[u8]))) {
        let mut chunk = loop {
            match self.0.write_chunk(bytes) {
                Ok(chunk) => break chunk,
                Err(_) => std::hint::spin_loop(),
            }
        };
        // Capacities are multiples of what is put: nothing meets the end.
        let (mut room, other) = chunk.as_mut_slices();
        assert!(other.is_empty());
        entries(&mut |payload| {
            let (one, rest) = std::mem::take(&mut room).split_at_mut(payload.len());
            one.copy_from_slice(payload);
            room = rest;
        });
        chunk.commit_all();
    }
}

impl Writer for VolatilePush {
    #[inline]
    fn push(&mut self, payload: &[u8]) {
        self.put(payload.len(), |entry| entry(payload));
    }

    #[inline]
    fn push_all(&mut self, numbers: std::ops::Range<u64>, payload: &mut Payload) {
        let bytes = (numbers.end - numbers.start) as usize * payload.numbered(numbers.start).len();
        self.put(bytes, |entry| numbers.for_each(|number| entry(payload.numbered(number))));
    }
}

impl Reader for VolatileRead {
    #[inline]
    fn take(&mut self, mut look: impl FnMut(&[u8])) -> bool {
        let Ok(chunk) = self.0.read_chunk(self.1) else { return false };
        let (one, other) = chunk.as_slices();
        // Capacities are multiples of the payload: no entry meets the end.
        assert!(other.is_empty());
        look(one);
        chunk.commit_all();
        true
    }
}

type Create = unsafe extern "C" fn(*const c_char, usize, libc::mode_t) -> *mut c_void;
type Append = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;
type Rewind = unsafe extern "C" fn(*mut c_void);
type Close = unsafe extern "C" fn(*mut c_void);
type Message = unsafe extern "C" fn() -> *const c_char;

struct PmemLog {
    log: *mut c_void,
    append: Append,
    rewind: Rewind,
    close: Close,
}

// SAFETY: libpmemlog(7): its functions can be called from any thread.
unsafe impl Send for PmemLog {}

impl PmemLog {
    fn create(options: &Options, size: usize) -> Result<Self, String> {
        let folder = match options.target.as_str() {
            "dram" => "/dev/shm",
            target if std::path::Path::new(target).is_dir() => target,
            _ => return Err("it wants a directory to make its file in".into()),
        };
        let library = Library::open("libpmemlog.so.1")
            .ok_or("libpmemlog.so.1 is not there: apt install libpmemlog-dev")?;
        let path = std::path::Path::new(folder)
            .join(format!("ringfence-bench-{}.log", std::process::id()));
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let missing = || "it lacks a function of libpmemlog.h".to_owned();
        // SAFETY: the types are those of libpmemlog.h (PMDK 1.12); the name is terminated; the log
        // stays open.
        unsafe {
            let create: Create = library.function("pmemlog_create").ok_or_else(missing)?;
            let message: Message = library.function("pmemlog_errormsg").ok_or_else(missing)?;
            let append = library.function("pmemlog_append").ok_or_else(missing)?;
            let rewind = library.function("pmemlog_rewind").ok_or_else(missing)?;
            let close = library.function("pmemlog_close").ok_or_else(missing)?;
            let log = create(name.as_ptr(), size, 0o600);
            if log.is_null() {
                let message = std::ffi::CStr::from_ptr(message()).to_string_lossy().into_owned();
                return Err(format!("a log cannot be made in {folder}: {message}"));
            }
            // Mapped: the name is no longer needed, and nothing stays behind.
            _ = std::fs::remove_file(&path);
            let mut log = Self { log, append, rewind, close };
            log.prefault();
            Ok(log)
        }
    }

    // Fills it once, so that its pages are there.
    fn prefault(&mut self) {
        let piece = vec![0u8; 1 << 20];
        // SAFETY: an open log and mapped bytes.
        while unsafe { (self.append)(self.log, piece.as_ptr().cast(), piece.len()) } == 0 {}
        // SAFETY: an open log.
        unsafe { (self.rewind)(self.log) };
    }
}

impl Writer for PmemLog {
    #[inline]
    fn push(&mut self, payload: &[u8]) {
        // SAFETY: an open log and mapped bytes.
        unsafe {
            if (self.append)(self.log, payload.as_ptr().cast(), payload.len()) != 0 {
                (self.rewind)(self.log);
                let done = (self.append)(self.log, payload.as_ptr().cast(), payload.len());
                assert_eq!(done, 0, "an empty log takes an entry");
            }
        }
    }
}

impl Contestant for PmemLog {
    fn kind(&self) -> Kind {
        Kind::PmemLog
    }

    fn window(&mut self, load: &Load, _: [CpuId; 2]) -> Result<Window, String> {
        Ok(alone(load, self, load.payload))
    }
}

impl Drop for PmemLog {
    fn drop(&mut self) {
        // SAFETY: open, and not used again.
        unsafe { (self.close)(self.log) };
    }
}
