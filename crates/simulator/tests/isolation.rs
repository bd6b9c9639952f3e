//! What arms set in resctrl, and regions that are locked into a cache, on described machines.

mod support;

use ringfence_experiment::Experiment;
use ringfence_experiment::sample::Sample;
use ringfence_experiment::units::Span;
use ringfence_simulator::{Description, plan};
use support::{ALONE, BESIDE, experiment, machine, near, ns, run};

// A laptop whose last level is small, so that it fills soon, and has classes. By LRU what it holds
// does not depend on what ran before.
fn with_classes(processor: &str) -> Description {
    let sources = "[sources]\n\"processor.classes\" = \"planted\"\n";
    machine(
        "laptop",
        &[
            ("bandwidth_control = false\n", processor),
            ("size_kib = 1280\nways = 20", "size_kib = 80\nways = 20"),
            (
                "size_kib = 12288\nways = 12\nlatency_ns = 11.0\nreplacement = \"drrip\"",
                "size_kib = 768\nways = 12\nlatency_ns = 11.0\nreplacement = \"lru\"",
            ),
            ("[sources]\n", sources),
        ],
    )
}

const CLASSES: &str = "classes = 4\nbandwidth_control = true\n";
// Half of the last level, in eight times what the second holds.
const SMALL: &str =
    "name = 'victim'\ntask = { workload = 'chase', footprint = '384KiB' }\ncpus = '0'";
const STREAM: &str = "name = 'other'\ntask = { workload = 'stream', size = '16MiB' }\ncpus = '1'";

// Beside the stream as it is, and with what each table says; after which nothing is set again.
fn isolated(tables: &[&str]) -> String {
    let arm = |(number, table): (usize, &&str)| {
        format!(
            "[[arm]]\nname = 'set {number}'\nactive = ['victim', 'other']\nbaseline = \
             'alone'\nresctrl = {{ {table} }}\n"
        )
    };
    format!("{ALONE}{BESIDE}{}", tables.iter().enumerate().map(arm).collect::<String>())
}

fn units(samples: &[Sample], case: u32, role: &str) -> f64 {
    let of_role = || samples.iter().filter(|sample| sample.case == case && &*sample.role == role);
    of_role().map(|sample| sample.units).sum::<u64>() as f64
        / of_role().map(|sample| sample.busy_ns).sum::<u64>() as f64
}

#[test]
fn ways_of_its_own_bring_a_victim_back_and_all_ways_do_nothing() {
    let laptop = with_classes(CLASSES);
    let arms = isolated(&[
        "victim = 'L3:0=0ff', other = 'L3:0=f00'",
        "victim = 'L3:0=fff', other = 'L3:0=fff'",
    ]);
    let samples = run(&laptop, &experiment(&[SMALL, STREAM], &arms));
    let [alone, beside, apart, all] = [0, 1, 2, 3].map(|case| ns(&samples, case));
    assert!(beside > 1.5 * alone, "{beside} beside, {alone} alone");
    // Eight of twelve ways are 512 KiB.
    assert!(
        apart - alone < 0.1 * (beside - alone),
        "{apart} apart, {beside} beside, {alone} alone"
    );
    near(all, beside, 0.05);
}

#[test]
fn full_masks_are_as_no_classes() {
    let laptop = with_classes(CLASSES);
    let arms = |table: &str| {
        let sets =
            if table.is_empty() { String::new() } else { format!("resctrl = {{ {table} }}\n") };
        format!(
            "{ALONE}[[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = \
             'alone'\n{sets}"
        )
    };
    let figures = |table: &str| run(&laptop, &experiment(&[SMALL, STREAM], &arms(table)));
    let without = figures("");
    assert_eq!(without, figures("victim = 'L3:0=fff', '/' = \"L3:0=fff\\nMB:0=100\""));
}

