// Rust: a thread that panics over the file, and sorting in it.
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
unsafe extern "C" {
    fn mmap(
        at: *mut u8,
        length: usize,
        protection: i32,
        flags: i32,
        file: i32,
        offset: i64,
    ) -> *mut u8;
}
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    file.set_len(1 << 16).unwrap();
    let at = unsafe { mmap(std::ptr::null_mut(), 1 << 16, 3, 1, file.as_raw_fd(), 0) };
    let words = unsafe { std::slice::from_raw_parts_mut(at.cast::<u64>(), 1 << 13) };
    for (number, word) in words.iter_mut().enumerate().take(2000) {
        *word = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    }
    words[..2000].sort_unstable();
    let text = format!("{:?}", &words[..20]);
    unsafe { at.add(40000).copy_from(text.as_ptr(), text.len()) };
    let count: &'static AtomicU64 = unsafe { &*at.add(60000).cast() };
    std::panic::set_hook(Box::new(|_| ()));
    let all: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                for turn in 0..500 {
                    count.fetch_add(1, Ordering::SeqCst);
                    assert!(number != 3 || turn != 400, "on purpose");
                }
            })
        })
        .collect();
    let ended: Vec<bool> = all.into_iter().map(|thread| thread.join().is_ok()).collect();
    println!("{ended:?} {} {text}", count.load(Ordering::SeqCst));
}
