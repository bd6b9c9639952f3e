//! Machine files: an error names its line, and what is right becomes a
//! machine.

use ringfence_machine::Machine;
use ringfence_simulator::{Description, catalogue};

fn optane() -> String {
    let found =
        catalogue::all().into_iter().find(|description| description.name == "cascade-lake-optane");
    found.unwrap().text
}

// The line of the first occurrence, counted from 1.
fn line(text: &str, what: &str) -> usize {
    1 + text.lines().position(|line| line.contains(what)).unwrap()
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let text = optane();
    for (what, instead, said) in [
        ("store_buffer = 56", "store_buffer = 0", "core.store_buffer is 0"),
        ("store_buffer = 56", "store_bufer = 56", "unknown field `store_bufer`"),
        ("store_buffer = 56", "store_buffer = 'many'", "invalid type"),
        ("store_buffer = 56", "store_buffer = ", "string values must be quoted"),
        ("ghz = 2.8", "ghz = 0.0", "processor.ghz must be from 0.1 to 10"),
        ("vendor = \"intel\"", "vendor = \"ibm\"", "unknown variant `ibm`"),
        (
            "title = \"Two sockets of Xeon Gold 5218-class, six Optane 100 DIMMs each\"",
            "noise = \"loud\"",
            "unknown variant `loud`, expected `vm`",
        ),
        (
            "flush = [\"clflush\", ",
            "flush = [\"clfush\", ",
            "'clfush' is none of clflush, clflushopt, clwb",
        ),
        ("flush = [\"clflush\", ", "flush = [", "lacks \"clflush\""),
        ("name = \"cascade", "name = \"Cascade", "lower case letters"),
        (
            "target = \"dax:/mnt/pmem0\"",
            "target = \"dax:/mnt/pmem1\"",
            "there are two of dax:/mnt/pmem1",
        ),
        ("target = \"dax:/mnt/pmem0\"", "target = \"disk\"", "'disk' is not a target"),
        ("target = \"dax:/mnt/pmem0\"", "target = \"file:/tmp\"", "no memory of its own"),
        ("target = \"dax:/mnt/pmem0\"", "target = \"node:1\"", "use node:2 or higher"),
        ("\"core.store_buffer\" =", "\"core.store_bufer\" =", "comes from"),
    ] {
        let broken = text.replacen(what, instead, 1);
        assert_ne!(broken, text, "{what}");
        let error = Description::parse(&broken).unwrap_err();
        assert!(error.why.contains(said), "{what}: {error}");
        // Where it stands, or where its source is missed.
        let at = if said == "comes from" {
            line(&broken, "store_buffer = 56")
        } else {
            line(&broken, instead.trim_end())
        };
        let second = said.starts_with("there are two");
        let found = error.line.unwrap();
        assert!(found == at || second && found > at, "{what}: {error}, not line {at}");
    }
}

// The text without a table: its header, and what stands below it.
fn without(text: &str, table: &str) -> String {
    let mut inside = false;
    let keep = |line: &&str| {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']) == table;
        }
        !inside
    };
    text.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_missing_table_is_named_and_only_what_has_a_line_is_told_with_one() {
    for description in catalogue::all() {
        let text = description.text;
        let tables: std::collections::BTreeSet<&str> = text
            .lines()
            .filter(|line| line.starts_with('['))
            .map(|line| line.trim_matches(['[', ']']))
            .collect();
        let is_optional = |table: &&str| {
            *table == "prefetcher" || table.ends_with(".wear") || table.ends_with(".ingress")
        };
        for table in tables.into_iter().filter(|table| !is_optional(table)) {
            let broken = without(&text, table);
            let below = text.lines().any(|line| line.starts_with(&format!("[{table}.")));
            let Err(error) = Description::parse(&broken) else {
                panic!("{}: {table}", description.name)
            };
            if below {
                // It is there without its values.
                assert!(
                    error.why.contains(&format!("in this [{table}]")) || table == "nodes",
                    "{table}: {error}"
                );
                continue;
            }
            assert!(
                error.why.contains(&format!("no [{table}]")),
                "{}, {table}: {error}",
                description.name
            );
            let parent =
                table.rsplit_once('.').map(|(parent, _)| parent.trim_end_matches(".device"));
            let header =
                |line: &str| line.starts_with('[') && Some(line.trim_matches(['[', ']'])) == parent;
            let found = error.line.map(|at| broken.lines().nth(at - 1).unwrap());
            assert_eq!(
                found.map(header),
                parent.map(|_| true),
                "{}, {table}: {error}",
                description.name
            );
        }
    }
    let told = |text: &str| Description::parse(text).unwrap_err().to_string();
    assert_eq!(told(""), "no name in it, above the first table");
    let (nodes, rest) =
        optane().split_once("[[nodes]]").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let sources = rest.split_once("[sources]").unwrap().1;
    assert_eq!(told(&format!("{nodes}[sources]{sources}")), "no [[nodes]] in it");
    let text = optane().replacen("store_buffer = 56\n", "", 1);
    assert_eq!(
        told(&text),
        format!("line {}: no store_buffer in this [core]", line(&text, "[core]"))
    );
}

