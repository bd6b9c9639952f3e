//! A replay ends with the bytes that the file had.

use std::io::Read;
use std::path::Path;

use proptest::prelude::*;
use ringfence_trace::events::{Action, Ended, Event, Place, TracedFile};
use ringfence_trace::recording::{About, Reader, Writer};
use ringfence_trace::{ReplayError, replay};

use crate::arbitrary;

// What a file is after these events, told in the simplest terms.
fn expected(image: &[u8], file: u32, events: &[Event]) -> Vec<u8> {
    let mut held = image.to_vec();
    for event in events {
        if let Action::Truncate { file: truncated, size } = event.action
            && truncated == file
        {
            held.resize(size as usize, 0);
        }
        let Some((at, bytes)) = event.action.stores().filter(|(at, _)| at.file == file) else {
            continue;
        };
        for (offset, byte) in (at.offset as usize..).zip(bytes) {
            if matches!(event.action, Action::Write { .. }) && offset >= held.len() {
                held.resize(offset + 1, 0);
            }
            if let Some(place) = held.get_mut(offset) {
                *place = *byte;
            }
        }
    }
    held
}

fn replayed(folder: &Path, file: u32) -> Vec<u8> {
    let reader = Reader::open(folder).unwrap();
    let mut into = tempfile::tempfile().unwrap();
    replay(&reader, file, &into).unwrap();
    let mut held = Vec::new();
    std::io::Seek::rewind(&mut into).unwrap();
    into.read_to_end(&mut held).unwrap();
    held
}

proptest! {
    #[test]
    fn it_ends_as_the_program_did(
        events in arbitrary::events(),
        fill in any::<u8>(),
        holes in any::<u8>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(folder.path(), About::default()).unwrap();
        let mut images = Vec::new();
        for file in arbitrary::files() {
            let id = file.id;
            writer.file(file).unwrap();
            let filled = |offset: u64| {
                if holes & (1 << (offset / 1024)) == 0 { 0 } else { fill ^ offset as u8 }
            };
            let image: Vec<u8> = (0..arbitrary::SIZE).map(filled).collect();
            writer.image(id, 0, &image).unwrap();
            images.push((id, image));
        }
        events.iter().for_each(|event| writer.push(event).unwrap());
        writer.finish(Ended::Exited(0)).unwrap();
        for (id, image) in images {
            prop_assert_eq!(replayed(folder.path(), id), expected(&image, id, &events));
        }
    }
}

#[test]
fn holes_take_no_room_and_pages_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), About::default()).unwrap();
    let size = 1 << 20;
    writer.file(TracedFile { id: 3, path: "/f".into(), size, medium: None }).unwrap();
    let mut image = vec![0; size as usize];
    image[5] = 1;
    image[size as usize - 1] = 2;
    writer.image(3, 0, &image[..8192]).unwrap();
    writer.image(3, 8192, &image[8192..]).unwrap();
    writer.finish(Ended::Exited(0)).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    let pages: Vec<Place> = reader.images().map(|page| page.unwrap().0).collect();
    assert_eq!(pages, [0, size - 4096].map(|offset| Place { file: 3, offset }));
    assert_eq!(replayed(folder.path(), 3), image);
    let none = replay(&reader, 4, &tempfile::tempfile().unwrap()).unwrap_err();
    assert!(matches!(none, ReplayError::NoFile(4)), "{none}");
}
