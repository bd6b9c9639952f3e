//! What the library asks of a kernel, and what a user is told: the same scenarios on a real kernel,
//! in the testbed's guest, and on the model, which so are shown to agree. After each, everything is
//! as before. Beside them, what only a real kernel shows: transactions that are killed, and others
//! at the same time. All in one program, so that its guests fill the processors.

mod differential;
mod env;
mod host;
mod locking;
mod machines;
mod masks;
mod other_users;
mod region;
mod sigkill;
mod tasks;

use env::{Env, Guest, InModel, check};
use ringfence_resctrl::kernel::model::{BandwidthSpec, CacheSpec, Hardware};
use ringfence_resctrl::{Domain, Mask};
use ringfence_testbed::{Testbed, scenarios};

fn scarce() -> Hardware {
    Hardware {
        l3: Some(CacheSpec::plain(4, 1 << 20, 4)),
        mb: Some(BandwidthSpec::percent(4, vec![0])),
        rmids: 6,
        cpus: 2,
        ..Hardware::broadwell()
    }
}

/// Scenarios of a machine: a test in the guest, one in the model.
macro_rules! machine {
    ($name:ident, $testbed:expr, $model:expr, [$($part:ident :: $scenario:ident),+ $(,)?]) => {
        machine!($name, $testbed, $model, [$($part :: $scenario),+], guest alone: []);
    };
    (
        $name:ident,
        $testbed:expr,
        $model:expr,
        [$($part:ident :: $scenario:ident),+ $(,)?],
        guest alone: [$($only:ident :: $alone:ident),* $(,)?]
    ) => {
        mod $name {
            use super::*;

            $(fn $scenario() {
                check(&Guest::new(), $part::$scenario);
            })+
            $(fn $alone() {
                check(&Guest::new(), $only::$alone);
            })*

            #[test]
            fn in_the_guest() {
                let machine: fn(Testbed) -> Testbed = $testbed;
                scenarios!(machine, env::clean, [$($scenario,)+ $($alone,)*]);
            }

            #[test]
            fn in_the_model() {
                let scenarios: &[(&str, fn(&dyn Env))] =
                    &[$((stringify!($scenario), $part::$scenario)),+];
                for (name, scenario) in scenarios {
                    println!("{name}");
                    check(&InModel::new($model), *scenario);
                }
            }
        }
    };
}

fn broadwell(domains: Vec<Domain>) -> Hardware {
    let l3 = CacheSpec {
        shareable: Mask(0xc0000),
        domains: domains.clone(),
        ..CacheSpec::plain(20, 1 << 20, 16)
    };
    let cpus = 2 * domains.len() as u32;
    Hardware {
        l3: Some(l3),
        mb: Some(BandwidthSpec::percent(8, domains)),
        cpus,
        ..Hardware::broadwell()
    }
}

fn cascade_lake() -> Hardware {
    let l3 = CacheSpec { shareable: Mask(0x600), ..CacheSpec::plain(11, 1408 << 10, 16) };
    let mb = Some(BandwidthSpec::percent(8, vec![0]));
    Hardware {
        l3: Some(l3),
        mb,
        rmids: 64,
        cpus: 2,
        pseudo_locking: false,
        ..Hardware::broadwell()
    }
}

machine!(
    broadwell_x,
    |testbed| testbed.profile("broadwell").rdt("rdt-mba-clos=8").mount("-").time(240),
    broadwell(vec![0]),
    [
        masks::a_mask_of_no_way,
        masks::a_mask_that_is_too_large,
        masks::a_mask_with_a_gap,
        masks::a_resource_that_is_not_there,
        masks::a_cache_that_is_not_there,
        masks::a_bandwidth_out_of_range,
        masks::a_bandwidth_is_rounded_up,
        masks::texts_that_this_library_does_not_write,
        masks::all_lines_or_none,
        masks::overlap_with_an_exclusive_group,
        masks::exclusive_while_overlapping,
        masks::exclusive_on_ways_of_devices,
        masks::an_exclusive_group_that_grows,
        masks::a_new_group_gets_no_exclusive_way,
        masks::who_uses_which_way,
        masks::the_bytes_of_masks,
        masks::an_unknown_mode,
        tasks::no_such_task,
        tasks::a_task_that_is_no_number,
        tasks::children_are_born_into_the_group,
        tasks::a_task_of_another_group_is_not_monitored,
        tasks::a_removed_group_gives_back_tasks_and_cpus,
        tasks::a_removed_monitor_group_gives_back_tasks,
        tasks::cpus_belong_to_one_group,
        tasks::the_default_group_keeps_its_cpus,
        tasks::cpus_of_another_group_are_not_monitored,
        tasks::an_offline_cpu,
        tasks::a_list_that_is_none,
        tasks::counters_are_read,
        tasks::a_user_without_permission,
        tasks::a_group_that_is_there,
        tasks::a_group_that_is_gone,
        tasks::folders_that_are_no_groups,
        tasks::the_default_group_stays,
        tasks::old_words_are_not_repeated,
        tasks::two_programs_lock,
        locking::the_default_group_is_not_locked,
        locking::monitoring_in_progress,
        locking::tasks_in_the_way,
        locking::cpus_in_the_way,
        locking::more_than_four_mebibytes,
        locking::ways_of_others,
        locking::bandwidth_is_not_locked,
        locking::a_second_region,
        locking::a_locked_group_is_not_changed,
        locking::a_locked_group_takes_nobody,
        locking::locked_ways_are_nobody_elses,
        locking::set_up_and_back,
        locking::a_mistake_stands_in_the_way,
        locking::a_plan_is_carried_out_and_undone,
    ],
    guest alone: [
        region::a_region_is_mapped_from_its_own_cpus,
        region::a_region_in_use_is_not_removed,
        region::a_region_is_measured,
        differential::on_broadwell,
    ]
);