#[test]
fn a_limit_slows_whom_it_limits_and_relieves_the_victim() {
    let intel = with_classes(CLASSES);
    let samples = run(
        &intel,
        &experiment(&[SMALL, STREAM], &isolated(&["other = 'MB:0=45'", "other = 'MB:0=10'"])),
    );
    let stream = [1, 2, 3].map(|case| units(&samples, case, "other"));
    // Amounts are rounded up to steps: 45 % are 50 %. A line in so many ns, by what the description
    // says of DRAM.
    let lines_per_ns = f64::from(intel.parts.core.fill_buffers) / intel.scale().miss_ns;
    let bytes = |share: f64| share * lines_per_ns * 64.0;
    let rate = |case: u32| {
        let of_it = samples.iter().filter(|sample| sample.case == case && &*sample.role == "other");
        let (bytes, ns) =
            of_it.fold((0, 0), |(bytes, ns), one| (bytes + one.units, ns + one.length_ns));
        bytes as f64 / ns as f64
    };
    near(rate(3), bytes(0.1), 0.02);
    assert!(
        rate(2) <= bytes(0.5) * 1.001 && rate(2) >= 0.9 * bytes(0.5).min(rate(1)),
        "{} {}",
        rate(2),
        rate(1)
    );
    assert!(stream[0] >= stream[1] && stream[1] > stream[2], "{stream:?}");
    let [beside, gentle] = [1, 3].map(|case| ns(&samples, case));
    assert!(gentle < 0.5 * beside, "{gentle} limited, {beside} beside");
}

#[test]
fn amds_limit_is_of_what_a_cache_reads_from_memory() {
    let epyc = machine("zen3-epyc", &[]);
    let roles = [
        "name = 'victim'\ntask = { workload = 'stream', size = '128MiB' }\ncpus = '0'",
        "name = 'other'\ntask = { workload = 'chase', footprint = '4MiB' }\ncpus = '1'",
    ];
    // Eight eighths of a GB/s, as resctrl counts them.
    let arms = format!(
        "{ALONE}[[arm]]\nname = 'limited'\nactive = ['victim', 'other']\nbaseline = \
         'alone'\nresctrl = {{ victim = 'MB:0=8', other = 'MB:0=8' }}\n"
    );
    let samples = run(&epyc, &experiment(&roles, &arms));
    let of_case = |role: &str, case: u32| {
        let of_it =
            samples.iter().filter(move |sample| sample.case == case && &*sample.role == role);
        of_it.fold((0, 0), |(units, ns), one| (units + one.units, ns + one.length_ns))
    };
    let bytes = samples
        .iter()
        .filter(|one| one.case == 1 && &*one.role == "victim")
        .map(|one| one.units)
        .sum::<u64>();
    near(bytes as f64 / of_case("victim", 1).1 as f64, f64::from(1 << 30) / 1e9, 0.02);
    // What the cache answers is not limited: a load takes what the last level takes.
    let (loads, ns) = of_case("other", 1);
    assert!((ns as f64 / loads as f64) < 2.0 * epyc.parts.llc.latency_ns, "{loads} in {ns} ns");
}

