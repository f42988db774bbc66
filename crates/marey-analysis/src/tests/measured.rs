//! Tests of the measurements of a run, the input of comparisons.

use super::sample_run::{self, STEP_BYTES};
use crate::ask::Questions;
use crate::metric::{Metric, Quantity, Summary};
use crate::run_measurements::{Kernel, Operation, RunMeasurements};

fn value(run: &RunMeasurements, quantity: Quantity, summary: Summary) -> Option<f64> {
    run.measurement(Metric { quantity, summary }).map(|measurement| measurement.value)
}

// One test, because planning the queries takes seconds in a debug build.
#[test]
fn a_run_is_measured_by_step_and_as_a_whole() {
    let database = sample_run::with_steps(3);
    let run = RunMeasurements::query(&Questions::new(&database), "run".to_owned()).unwrap();

    assert_eq!(run.name, "run");
    assert_eq!(run.step_nanos, [10e6, 10e6, 13e6]);
    for (quantity, expected) in [
        (Quantity::GpuBusy, [2e6, 2e6, 2e6]),
        (Quantity::GpuIdle, [8e6, 8e6, 11e6]),
        (Quantity::GpuCompute, [2e6, 2e6, 2e6]),
        (Quantity::GpuCopies, [0.0, 0.0, 0.0]),
        (Quantity::KernelLaunches, [1.0, 1.0, 1.0]),
    ] {
        let series = run.series.iter().find(|(known, _)| *known == quantity);
        assert_eq!(series.unwrap().1, expected, "{quantity:?}");
    }

    assert_eq!(value(&run, Quantity::TotalTime, Summary::Total), Some(33e6));
    for (quantity, nanos) in [
        (Quantity::GpuBusy, 6e6),
        (Quantity::GpuIdle, 27e6),
        (Quantity::GpuCompute, 6e6),
        (Quantity::Communication, 0.0),
    ] {
        let percent = value(&run, quantity, Summary::Percent).unwrap();
        assert!((percent - 100.0 * nanos / 33e6).abs() < 1e-9, "{quantity:?}: {percent}");
    }
    let memory = |summary| value(&run, Quantity::GpuMemory, summary);
    assert_eq!(memory(Summary::Peak), Some(3.0 * STEP_BYTES as f64));
    assert_eq!(memory(Summary::Growth), Some(STEP_BYTES as f64));
    assert_eq!(memory(Summary::Growing), Some(0.0));

    let operation = |path: &[&str], kind: &str, total_nanos, self_nanos| Operation {
        path: path.iter().map(|&name| name.to_owned()).collect(),
        kind: kind.to_owned(),
        count: 1.0,
        total_nanos,
        self_nanos,
    };
    let mut operations = run.operations.clone();
    operations.sort_by_key(|operation| operation.path.len());
    let path = ["ProfilerStep", "aten::mm", "cudaLaunchKernel"];
    assert_eq!(
        operations,
        [
            operation(&path[..1], "step", 11e6, 5e6),
            operation(&path[..2], "operator", 6e6, 5e6),
            operation(&path, "runtime", 1e6, 1e6),
        ]
    );
    let kernel = Kernel { name: "gemm".to_owned(), count: 1.0, total_nanos: 2e6 };
    assert_eq!(run.kernels, [kernel]);
}

#[test]
fn without_steps_a_share_is_that_of_the_recording() {
    let database = sample_run::without_steps();
    let run = RunMeasurements::query(&Questions::new(&database), "run".to_owned()).unwrap();
    assert_eq!(run.step_nanos, [0.0; 0]);
    assert_eq!(value(&run, Quantity::GpuBusy, Summary::Percent), Some(40.0));
}
