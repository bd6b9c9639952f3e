use std::fs::OpenOptions;
use std::path::Path;

use rustix::mm::MapFlags;

use super::*;
use crate::{Mapped, Memory, Methods};

fn request(medium: Medium, len: usize) -> Request {
    Request { medium, len, pages: Pages::Base }
}

fn byte(memory: &Mapped, at: usize) -> u8 {
    let mut byte = [0];
    memory.load(at, &mut byte);
    byte[0]
}

#[test]
fn memory_is_mapped_whole_and_writable() {
    for pages in [Pages::Base, Pages::Transparent] {
        let region = Region::map(&Request { pages, ..Request::dram(3 << 20) }).unwrap();
        assert!(region.len() >= 3 << 20);
        assert!(!region.is_file());
        let memory = Mapped::with_methods(region, Methods::of_processor());
        let last = memory.len() - 1;
        memory.store(last, &[1]);
        assert_eq!(byte(&memory, last), 1);
    }
}

#[test]
fn a_file_is_gone_from_its_directory_at_once_and_can_be_synced() {
    let dir = std::env::temp_dir().join(format!("ringfence-region-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let region = Region::map(&request(Medium::File(dir.clone()), 8192)).unwrap();
    let named = Region::map(&request(Medium::File(dir.join("new")), 5000)).unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!((region.len(), named.len()), (8192, 8192));
    region.msync(100..5100).unwrap();
    assert!(region.msync(8000..8500).unwrap_err().to_string().contains("not inside"));
    let (start, end) = (9, 8);
    assert!(region.msync(start..end).is_err());
    std::fs::remove_dir(&dir).unwrap();
}

#[test]
fn pages_given_back_are_fresh_ones() {
    let regions = [
        Region::map(&Request::dram(8192)).unwrap(),
        Region::map(&request(Medium::File("/dev/shm".into()), 8192)).unwrap(),
    ];
    for region in regions {
        let memory = Mapped::with_methods(region, Methods::of_processor());
        memory.store(8191, &[7]);
        assert_eq!(byte(&memory, 8191), 7);
        memory.region().give_back().unwrap();
        assert_eq!(byte(&memory, 8191), 0);
    }
    let device = Region::scratch(
        OpenOptions::new().read(true).write(true).open("/dev/zero").unwrap(),
        4096,
        Path::new("/dev/zero"),
        MapFlags::PRIVATE,
    );
    assert!(device.unwrap().give_back().is_err(), "a device has no pages to give back");
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let file = std::env::temp_dir().join(format!("ringfence-there-{}", std::process::id()));
    std::fs::write(&file, "mine").unwrap();
    let cases = [
        (request(Medium::Dram, 0), "zero bytes"),
        (request(Medium::Dram, 1 << 60), "free, "),
        (request(Medium::File(file.clone()), 4096), "exists already"),
        (request(Medium::File("/nowhere/at/all".into()), 4096), "no file can be made there"),
        (request(Medium::DevDax("/dev/dax9.9".into()), 4096), "cannot be opened"),
        (request(Medium::DevDax("/dev/null/x".into()), 4096), "cannot be opened"),
        (request(Medium::DevDax(file.clone()), 4096), "is not a character device"),
        (request(Medium::File(std::env::temp_dir()), 1 << 60), "free, "),
        (request(Medium::Node(5000), 4096), "beyond the 1024"),
        (request(Medium::Node(1023), 4096), "node 1023"),
        (
            Request { pages: Pages::Huge2M, ..request(Medium::File(std::env::temp_dir()), 4096) },
            "huge pages",
        ),
    ];
    for (wanted, part) in cases {
        let error = Region::map(&wanted).expect_err("must be refused").to_string();
        assert!(error.contains(part), "{wanted:?}: {error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    std::fs::remove_file(&file).unwrap();
}