#[test]
fn what_a_machine_does_not_share_out_is_not_run() {
    let why = |description: &Description, table: &str| {
        let experiment = experiment(&[SMALL, STREAM], &isolated(&[table]));
        let plan = plan(&experiment, description, &description.machine()).unwrap();
        plan.not_run.first().map(|not_run| not_run.reason.to_string()).unwrap_or_default()
    };
    let none = machine("laptop", &[]);
    assert!(
        why(&none, "victim = 'L3:0=f'").contains("no RDT"),
        "{}",
        why(&none, "victim = 'L3:0=f'")
    );
    let ways = with_classes("classes = 2\nbandwidth_control = false\n");
    assert_eq!(why(&ways, "victim = 'L3:0=f'"), "");
    for (table, part) in [
        ("victim = 'MB:0=50'", "cannot allocate MB:0, only L3:0=fff"),
        ("victim = 'L2:0=f'", "cannot allocate L2:0"),
        ("victim = 'L3CODE:0=f'", "cannot allocate L3CODE:0"),
        ("victim = 'L3:1=f'", "cannot allocate L3:1"),
        ("victim = 'L3:0=1fff'", "has bits beyond fff"),
        ("victim = 'L3:0=f0f'", "has gaps"),
        (
            "victim = 'L3:0=f', other = 'L3:0=ff0'",
            "takes 3 groups, and the described processor has 2",
        ),
        ("'/web' = 'L3:0=f'", "no group 'web'"),
    ] {
        assert!(why(&ways, table).contains(part), "{table}: {}", why(&ways, table));
    }
    let limits = with_classes(CLASSES);
    assert!(why(&limits, "other = 'MB:0=5'").contains("is not from 10 to 100"));
}

// With ways of the second level to share out: 20 of them in 80 KiB, 4 KiB each.
fn with_second(processor: &str) -> Description {
    let planted =
        ["l2_classes", "cdp"].map(|key| (key, format!("\"processor.{key}\" = \"planted\"\n")));
    let sources: String = planted
        .iter()
        .filter(|(key, _)| processor.contains(key))
        .map(|(_, source)| source.as_str())
        .collect();
    let mut text =
        with_classes(&format!("classes = 8\nbandwidth_control = true\n{processor}")).text;
    text = text.replacen("[sources]\n", &format!("[sources]\n{sources}"), 1);
    // By LRU, a chase through more than its ways hold finds nothing again.
    let (before, l2) = text.split_once("[l2]\n").unwrap();
    text = format!(
        "{before}[l2]\n{}",
        l2.replacen("replacement = \"drrip\"", "replacement = \"lru\"", 1)
    );
    Description::parse(&text).unwrap()
}

// 56 KiB, more than the first level has; beside it the sibling's stream, or that of the next core.
const IN_SECOND: &str =
    "name = 'victim'\ntask = { workload = 'chase', footprint = '56KiB' }\ncpus = '0'";

#[test]
fn ways_of_the_second_level_bring_a_victim_back_beside_its_sibling() {
    let machine = with_second("l2_classes = 4\n");
    let sibling = machine.machine().topology.cpus[0].siblings.iter().next().unwrap();
    let stream = format!(
        "name = 'other'\ntask = {{ workload = 'stream', size = '16MiB' }}\ncpus = '{sibling}'"
    );
    let arms = isolated(&[
        "victim = 'L2:0=0ffff', other = 'L2:0=f0000'",
        "victim = 'L2:0=fffff', other = 'L2:0=fffff'",
        "victim = 'L2:0=000ff', other = 'L2:0=fff00'",
        // The sibling's core is the victim's: of other cores' caches these masks say nothing.
        "victim = 'L2:1=00001', other = 'L2:1=f0000'",
    ]);
    let samples = run(&machine, &experiment(&[IN_SECOND, &stream], &arms));
    let [alone, beside, apart, all, narrow, elsewhere] =
        [0, 1, 2, 3, 4, 5].map(|case| ns(&samples, case));
    let figures = format!(
        "{alone} alone, {beside} beside, {apart} apart, {narrow} in half, {elsewhere} elsewhere"
    );
    // Ports and fill buffers stay shared: a quarter of the harm is left at most.
    assert!(beside > 2.0 * alone && apart - alone < 0.25 * (beside - alone), "{figures}");
    near(all, beside, 0.05);
    // 32 KiB do not hold it; what the last level has of it then depends on what ran before.
    assert!(narrow > 1.5 * apart && elsewhere > 1.5 * apart, "{figures}");
}

