//! What may stand in `schemata`.

use super::*;

#[test]
fn masks_are_checked_in_the_kernels_order() {
    let bench = Bench::new(Hardware::broadwell());
    let group = bench.make("a");
    for (text, words) in [
        ("L3:0=0", "Mask out of range"),
        ("L3:0=100000", "Mask out of range"),
        ("L3:0=5", "The mask 5 has non-consecutive 1-bits"),
        ("MB:0=5", "MB value 5 out of range [10,100]"),
        ("MB:0=101", "MB value 101 out of range [10,100]"),
        ("L2:0=1", "Unknown or unsupported resource name 'L2'"),
        // An unknown cache is refused without a word.
        ("L3:7=1", ""),
    ] {
        refused(set(&group, text), EINVAL, words);
    }
    for (text, words) in [
        ("L3:0=xyz\n", "Non-hex character in the mask xyz\n"),
        ("L3:0=\n", "Non-hex character in the mask \n"),
        ("L3:0=1;0=2\n", "Duplicate domain 0\n"),
        ("L3:=1\n", "Missing '=' or non-numeric domain\n"),
        ("L3:0\n", "Missing '=' or non-numeric domain\n"),
        ("L3:\n", "Missing 'L3' value\n"),
        ("L3\n", "Missing ':'\n"),
        ("MB:0=ten\n", "Invalid MB value ten\n"),
    ] {
        assert_eq!(bench.write("a/schemata", text), Err((EINVAL, words.into())), "{text:?}");
    }
    // Without a newline nothing is even looked at.
    assert_eq!(bench.write("a/schemata", "L3:0=1"), Err((EINVAL, "Invalid MB value ten\n".into())));
    // All or nothing, and prefix and spaces are taken.
    assert!(bench.write("a/schemata", "L3:0=f\nL3:0=5\n").is_err());
    assert_eq!(group.schemata().unwrap().mask(&Resource::L3, 0), Some(Mask(0xfffff)));
    bench.write("a/schemata", "  L3:0= 0xf0 \nMB:0=41;\n").unwrap();
    assert_eq!(bench.schemata("a"), "MB:0=   50\nL3:0=000f0\n");
    let two = CacheSpec { min_bits: 2, ..CacheSpec::plain(20, 1 << 20, 4) };
    let haswell = Bench::new(Hardware { l3: Some(two), ..Hardware::broadwell() });
    refused(set(&haswell.make("a"), "L3:0=1"), EINVAL, "Need at least 2 bits in the mask");
    let epyc = Bench::new(Hardware::epyc());
    set(&epyc.make("a"), "L3:0=5;1=0\nMB:0=7;1=2048").unwrap();
    assert_eq!(epyc.schemata("a"), "MB:0=   7;1=2048\nL3:0=0005;1=0000\n");
}

#[test]
fn a_new_group_gets_what_is_unused_or_shared() {
    let bench = Bench::new(Hardware::broadwell());
    set(&bench.fs.default_group(), "L3:0=ff").unwrap();
    let a = bench.make("a");
    assert_eq!(bench.schemata("a"), "MB:0=  100\nL3:0=fffff\n");
    set(&a, "L3:0=f00").unwrap();
    a.set_mode(Mode::Exclusive).unwrap();
    // The first run of bits alone: those behind the exclusive ones are left out.
    bench.make("b");
    assert_eq!(bench.schemata("b"), "MB:0=  100\nL3:0=000ff\n");
    refused(set(&bench.group("b"), "L3:0=100"), EINVAL, "Overlaps with exclusive group");
    refused(set(&a, "L3:0=f80"), EINVAL, "Overlaps with other group");
    let usage = &bench.fs.info().unwrap().caches["L3"].bit_usage[&0];
    assert_eq!(usage.0, "00000000EEEESSSSSSSS");
    refused(bench.group("b").set_mode(Mode::Exclusive), EINVAL, "Schemata overlaps");
    a.set_mode(Mode::Shareable).unwrap();
    set(&a, "L3:0=fff00").unwrap();
    bench.group("b").remove().unwrap();
    a.set_mode(Mode::Exclusive).unwrap();
    bench.fs.default_group().set_mode(Mode::Exclusive).unwrap();
    refused(bench.group("c").create(), ENOSPC, "No space on L3:0");
    assert!(!bench.group("c").exists());
}

#[test]
fn ways_of_devices_are_never_exclusive() {
    let bench = Bench::new(Hardware::cascade_lake());
    let default = bench.fs.default_group();
    set(&default, "L3:0=1;1=1").unwrap();
    let group = bench.make("a");
    set(&group, "L3:0=700;1=100").unwrap();
    refused(group.set_mode(Mode::Exclusive), EINVAL, "Schemata overlaps");
    set(&group, "L3:0=100").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    refused(set(&group, "L3:0=300"), EINVAL, "Overlaps with other group");
    assert_eq!(bench.fs.info().unwrap().caches["L3"].bit_usage[&1].0, "HHE0000000S");
}

#[test]
fn code_and_data_stand_in_each_others_way() {
    let bench = Bench::new(Hardware::broadwell().with_cdp());
    set(&bench.fs.default_group(), "L3DATA:0=ff\nL3CODE:0=ff").unwrap();
    let group = bench.make("a");
    set(&group, "L3DATA:0=f00\nL3CODE:0=f").unwrap();
    refused(group.set_mode(Mode::Exclusive), EINVAL, "Schemata overlaps");
    set(&group, "L3DATA:0=f00\nL3CODE:0=f000").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    let other = bench.make("b");
    assert_eq!(bench.schemata("b"), "    MB:0=  100\nL3DATA:0=000ff\nL3CODE:0=000ff\n");
    refused(set(&other, "L3DATA:0=f000"), EINVAL, "Overlaps with exclusive group");
    refused(other.set_mode(Mode::PseudoLocksetup), EINVAL, "CDP enabled");
}

#[test]
fn bandwidth_in_megabytes_takes_effect_at_once() {
    let bench = Bench::new(Hardware::broadwell().with_mbps());
    assert_eq!(bench.schemata(""), "MB:0=4294967295\nL3:0=fffff\n");
    let group = bench.make("a");
    refused(set(&group, "L3:0=5\nMB:0=700"), EINVAL, "The mask 5 has non-consecutive 1-bits");
    assert_eq!(group.schemata().unwrap().amount(&Resource::Mb, 0), Some(4294967295));
    // As the kernel has it: an amount before the mistake has taken effect.
    assert!(bench.write("a/schemata", "MB:0=700\nL3:0=5\n").is_err());
    assert_eq!(group.schemata().unwrap().amount(&Resource::Mb, 0), Some(700));
}
