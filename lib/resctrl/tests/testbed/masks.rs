//! Masks, amounts and modes that are refused, and those that are not.

use libc::EINVAL;
use ringfence_resctrl::{Mask, Mode, Resource, Schemata};

use crate::env::{Env, refused, set};

/// The cache that is shared out here.
fn cache(env: &dyn Env) -> (Resource, u32) {
    let info = env.fs().info().unwrap();
    let (name, cache) = info.caches.first_key_value().unwrap();
    (Resource::of(name), cache.cbm_mask.count())
}

pub fn a_mask_of_no_way(env: &dyn Env) {
    let (resource, _) = cache(env);
    let group = env.make("a");
    let tried = format!("writing '{resource}:0=0' to /sys/fs/resctrl/a/schemata");
    refused(
        set(&group, &format!("{resource}:0=0")),
        &tried,
        EINVAL,
        "Mask out of range",
        "at least one bit",
    );
    group.remove().unwrap();
}

pub fn a_mask_that_is_too_large(env: &dyn Env) {
    let group = env.make("a");
    refused(set(&group, "L3:0=1fffff"), "L3:0=1fffff", EINVAL, "Mask out of range", "cbm_mask");
    group.remove().unwrap();
}

pub fn a_mask_with_a_gap(env: &dyn Env) {
    let group = env.make("a");
    let words = "The mask 5 has non-consecutive 1-bits";
    refused(set(&group, "L3:0=5"), "writing 'L3:0=5'", EINVAL, words, "adjacent ways");
    group.remove().unwrap();
}

pub fn a_resource_that_is_not_there(env: &dyn Env) {
    let words = "Unknown or unsupported resource name 'L2'";
    refused(
        set(&env.group(""), "L2:0=1"),
        "L2:0=1",
        EINVAL,
        words,
        "that the group's schemata lists",
    );
}

pub fn a_cache_that_is_not_there(env: &dyn Env) {
    // The kernel has no words for it.
    refused(
        set(&env.group(""), "L3:9=1"),
        "L3:9=1",
        EINVAL,
        "",
        "schemata lists for that resource",
    );
}

pub fn a_bandwidth_out_of_range(env: &dyn Env) {
    let group = env.make("a");
    for amount in [0, 9, 101] {
        let words = format!("MB value {amount} out of range [10,100]");
        refused(
            set(&group, &format!("MB:0={amount}")),
            "writing 'MB:0=",
            EINVAL,
            &words,
            "within the range",
        );
    }
    group.remove().unwrap();
}

pub fn a_bandwidth_is_rounded_up(env: &dyn Env) {
    let group = env.make("a");
    let found = group.set_schemata_checked(&"MB:0=41".parse().unwrap()).unwrap();
    assert_eq!(found.amount(&Resource::Mb, 0), Some(50));
    group.remove().unwrap();
}

pub fn texts_that_this_library_does_not_write(env: &dyn Env) {
    let group = env.make("a");
    for (text, words) in [
        ("L3:0=1;0=2\n", "Duplicate domain 0"),
        ("L3:0=xyz\n", "Non-hex character in the mask xyz"),
        ("L3:0=\n", "Non-hex character in the mask"),
        ("L3:x=1\n", "Missing '=' or non-numeric domain"),
        ("L3:0\n", "Missing '=' or non-numeric domain"),
        ("L3:\n", "Missing 'L3' value"),
        ("L3\n", "Missing ':'"),
        ("\n", "Missing ':'"),
        ("MB:0=ten\n", "Invalid MB value ten"),
    ] {
        assert_eq!(env.write("a/schemata", text), Err((EINVAL, Some(words.into()))), "{text:?}");
        // Nor does it read them, so that a user is told before the kernel is asked; but an empty
        // one.
        assert!(text == "\n" || text.parse::<Schemata>().is_err(), "{text:?}");
    }
    // Without a newline the kernel looks at nothing, and leaves the status of before: this library
    // writes one.
    let before = env.fs().last_status();
    assert_eq!(env.write("a/schemata", "L3:0=1"), Err((EINVAL, before)));
    set(&group, "L3:0=1").unwrap();
    group.remove().unwrap();
}

pub fn all_lines_or_none(env: &dyn Env) {
    let group = env.make("a");
    let before = group.schemata().unwrap();
    let words = "Mask out of range";
    refused(set(&group, "L3:0=0\nMB:0=50"), "writing 'L3:0=0 MB:0=50'", EINVAL, words, "cbm_mask");
    assert!(env.write("a/schemata", "MB:0=50\nL3:0=0\n").is_err());
    assert_eq!(group.schemata().unwrap(), before);
    group.remove().unwrap();
}

