//! Recording of every driver and runtime call as a span, and external correlation ids.

use crate::harness::{BOTH, DRIVER, LAUNCHES_ONLY, RUNTIME, call_count, in_own_process, record};

/// A launch through the runtime, as by torch, and a capture, in which no call launches.
const SCRIPT: &str = "
version 130001
api runtime
part go {
    launch k
    capture c stream 7 {
        launch in_graph
    }
    graph c stream 7
}
";

#[test]
fn calls_with_same_id_interfaces_nest_and_kernels_are_attributed_once() {
    if !in_own_process(calls_with_same_id_interfaces_nest_and_kernels_are_attributed_once, SCRIPT) {
        return;
    }
    let recorded = record(BOTH);
    let paths = recorded.call_paths();
    let launches = [
        ("step/cudaLaunchKernel_v7000".to_owned(), 1),
        ("step/cudaLaunchKernel_v7000/cuLaunchKernel".to_owned(), 1),
    ];
    assert_eq!(paths[..2], launches, "{paths:?}");
    let [runtime, driver] = &recorded.calls[..2] else { unreachable!() };
    assert!(runtime.times.0 <= driver.times.0 && driver.times.1 <= runtime.times.1);
    for call in ["cudaStreamBeginCapture_v10000", "cudaGraphInstantiate_v12000"] {
        let runtime_path = format!("step/{call}");
        let correlation = paths.iter().find(|path| path.0 == runtime_path).unwrap().1;
        let with_same_id: Vec<_> = paths.iter().filter(|path| path.1 == correlation).collect();
        assert_eq!(with_same_id.len(), 2, "{with_same_id:?}");
        assert!(with_same_id[1].0.starts_with(&format!("{runtime_path}/cu")), "{with_same_id:?}");
    }

    let kernels: Vec<_> = recorded.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(kernels, ["k", "in_graph"]);
    assert_eq!(recorded.kernels[0].path, ["step"], "not below the call");
}

#[test]
fn only_calls_of_the_selected_interface_are_recorded() {
    if !in_own_process(only_calls_of_the_selected_interface_are_recorded, SCRIPT) {
        return;
    }
    let recorded = record(DRIVER);
    let paths = recorded.call_paths();
    assert_eq!(paths[0], ("step/cuLaunchKernel".to_owned(), 1));
    assert!(paths.iter().any(|path| path.0 == "step/cuStreamBeginCapture_v2"), "{paths:?}");
    assert!(paths.iter().all(|path| !path.0.contains("/cuda")), "{paths:?}");

    let recorded = record(RUNTIME);
    let paths = recorded.call_paths();
    assert!(paths.iter().any(|path| path.0 == "step/cudaStreamBeginCapture_v10000"), "{paths:?}");
    assert!(paths.iter().all(|path| !path.0.contains("cuStreamBeginCapture")), "{paths:?}");
    // Launches come from the driver's callbacks, whether or not its interface is selected.
    assert!(paths.iter().any(|path| path.0 == "step/cudaLaunchKernel_v7000/cuLaunchKernel"));
}

#[test]
fn only_launches_are_recorded_by_default() {
    if !in_own_process(only_launches_are_recorded_by_default, SCRIPT) {
        return;
    }
    record(BOTH);
    let domain_calls = call_count("cuptiEnableDomain");
    let recorded = record(LAUNCHES_ONLY);
    let paths: Vec<_> = recorded.call_paths().into_iter().map(|path| path.0).collect();
    let launches = ["step/cuLaunchKernel", "step/cuLaunchKernel", "step/cuGraphLaunch"];
    assert_eq!(paths, launches, "not even our own synchronization");
    assert_eq!(
        call_count("cuptiEnableDomain"),
        domain_calls + 3,
        "domains are only disabled, at the end"
    );
}

#[test]
fn an_external_correlation_id_of_a_call_applies_to_its_kernel() {
    let script = "
        version 130001
        api runtime
        part go {
            push 3 77
            launch inner
            pop 3
            launch outer
        }";
    if !in_own_process(an_external_correlation_id_of_a_call_applies_to_its_kernel, script) {
        return;
    }
    let recorded = record(RUNTIME);
    let ids: Vec<_> =
        recorded.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.external)).collect();
    assert_eq!(ids, [("inner", Some(77)), ("outer", None)]);
    assert_eq!(record(LAUNCHES_ONLY).kernels[0].external, None);
}
