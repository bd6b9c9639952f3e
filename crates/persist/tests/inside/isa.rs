use super::*;

#[repr(align(64))]
struct Line([u8; LINE]);

type Copy = unsafe fn(*mut u8, *const u8);

#[test]
fn eight_bytes_are_streamed_and_nothing_else() {
    let mut line = Line([9; LINE]);
    // SAFETY: inside the line, aligned to 8; the fence precedes any read.
    unsafe { stream_u64(line.0.as_mut_ptr().add(8), 0x0102_0304_0506_0708) };
    sfence();
    assert_eq!(line.0[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert!(line.0[..8].iter().chain(&line.0[16..]).all(|byte| *byte == 9));
}

#[test]
fn every_copy_moves_the_whole_line_and_nothing_else() {
    let streams: [Copy; 3] = [stream_sse2, stream_avx2, stream_avx512];
    let copies: [Copy; 3] = [copy_sse2, copy_avx2, copy_avx512];
    let methods = [copies, streams].into_iter().flat_map(|methods| Width::ALL.into_iter().zip(methods));
    let memory: [Line; 2] = [0, 64].map(|start| Line(std::array::from_fn(|i| i as u8 + start)));
    let widths = methods.filter(|(width, _)| has_width(*width));
    for ((width, copy), from) in widths.flat_map(|way| [0, 1, 63].map(|from| (way, from))) {
        let mut to = [const { Line([0; LINE]) }; 3];
        // SAFETY: the target is aligned, both lines of the source are one array, the width exists,
        // and the fence precedes any read.
        unsafe {
            copy(to[1].0.as_mut_ptr(), memory.as_ptr().cast::<u8>().add(from));
            if width != Width::Sse2 {
                vzeroupper();
            }
        }
        sfence();
        assert!(to[1].0.iter().enumerate().all(|(i, byte)| *byte == (from + i) as u8), "{width}");
        assert_eq!((to[0].0, to[2].0), ([0; LINE], [0; LINE]), "{width} wrote beside the line");
    }
}

#[test]
fn movsb_copies_its_bytes_and_no_others() {
    let from: [u8; 200] = std::array::from_fn(|i| i as u8 + 1);
    for (at, len) in [(0, 0), (1, 1), (7, 64), (64, 129)] {
        let mut to = [0u8; 200];
        // SAFETY: both arrays have 200 bytes.
        unsafe { copy_movsb(to.as_mut_ptr().add(at), from.as_ptr(), len) };
        assert_eq!(to[at..at + len], from[..len]);
        assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0), "beside {at}, {len}");
    }
}

#[test]
fn instructions_are_found_by_the_names_they_print() {
    for flush in Flush::ALL {
        assert_eq!(flush.to_string().parse(), Ok(flush));
        assert!(Flush::GENTLEST_FIRST.contains(&flush));
    }
    let error = "clwbx".parse::<Flush>().unwrap_err().to_string();
    assert_eq!(error, "'clwbx' is none of clflush, clflushopt, clwb");
}

#[test]
fn flushing_and_fencing_keep_the_contents() {
    let line = Line([7; LINE]);
    // SAFETY: the line is mapped, and only instructions that exist are run.
    unsafe {
        clflush(line.0.as_ptr());
        if supports(Flush::Clflushopt) {
            clflushopt(line.0.as_ptr());
        }
        if supports(Flush::Clwb) {
            clwb(line.0.as_ptr());
        }
        prefetchw(line.0.as_ptr());
    }
    sfence();
    mfence();
    locked();
    assert_eq!(line.0, [7; LINE]);
}

#[test]
fn detection_agrees_with_the_kernel() {
    let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else {
        return ringfence_testbed::skip("detection_agrees_with_the_kernel", "/proc/cpuinfo cannot be read");
    };
    let flags: Vec<&str> =
        text.lines().find(|l| l.starts_with("flags")).unwrap_or("").split_whitespace().collect();
    for flush in Flush::ALL {
        assert_eq!(supports(flush), flags.contains(&flush.to_string().as_str()), "{flush}");
    }
}
