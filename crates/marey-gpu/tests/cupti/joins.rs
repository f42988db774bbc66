//! The join of records with the call that launched them, and the names of kernels.

use crate::harness::{BOTH, LAUNCHES_ONLY, Recorded, in_own_process, record};
use marey_model::loss::LossCause;

/// Returns name, device, correlation id and path of each kernel.
fn kernels(recorded: &Recorded) -> Vec<(&str, u32, u32, String)> {
    let kernels = recorded.kernels.iter();
    kernels.map(|it| (it.name.as_str(), it.device, it.correlation, it.path.join("/"))).collect()
}

#[test]
fn every_kernel_of_a_launch_on_several_devices_is_recorded() {
    let script = "
        devices 2
        part go {
            single-call {
                launch a
                launch b device 1
            }
            launch c device 1
        }";
    if !in_own_process(every_kernel_of_a_launch_on_several_devices_is_recorded, script) {
        return;
    }
    let recorded = record(LAUNCHES_ONLY);
    let step = || "step".to_owned();
    assert_eq!(kernels(&recorded), [("a", 0, 1, step()), ("b", 1, 1, step()), ("c", 1, 2, step())]);
    let calls = ["step/cuLaunchCooperativeKernelMultiDevice", "step/cuLaunchKernel"];
    assert_eq!(recorded.call_paths(), [(calls[0].to_owned(), 1), (calls[1].to_owned(), 2)]);
    assert_eq!(recorded.losses.values().sum::<u64>(), 0, "{:?}", recorded.losses);
}

#[test]
fn an_unfinished_kernel_of_a_launch_on_several_devices_is_a_loss() {
    let script = "
        devices 2
        part go {
            single-call {
                launch a
                launch b device 1 unfinished
            }
        }";
    if !in_own_process(an_unfinished_kernel_of_a_launch_on_several_devices_is_a_loss, script) {
        return;
    }
    let recorded = record(LAUNCHES_ONLY);
    assert_eq!(kernels(&recorded), [("a", 0, 1, "step".to_owned())]);
    assert_eq!(recorded.losses, [(LossCause::DeviceRecord, 1)].into());
}

#[test]
fn every_part_of_a_divided_copy_is_recorded() {
    let script = "
        part go {
            single-call {
                copy to-device 1000
                copy to-device 1000
                copy to-device 500
            }
        }";
    if !in_own_process(every_part_of_a_divided_copy_is_recorded, script) {
        return;
    }
    let recorded = record(LAUNCHES_ONLY);
    let path = vec!["step".to_owned()];
    assert_eq!(recorded.copies, [1000, 1000, 500].map(|bytes| (bytes, path.clone())));
    assert_eq!(recorded.calls.len(), 1);
    assert_eq!(recorded.losses.values().sum::<u64>(), 0, "{:?}", recorded.losses);
}

#[test]
fn kernels_of_a_graph_without_node_ids_belong_to_its_launch() {
    let script = "
        part go {
            capture g {
                launch a
                launch b
            }
            graph g without-ids
            graph g without-ids
        }";
    if !in_own_process(kernels_of_a_graph_without_node_ids_belong_to_its_launch, script) {
        return;
    }
    let recorded = record(LAUNCHES_ONLY);
    let launches: Vec<_> = recorded
        .calls
        .iter()
        .filter(|call| call.path.last().unwrap() == "cuGraphLaunch")
        .map(|call| call.correlation)
        .collect();
    let step = || "step".to_owned();
    let expected: Vec<_> = launches
        .iter()
        .flat_map(|&launch| [("a", 0, launch, step()), ("b", 0, launch, step())])
        .collect();
    assert_eq!(launches.len(), 2);
    assert_eq!(kernels(&recorded), expected);
    assert_eq!(recorded.losses.values().sum::<u64>(), 0, "{:?}", recorded.losses);
}

/// Records kernels whose names CUPTI overwrites as soon as it has delivered them.
fn record_temporary_names(test: impl Fn(), settings: &str) {
    let script = format!(
        "{settings}
        names temporary
        part go {{
            repeat 3 {{
                launch first
                launch second
            }}
        }}"
    );
    if !in_own_process(test, &script) {
        return;
    }
    let recorded = record(LAUNCHES_ONLY);
    let names: Vec<_> = recorded.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["first", "second"].repeat(3));
    assert_eq!(recorded.losses.values().sum::<u64>(), 0, "{:?}", recorded.losses);
}

#[test]
fn names_are_read_before_the_delivery_of_a_buffer_ends() {
    record_temporary_names(names_are_read_before_the_delivery_of_a_buffer_ends, "delivery inline");
}

#[test]
fn names_are_read_before_the_delivery_of_a_buffer_by_a_worker_ends() {
    record_temporary_names(
        names_are_read_before_the_delivery_of_a_buffer_by_a_worker_ends,
        "delivery worker",
    );
}

#[test]
fn names_are_read_before_a_shared_subscribers_delivery_ends() {
    record_temporary_names(
        names_are_read_before_a_shared_subscribers_delivery_ends,
        "version 130500\ndriver 13050",
    );
}

#[test]
fn kernels_belong_to_the_driver_call_if_the_runtime_call_has_its_own_id() {
    let script = "
        api runtime
        ids separate
        part go {
            push 3 77
            launch inner
            pop 3
            launch outer
        }";
    if !in_own_process(kernels_belong_to_the_driver_call_if_the_runtime_call_has_its_own_id, script)
    {
        return;
    }
    let recorded = record(BOTH);
    let step = || "step".to_owned();
    assert_eq!(kernels(&recorded), [("inner", 0, 2, step()), ("outer", 0, 4, step())]);
    let externals: Vec<_> = recorded.kernels.iter().map(|kernel| kernel.external).collect();
    assert_eq!(externals, [Some(77), None]);
    // Without a common id, the driver call is not recognised as part of the runtime call.
    let (runtime, driver) = ("step/cudaLaunchKernel_v7000", "step/cuLaunchKernel");
    let calls = [(runtime, 1), (driver, 2), (runtime, 3), (driver, 4)];
    assert_eq!(recorded.call_paths()[..4], calls.map(|(path, id)| (path.to_owned(), id)));
    assert_eq!(recorded.losses.values().sum::<u64>(), 0, "{:?}", recorded.losses);

    let launches = record(LAUNCHES_ONLY);
    assert_eq!(launches.kernels.len(), 2);
    let calls: Vec<_> = launches.call_paths().into_iter().map(|(path, _)| path).collect();
    assert_eq!(calls, ["step/cuLaunchKernel"; 2]);
    assert_eq!(launches.losses.values().sum::<u64>(), 0, "{:?}", launches.losses);
}
