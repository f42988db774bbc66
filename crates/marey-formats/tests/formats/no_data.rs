//! Exports of runs that have nothing that a format holds.

use marey_formats::{ExportError, Format, export};
use marey_store::NewProcess;

use crate::build::build_run;
use crate::dump::reader;

#[test]
fn an_empty_run_is_refused() {
    for process_count in [0, 1] {
        let (_folder, run) = build_run(|run| {
            for _ in 0..process_count {
                run.add_process(NewProcess::default());
            }
        });
        for (format, missing) in [
            (Format::Kineto, "no events, which a trace of torch.profiler"),
            (Format::Perfetto, "no events, which a Perfetto trace"),
            (Format::Pprof, "no samples, no spans and no device activities, which a pprof profile"),
            (
                Format::Speedscope,
                "no spans, device activities or samples, which a speedscope profile",
            ),
            (
                Format::TensorBoard,
                "no steps, metrics, spans, device activities or samples, which TensorBoard event files",
            ),
        ] {
            let error = export(&reader(&run), format, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, ExportError::NoData { .. }));
            assert_eq!(error.to_string(), format!("the run has {missing} consists of"));
        }
    }
}