#[test]
fn the_second_level_of_another_core_has_nothing_to_protect_from() {
    let machine = with_second("l2_classes = 4\n");
    let arms = isolated(&["victim = 'L2:0=0ffff', other = 'L2:1=00001'"]);
    let samples = run(&machine, &experiment(&[IN_SECOND, STREAM], &arms));
    let [alone, beside, apart] = [0, 1, 2].map(|case| ns(&samples, case));
    near(beside, alone, 0.05);
    near(apart, alone, 0.05);
}

#[test]
fn full_masks_of_the_second_level_are_as_no_classes() {
    let machine = with_second("l2_classes = 4\ncdp = [\"l2\", \"l3\"]\n");
    let arms = |table: &str| {
        let sets =
            if table.is_empty() { String::new() } else { format!("resctrl = {{ {table} }}\n") };
        format!(
            "{ALONE}[[arm]]\nname = 'beside'\nactive = ['victim', 'other']\nbaseline = \
             'alone'\n{sets}"
        )
    };
    let figures = |table: &str| run(&machine, &experiment(&[IN_SECOND, STREAM], &arms(table)));
    let without = figures("");
    assert_eq!(without, figures("victim = \"L2:0=fffff\\nL3:0=fff\", '/' = 'L2:1=fffff'"));
    assert_eq!(
        without,
        figures("victim = \"L2CODE:0=00001\\nL2DATA:0=fffff\\nL3CODE:0=1\\nL3DATA:0=fff\"")
    );
}

#[test]
fn masks_for_data_hold_for_all_accesses_and_the_plan_says_so() {
    let machine = with_second("cdp = [\"l3\"]\n");
    let laptop = with_classes(CLASSES);
    let tables = |one: &str, other: &str| {
        isolated(&[&format!("victim = '{one}:0=0ff', other = '{other}:0=f00'")])
    };
    // Nothing but the second level's replacement sets the two machines apart.
    let whole = experiment(&[SMALL, STREAM], &tables("L3", "L3"));
    let [alone, beside, apart] = [0, 1, 2].map(|case| ns(&run(&machine, &whole), case));
    assert!(
        apart - alone < 0.1 * (beside - alone),
        "{apart} apart, {beside} beside, {alone} alone"
    );
    let data = experiment(&[SMALL, STREAM], &tables("L3DATA", "L3DATA"));
    assert_eq!(run(&machine, &data), run(&machine, &whole));
    let code = experiment(&[SMALL, STREAM], &tables("L3CODE", "L3CODE"));
    near(ns(&run(&machine, &code), 2), beside, 0.05);
    let planned = |experiment: &Experiment| plan(experiment, &machine, &machine.machine()).unwrap();
    let notes = planned(&code).placed.notes;
    assert!(notes.iter().any(|note| note.contains("those of L3CODE change nothing")), "{notes:?}");
    assert!(planned(&whole).placed.notes.iter().all(|note| !note.contains("CODE")));
    // A machine without it has no such masks, and a mount with it no others.
    let none = plan(&data, &laptop, &laptop.machine()).unwrap();
    assert!(none.not_run[0].reason.contains("cannot allocate L3DATA:0"), "{:?}", none.not_run);
    assert!(none.placed.notes.iter().all(|note| !note.contains("CODE")));
    let both = isolated(&["victim = 'L3:0=0ff'", "victim = 'L3DATA:0=0ff'"]);
    let refused = planned(&experiment(&[SMALL, STREAM], &both)).not_run;
    assert!(
        refused.len() == 1 && refused[0].reason.contains("set L3CODE and L3DATA"),
        "{refused:?}"
    );
    // Two masks for each of half as many groups.
    let many = isolated(&["victim = 'L3DATA:0=0ff', other = 'L3DATA:0=f00'"]);
    let few = with_second("cdp = [\"l3\"]\n").text.replace("classes = 8", "classes = 5");
    let few = Description::parse(&few).unwrap();
    let refused = plan(&experiment(&[SMALL, STREAM], &many), &few, &few.machine()).unwrap().not_run;
    assert!(
        refused[0].reason.contains("takes 3 groups, and the described processor has 2"),
        "{refused:?}"
    );
}

