//! Where memory is a file in the page cache, fences are msync, and what it says is not lost.

use std::path::PathBuf;

use ringfence_persist::{Durability, Mapped, Memory, Region, Ring, Stores};

struct Folder(PathBuf);

impl Folder {
    // Beside the program, which lies on a disk where the temporary folder may be memory.
    fn new(name: &str) -> Option<Self> {
        let exe = std::env::current_exe().unwrap();
        let folder = exe.parent().unwrap().join(format!("ringfence-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let folder = Self(folder);
        let region = Region::create(folder.0.join("probe"), 4096, Durability::Volatile).unwrap();
        if region.durability() == Durability::PageCache {
            return Some(folder);
        }
        let found = region.explain().verdict();
        assert!(std::env::var_os("RINGFENCE_REQUIRE_ALL").is_none(), "no page cache to test on: {found}");
        println!("skipped: this wants a file in the page cache, and found {found}");
        None
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_ring_in_a_file_is_there_when_it_is_opened_again() {
    let Some(folder) = Folder::new("ring-file") else { return };
    let path = folder.0.join("ring");
    let ring = Ring::create(&path, 64 * 30, Durability::PageCache).unwrap();
    let mut producer = ring.producer().unwrap();
    for number in 0..10u8 {
        producer.push(&vec![number; usize::from(number) * 9]).unwrap();
    }
    drop(producer);
    ring.consumer().unwrap().read().unwrap().pop_durably().unwrap();
    drop(ring);
    let ring = Ring::open(&path, Durability::PageCache).unwrap();
    assert_eq!(ring.recovery().unwrap().entries, 9);
    assert_eq!(&ring.consumer().unwrap().read().unwrap()[..], [1; 9]);
}

#[test]
fn less_than_was_asked_for_is_refused() {
    let Some(folder) = Folder::new("ring-least") else { return };
    let path = folder.0.join("ring");
    let error = Ring::create(&path, 4096, Durability::UnprovenMedium).unwrap_err().to_string();
    assert!(error.contains("page cache"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_failure_to_write_back_is_reported_and_stays() {
    let Some(folder) = Folder::new("ring-lost") else { return };
    let path = folder.0.join("stores");
    let region = Region::create(&path, 8192, Durability::PageCache).unwrap();
    let mut stores = Stores::new(Mapped::new(region).unwrap());
    stores.copy(0, b"kept").unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let lost = stores.persist(0..64).unwrap_err().to_string();
    assert!(lost.contains("open it again and recover"), "{lost}");
    assert!(stores.persist(0..64).is_err() && stores.memory().health().is_err(), "it stays");
}
