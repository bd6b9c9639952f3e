use ringfence_experiment::task::{FenceAt, FenceKind, Pattern, WidthChoice};
use ringfence_machine::features::Features;
use ringfence_machine::units::Bytes;

use super::*;

struct Ignore;
impl Latencies for Ignore {
    fn count(&self, _: u64) {}
}

fn contents(writer: &Writer) -> Vec<u8> {
    isa::mfence();
    writer.memory().bytes().iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
}

#[test]
fn every_way_of_writing_writes_every_byte_once_round() {
    let mut tried = 0;
    for instruction in Instruction::ALL {
        for width in WidthChoice::ALL {
            for fence in FenceKind::ALL {
                for fence_at in FenceAt::ALL {
                    for (block, line) in
                        [(64, LineState::AsIs), (192, LineState::Warm), (4096, LineState::Cold)]
                    {
                        let task = Write {
                            instruction,
                            width,
                            fence,
                            fence_at,
                            line,
                            block: Bytes(block),
                            size: Bytes(12288),
                            target: match instruction {
                                Instruction::Msync => Target::File(std::env::temp_dir()),
                                _ => Target::Dram,
                            },
                            ..Write::default()
                        };
                        if task.missing(Some(&Features::detect())).is_some() {
                            continue;
                        }
                        let mut writer = Writer::new(&task, 1, &mut Regions::default()).unwrap();
                        let blocks = 12288 / block;
                        let work = writer.work(blocks - 1, &Ignore);
                        assert_eq!(work.units, (blocks - 1) * block / 64, "{task:?}");
                        let written = (blocks - 1) * block;
                        let all = contents(&writer);
                        assert!(all[..written as usize].iter().all(|byte| *byte != 0), "{task:?}");
                        assert!(all[written as usize..].iter().all(|byte| *byte == 0), "{task:?}");
                        assert_eq!(all[70 % block as usize], (70 % block % 251) as u8 + 1);
                        writer.work(2, &Ignore);
                        assert!(
                            contents(&writer)[..12288].iter().all(|byte| *byte != 0),
                            "{task:?}"
                        );
                        tried += 1;
                    }
                }
            }
        }
    }
    // Whatever the processor: `auto`, `sse2` and `movsb` with plain stores and `clflush`, and more.
    assert!(tried >= 3 * 2 * 4 * 4 * 3 - 3 * 4 * 2, "{tried}");
}

#[test]
fn random_blocks_cover_the_target_and_stay_inside() {
    let task = Write {
        pattern: Pattern::Random,
        block: Bytes(64),
        size: Bytes(64 * 100),
        instruction: Instruction::None,
        ..Write::default()
    };
    let mut writer = Writer::new(&task, 3, &mut Regions::default()).unwrap();
    writer.work(3000, &Ignore);
    let all = contents(&writer);
    let written = (0..100).filter(|line| all[line * 64] != 0).count();
    assert_eq!(written, 100);
    assert!(all[6400..].iter().all(|byte| *byte == 0));
}

#[test]
fn writers_to_one_target_share_its_mapping() {
    let mut regions = Regions::default();
    let first = Writer::new(&Write::default(), 1, &mut regions).unwrap();
    let same = Write { instruction: Instruction::Nt, ..Write::default() };
    let other = Write { size: Bytes::mib(1), ..Write::default() };
    let second = Writer::new(&same, 1, &mut regions).unwrap();
    let third = Writer::new(&other, 1, &mut regions).unwrap();
    assert!(Rc::ptr_eq(first.memory(), second.memory()));
    assert_eq!(first.memory().region().base(), second.memory().region().base());
    assert_ne!(first.memory().region().base(), third.memory().region().base());
}

#[test]
fn without_prefaulting_every_pass_meets_fresh_pages() {
    for target in [Target::Dram, Target::Tmpfs("/dev/shm".into())] {
        let task = Write {
            prefault: false,
            size: Bytes::kib(64),
            instruction: Instruction::None,
            target,
            ..Write::default()
        };
        let mut writer = Writer::new(&task, 1, &mut Regions::default()).unwrap();
        let written = |writer: &Writer| {
            contents(writer).iter().step_by(4096).filter(|byte| **byte != 0).count()
        };
        assert_eq!(written(&writer), 0);
        // Sixteen blocks make a pass; the pages are given back at its end, untimed.
        assert_eq!(writer.work(10, &Ignore), Work { units: 640, untimed: 0 });
        assert_eq!(written(&writer), 10);
        let around = writer.work(9, &Ignore);
        assert!(around.units == 576 && around.untimed > 0, "{around:?}");
        assert_eq!(written(&writer), 3);
        writer.resumed();
        assert_eq!(written(&writer), 0);
        assert_eq!(writer.work(1, &Ignore).untimed, 0);
        assert_eq!(written(&writer), 1);
    }
}