machine!(
    few,
    |testbed| testbed.profile("few").mount("-").time(240),
    scarce(),
    [
        machines::out_of_closids,
        machines::out_of_rmids,
        machines::out_of_rmids_on_the_way_back,
        machines::what_is_free_is_counted,
        machines::no_ways_left,
        machines::a_status_that_is_full,
    ],
    guest alone: [differential::where_all_is_scarce]
);

machine!(
    code_and_data,
    |testbed| testbed.profile("cdp").mount("cdp").time(240),
    {
        let mut hardware = cascade_lake().with_cdp();
        hardware.mb = Some(BandwidthSpec::percent(16, vec![0]));
        hardware
    },
    [
        machines::half_as_many_groups,
        machines::code_overlaps_with_exclusive_data,
        locking::not_with_cdp
    ],
    guest alone: [differential::with_code_and_data_apart]
);

machine!(
    locking_with_cdp,
    |testbed| testbed.profile("broadwell").mount("cdp"),
    Hardware { mb: None, ..broadwell(vec![0]).with_cdp() },
    [locking::not_with_cdp]
);

machine!(
    cascade,
    |testbed| testbed.profile("cascade-lake").mount("-"),
    cascade_lake(),
    [locking::not_by_this_processor, masks::exclusive_on_ways_of_devices, masks::a_mask_with_a_gap]
);

// Kernels before 6.7 do not ask the processor whether it takes masks with gaps, and refuse them.
machine!(
    gaps_in_hardware,
    |testbed| testbed.profile("noncontiguous").mount("-"),
    cascade_lake(),
    [masks::a_mask_with_a_gap]
);

machine!(
    bandwidth_alone,
    |testbed| testbed.profile("cascade-lake-default").mount("-"),
    Hardware { l3: None, ..cascade_lake() },
    [machines::exclusive_without_ways]
);

machine!(
    atom,
    |testbed| testbed.profile("l2").mount("-"),
    {
        let l2 = CacheSpec { domains: vec![0, 1], ..CacheSpec::plain(8, 128 << 10, 4) };
        Hardware { l2: Some(l2), ..Hardware::goldmont() }
    },
    [machines::regions_in_two_l2, machines::nothing_is_monitored, masks::a_mask_of_no_way]
);

machine!(
    two_sockets,
    |testbed| testbed.profile("sockets").mount("-").time(240),
    broadwell(vec![0, 1]),
    [machines::exclusive_in_one_socket_alone, machines::a_region_in_each_socket]
);

machine!(
    megabytes,
    |testbed| testbed.profile("broadwell").rdt("rdt-mba-clos=8").mount("mba_MBps"),
    broadwell(vec![0]).with_mbps(),
    [machines::bandwidth_in_megabytes]
);

/// What cannot be mounted, or is not.
mod without {
    use super::*;

    #[test]
    fn rdt() {
        scenarios!(|testbed| testbed.profile("none"), || Ok(()), [region::no_hardware]);
    }

    #[test]
    fn a_mount() {
        scenarios!(
            |testbed| testbed.profile("broadwell"),
            || Ok(()),
            [
                region::options_that_the_machine_lacks,
                region::mounted_and_unmounted,
                region::not_mounted_by_a_user
            ]
        );
    }
}
