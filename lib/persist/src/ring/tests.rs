//! The format's bytes.

use super::*;
use crate::Request;

// The format's bytes, written down: a change of them needs another version.
#[test]
fn the_format_is_version_1() {
    let memory =
        Mapped::with_methods(Region::map(&Request::dram(8192)).unwrap(), Methods::of_processor());
    let shape = Shape::new(256, 64, 0x0123_4567_89ab_cdef).unwrap();
    format(&memory, &shape).unwrap();
    recover(&memory).unwrap();
    let mut producer = Producer::attach(&memory).unwrap();
    producer.push(b"first").unwrap();
    producer.push(&[7; 100]).unwrap();
    Consumer::attach(&memory).unwrap().read().unwrap().pop_durably().unwrap();
    let bytes = |at: usize, len: usize| {
        let mut bytes = vec![0; len];
        memory.load(at, &mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(bytes(0, 32), "52494e47464e434501000000400000000001000000000000efcdab8967452301");
    assert_eq!(bytes(56, 8), "f9676a4eb2c47349");
    assert_eq!(bytes(256, 32), "fd33dacf42e40d45020000000000000002000000000000000000000000000000");
    assert_eq!(bytes(512, 32), "db301c67e8de9b1a010000000000000001000000000000000000000000000000");
    assert_eq!(bytes(768, 24), "7e6e4612debb993102000000000000004000000000000000");
    assert_eq!(bytes(1024, 24), "836836ea91f2fb0001000000000000000000000000000000");
    assert_eq!(
        bytes(HEAD, 40),
        "c58b8bafa5d6bfc00000000000000000020000000000000005000000000000006669727374000000"
    );
    assert_eq!(
        bytes(HEAD + 64, 32),
        "20d1bd548a44830f400000000000000002000000000000006400000000000000"
    );
    assert_eq!((memory.load_u64(layout::PUBLISHED), memory.load_u64(layout::FREED)), (256, 64));
}