#[test]
fn what_has_no_model_is_not_run() {
    let laptop = machine("laptop", &[]);
    for (table, why) in [
        ("cpu_weight = { other = 10 }", "scheduling is not"),
        ("disk_write = { other = '5MiB/s' }", "files and disks are not"),
        ("disk_weight = { other = 10 }", "disk_weight is not simulated"),
        ("memory_high = { other = '8MiB' }", "memory_high is not simulated"),
        ("system = { 'vda/scheduler' = 'none' }", "system is not simulated"),
        (
            "io_priority = { other = 'idle' }",
            "io_priority is not simulated, since files and disks are not",
        ),
    ] {
        let arm = format!(
            "[[arm]]\nname = 'set'\nactive = ['victim', 'other']\nbaseline = 'alone'\n{table}\n"
        );
        let experiment = experiment(&[SMALL, STREAM], &format!("{ALONE}{BESIDE}{arm}"));
        let refused = plan(&experiment, &laptop, &laptop.machine()).unwrap().not_run;
        assert!(refused.len() == 1 && refused[0].reason.contains(why), "{table}: {refused:?}");
    }
}

#[test]
fn many_cores_with_the_same_masks_are_one_class() {
    let epyc = machine("sapphire-rapids-cxl", &[]);
    let masks: Vec<String> = (1..31).map(|core| format!("{core}=000f")).collect();
    let arms = isolated(&[&format!("victim = 'L2:0=fff0', other = 'L2:{}'", masks.join(";"))]);
    let other =
        "name = 'other'\ntask = { workload = 'stream', size = '1MiB' }\ncpus = '1-30'\ncount = 30";
    let planned =
        |arms: &str| plan(&experiment(&[IN_SECOND, other], arms), &epyc, &epyc.machine()).unwrap();
    assert!(planned(&arms).not_run.is_empty(), "{:?}", planned(&arms).not_run);
    // A mask of its own for each is more than are simulated.
    let masks: Vec<String> =
        (1..31).map(|core| format!("{core}={:x}", (1 << (core % 16 + 1)) - 1)).collect();
    let arms = isolated(&[&format!("other = 'L2:{}'", masks.join(";"))]);
    let refused = planned(&arms).not_run;
    assert!(refused[0].reason.contains("classes of service"), "{refused:?}");
}

// The kernel's pseudo-locking patches, small: reads of 256 KiB after pauses, alone and with noise.
const READER: &str = "name = 'victim'\ncpus = '0'\ntask = \
                      { workload = 'read', size = '256KiB', access = '64B', interval = '8ms' }";
const NOISE: &str = "name = 'other'\ncpus = '1'\ntask = { workload = 'stream', size = '16MiB' }";
const LOCKED: &str = "memory = 'locked:/dev/pseudo_lock/one'";

// Idle, beside noise, and flushed before each pause; of ordinary memory and of a locked region.
fn rows() -> String {
    let rows = [("malloc", "memory = 'malloc'"), ("locked", LOCKED)];
    let conditions = [
        ("", "'victim'", ""),
        (" noise", "'victim', 'other'", ""),
        (" flush", "'victim'", ", flush = 'clflush', dirty = true"),
    ];
    let arm = |(row, memory): (&str, &str), (name, active, more): (&str, &str, &str)| {
        let baseline =
            if name.is_empty() { String::new() } else { format!("baseline = '{row}'\n") };
        format!(
            "[[arm]]\nname = '{row}{name}'\nactive = [{active}]\n{baseline}set.victim = {{ \
             {memory}{more} }}\n"
        )
    };
    rows.iter().flat_map(|row| conditions.map(|condition| arm(*row, condition))).collect()
}

