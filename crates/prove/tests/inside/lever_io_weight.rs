use super::*;
use ringfence_experiment::task::axes;

#[test]
fn how_to_keep_it_is_a_command() {
    let table = "workload = 'command'\nrun = \"dd of='a b'\"".parse().unwrap();
    let program = axes::expand(&table).unwrap().remove(0).task;
    let here = |by, version| Here { by, version, parent: "/cg/blkio".into() };
    let two = candidate(10, &here(Weigher::Cost, Version::Two), &program);
    assert_eq!(two.commands, ["systemd-run --scope -p IOWeight=10 dd 'of=a b'"]);
    assert!(two.keep.contains("'default 10' in io.weight of"), "{}", two.keep);
    assert!(candidate(1, &here(Weigher::Bfq, Version::Two), &program).keep.contains("in io.bfq.weight of"));
    let one = candidate(1, &here(Weigher::Bfq, Version::One), &program);
    assert_eq!(
        one.commands[..2],
        ["mkdir -p /cg/blkio/light-writer", "echo 1 > /cg/blkio/light-writer/blkio.bfq.weight"]
    );
    assert!(
        one.commands[2].contains("light-writer/cgroup.procs") && one.commands[2].ends_with("sh dd 'of=a b'")
    );
    assert_eq!((one.arm.name.as_str(), one.arm.disk_weight["aggressor"]), ("disk weight 1", 1));
    let caveat = one.caveat.unwrap();
    assert!(caveat.contains("plain buffered writes, has their weight"), "{caveat}");
}