#[test]
fn ways_are_shared_out_where_there_are_classes() {
    let text =
        |name: &str| catalogue::all().into_iter().find(|known| known.name == name).unwrap().text;
    for (name, what, instead, said) in [
        ("laptop", "bandwidth_control = false", "cdp = [\"l3\"]", "needs processor.classes"),
        ("laptop", "bandwidth_control = false", "l2_mask_bits = 4", "needs processor.l2_classes"),
        ("cascade-lake-optane", "cdp = [\"l3\"]", "cdp = [\"l2\"]", "needs processor.l2_classes"),
        ("cascade-lake-optane", "cdp = [\"l3\"]", "cdp = [\"l3\", \"l3\"]", "names \"l3\" twice"),
        ("cascade-lake-optane", "cdp = [\"l3\"]", "cdp = [\"l4\"]", "unknown variant `l4`"),
        ("goldmont-j3455", "mask_bits = 8", "l2_classes = 4", "where llc is the second level"),
        ("goldmont-j3455", "mask_bits = 8", "cdp = [\"l3\"]", "needs processor.last_level = 3"),
        ("sapphire-rapids-cxl", "l2_classes = 8", "l2_classes = 17", "from 1 to 16"),
        ("sapphire-rapids-cxl", "l2_classes = 8", "l2_classes = 1", "needs two classes"),
        (
            "sapphire-rapids-cxl",
            "l2_classes = 8",
            "l2_classes = 8\nl2_mask_bits = 5",
            "the 16 ways of l2",
        ),
    ] {
        let broken = text(name).replacen(what, instead, 1);
        let error = Description::parse(&broken).unwrap_err();
        assert!(error.why.contains(said), "{name}, {instead}: {error}");
    }
}

#[test]
fn a_source_for_nothing_is_told() {
    let broken = optane().replacen("[sources]", "[sources]\n\"core.fog\" = \"nowhere\"", 1);
    let error = Description::parse(&broken).unwrap_err();
    assert!(
        error.why.contains("\"core.fog\", which is no value")
            && error.line == Some(line(&broken, "core.fog")),
        "{error}"
    );
    let broken = optane().replacen("[sources]", "[sources]\n\"core.fence_ns\" = \" \"", 1);
    assert!(Description::parse(&broken).is_err());
}

#[test]
fn every_value_has_a_source() {
    for description in catalogue::all() {
        let values = description.values();
        assert!(values.len() > 50, "{}: {}", description.name, values.len());
        for value in values {
            assert!(value.source.len() > 10, "{}: {value:?}", description.name);
        }
    }
}

#[test]
fn a_description_is_a_machine() {
    let optane = Description::parse(&optane()).unwrap();
    let machine = optane.machine();
    let usable = machine.topology.usable();
    assert_eq!(machine.topology.packages.len(), 2);
    assert_eq!((usable.len(), machine.topology.cores.len()), (64, 32));
    assert_eq!(machine.topology.pairs_smt(&usable).len(), 32);
    assert!(machine.topology.pairs_remote(&usable).contains(&(0, 16)));
    assert_eq!(machine.topology.llc_size(0).map(|size| size.0), Some(22 << 20));
    let names: Vec<&str> = machine.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["dram", "dax:/mnt/pmem0", "dax:/mnt/pmem1"]);
    assert!(machine.processor.brand.as_ref().unwrap().ends_with("simulated"));
    let json = serde_json::to_string(&machine).unwrap();
    let read: Machine = serde_json::from_str(&json).unwrap();
    assert_eq!(read, machine);
    let again = Description::parse(&read.simulated.unwrap().file).unwrap();
    assert_eq!(again, optane);
}

// Several last-level caches in a socket, and a machine with one socket.
#[test]
fn who_shares_what_is_as_described() {
    for description in catalogue::all() {
        let (machine, parts) = (description.machine(), &description.parts.topology);
        let usable = machine.topology.usable();
        let llcs = machine
            .topology
            .caches
            .iter()
            .filter(|cache| u32::from(cache.level) == description.last_level())
            .count() as u32;
        assert_eq!(llcs, parts.sockets * parts.llcs_per_socket, "{}", description.name);
        assert_eq!(usable.len() as u32, llcs * parts.cores_per_llc * parts.threads_per_core);
        let remote = !machine.topology.pairs_remote(&usable).is_empty();
        assert_eq!(remote, parts.sockets > 1, "{}", description.name);
        let apart = !machine.topology.pairs_node(&usable).is_empty();
        assert_eq!(apart, parts.llcs_per_socket > 1, "{}", description.name);
    }
}

#[test]
fn one_value_is_changed_and_nothing_else() {
    let laptop = catalogue::all().into_iter().find(|known| known.name == "laptop").unwrap();
    let value = |description: &Description| {
        description
            .values()
            .into_iter()
            .find(|value| value.path == "core.store_buffer")
            .unwrap()
            .value
    };
    let changed = laptop.changed("core.store_buffer", "17").unwrap();
    assert_eq!((value(&changed), changed.parts.core.store_buffer), ("17".into(), 17));
    assert_eq!(changed.text.lines().count(), laptop.text.lines().count());
    let differing = changed.text.lines().zip(laptop.text.lines()).filter(|(new, old)| new != old);
    assert_eq!(differing.count(), 1);
    for (path, value, part) in [
        ("core.store_bufer", "17", "has no value core.store_bufer"),
        ("core.store_buffer", "0", "must be from 8"),
        ("core.store_buffer", "many", "line"),
        ("title", "'x'", "has no value title"),
    ] {
        let error = laptop.changed(path, value).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