// A round under the arm's own conditions lies before each window: what others left is not its own.
fn reads(arms: &str) -> Experiment {
    let mut experiment = experiment(&[READER, NOISE], arms);
    (experiment.measure.window, experiment.measure.settle) = (Span::ms(40), Span::ms(40));
    experiment
}

// The last level of these processors that the kernel locks regions into; that of the larger one
// made smaller.
fn lockable() -> [Description; 2] {
    let larger = machine("broadwell-x", &[("size_kib = 56320", "size_kib = 1280")]);
    [machine("goldmont-j3455", &[]), larger]
}

#[test]
fn a_locked_region_keeps_its_lines_beside_noise_and_loses_them_to_a_flush() {
    for machine in lockable() {
        let samples = run(&machine, &reads(&rows()));
        let [malloc, noise, flushed, locked, locked_noise, locked_flushed] =
            [0, 1, 2, 3, 4, 5].map(|case| ns(&samples, case));
        let all = format!(
            "{}: malloc {malloc}, {noise}, {flushed}; locked {locked}, {locked_noise}, \
             {locked_flushed}",
            machine.name
        );
        assert!(noise > 1.5 * malloc, "{all}");
        assert!(locked_noise < 1.1 * locked && locked < 1.1 * malloc, "{all}");
        assert!(locked_flushed > 1.5 * locked && flushed > 1.5 * malloc, "{all}");
    }
}

#[test]
fn a_region_takes_ways_from_everybody_and_only_where_the_kernel_locks_any() {
    let why = |description: &Description, arms: &str| {
        let plan = plan(&reads(arms), description, &description.machine()).unwrap();
        let reasons: Vec<String> =
            plan.not_run.iter().map(|not_run| not_run.reason.to_string()).collect();
        reasons.join("|")
    };
    assert!(why(&machine("laptop", &[]), &rows()).contains("does not lock regions"));
    let [small, _] = lockable();
    let arm = |table: &str| {
        format!(
            "{ALONE}[[arm]]\nname = 'locked'\nactive = ['victim', 'other']\nbaseline = \
             'alone'\nset.victim = {{ {LOCKED} }}\nresctrl = {{ {table} }}\n"
        )
    };
    assert_eq!(why(&small, &arm("victim = 'L2:0=fc'")), "");
    assert!(why(&small, &arm("victim = 'L2:0=0f'")).contains("a locked region takes"));
    let large = arm("victim = 'L2:0=fc'").replace(LOCKED, &format!("{LOCKED}, size = '1MiB'"));
    assert!(why(&small, &large).contains("would take all 8 parts"));
    // Of what is left, resctrl shows no more.
    let offered = small.offered_beside_region(256 << 10, 0).unwrap();
    assert_eq!(offered.default.to_string().trim(), "L2:0=fc;1=ff");
    assert_eq!(offered.info.caches["L2"].bit_usage[&0].0, "SSSSSSPP");
}

#[test]
fn readers_of_one_device_read_one_region_from_its_beginning() {
    // Sizes that take turns keep their lines: the largest is what is locked.
    let arms = "[[arm]]\nname = 'idle'\nactive = ['victim']\n[[arm]]\nname = 'noise'\nactive = \
                ['victim', 'other']\nbaseline = 'idle'\n";
    let victim = format!(
        "name = 'victim'\ncpus = '0'\n[role.task]\nworkload = 'read'\nsize = ['128KiB', '512KiB', \
         '896KiB']\naccess = '64B'\ninterval = '8ms'\n{LOCKED}"
    );
    let mut experiment = experiment(&[&victim, NOISE], arms);
    (experiment.measure.window, experiment.measure.settle) = (Span::ms(40), Span::ms(40));
    let [goldmont, _] = lockable();
    let samples = run(&goldmont, &experiment);
    let hit = goldmont.parts.llc.latency_ns;
    for case in 0..6 {
        let found = ns(&samples, case);
        assert!(found < 1.2 * hit, "case {case}: {found}, where a hit takes {hit}");
    }
}