pub fn overlap_with_an_exclusive_group(env: &dyn Env) {
    let default = env.group("");
    set(&default, "L3:0=fff00").unwrap();
    let group = env.make("a");
    set(&group, "L3:0=f").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    let words = "Overlaps with exclusive group";
    refused(
        set(&default, "L3:0=ffff8"),
        "/sys/fs/resctrl/schemata",
        EINVAL,
        words,
        "marks those with E",
    );
    set(&default, "L3:0=ffff0").unwrap();
    group.remove().unwrap();
    set(&default, "L3:0=fffff").unwrap();
}

pub fn exclusive_while_overlapping(env: &dyn Env) {
    let group = env.make("a");
    let tried = "writing 'exclusive' to /sys/fs/resctrl/a/mode";
    refused(
        group.set_mode(Mode::Exclusive),
        tried,
        EINVAL,
        "Schemata overlaps",
        "from every other group first",
    );
    assert_eq!(group.mode().unwrap(), Some(Mode::Shareable));
    group.remove().unwrap();
}

pub fn exclusive_on_ways_of_devices(env: &dyn Env) {
    let (default, info) = (env.group(""), env.fs().info().unwrap());
    let cache = &info.caches["L3"];
    set(&default, "L3:0=1").unwrap();
    let group = env.make("a");
    set(&group, &format!("L3:0={}", cache.shareable_bits)).unwrap();
    refused(
        group.set_mode(Mode::Exclusive),
        "exclusive",
        EINVAL,
        "Schemata overlaps",
        "which devices use",
    );
    group.remove().unwrap();
    set(&default, &format!("L3:0={}", cache.cbm_mask)).unwrap();
}

pub fn an_exclusive_group_that_grows(env: &dyn Env) {
    let default = env.group("");
    set(&default, "L3:0=fff00").unwrap();
    let group = env.make("a");
    set(&group, "L3:0=f").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    set(&group, "L3:0=ff").unwrap();
    let words = "Overlaps with other group";
    refused(
        set(&group, "L3:0=1ff"),
        "writing 'L3:0=1ff'",
        EINVAL,
        words,
        "from every other group first",
    );
    group.remove().unwrap();
    set(&default, "L3:0=fffff").unwrap();
}

pub fn a_new_group_gets_no_exclusive_way(env: &dyn Env) {
    let default = env.group("");
    set(&default, "L3:0=ff").unwrap();
    let group = env.make("a");
    set(&group, "L3:0=f00").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    // Nor those behind the gap that this makes.
    let other = env.make("b");
    assert_eq!(other.schemata().unwrap().mask(&Resource::L3, 0), Some(Mask(0xff)));
    assert_eq!(other.schemata().unwrap().amount(&Resource::Mb, 0), Some(100));
    other.remove().unwrap();
    group.remove().unwrap();
    set(&default, "L3:0=fffff").unwrap();
}

pub fn who_uses_which_way(env: &dyn Env) {
    let usage = || env.fs().info().unwrap().caches["L3"].bit_usage[&0].clone();
    let default = env.group("");
    assert_eq!(usage().0, "XXSSSSSSSSSSSSSSSSSS");
    set(&default, "L3:0=ff").unwrap();
    let group = env.make("a");
    set(&group, "L3:0=f00").unwrap();
    group.set_mode(Mode::Exclusive).unwrap();
    assert_eq!(usage().0, "HH000000EEEESSSSSSSS");
    assert_eq!((usage().ways("E"), usage().ways("0H")), (Mask(0xf00), Mask(0xff000)));
    group.remove().unwrap();
    set(&default, "L3:0=fffff").unwrap();
}

pub fn the_bytes_of_masks(env: &dyn Env) {
    let group = env.make("a");
    set(&group, "L3:0=7\nMB:0=30").unwrap();
    let sizes = group.size().unwrap();
    let amount =
        |resource: Resource| sizes.iter().find(|size| size.resource == resource).unwrap().amount;
    assert_eq!((amount(Resource::L3), amount(Resource::Mb)), (3 << 20, 30));
    group.remove().unwrap();
}

pub fn an_unknown_mode(env: &dyn Env) {
    let group = env.make("a");
    assert_eq!(
        env.write("a/mode", "private\n"),
        Err((EINVAL, Some("Unknown or unsupported mode".into())))
    );
    // What it is already is taken, and clears the status.
    group.set_mode(Mode::Shareable).unwrap();
    assert_eq!(env.fs().last_status(), None);
    // Only the kernel makes a group pseudo-locked.
    let words = "Unknown or unsupported mode";
    refused(
        group.set_mode(Mode::PseudoLocked),
        "writing 'pseudo-locked'",
        EINVAL,
        words,
        "pseudo-locksetup",
    );
    group.remove().unwrap();
}
