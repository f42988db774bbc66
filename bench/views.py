"""Measures the analyses: `python bench/views.py`.

The time from a trace to all results: nine analyses of HTA; the equivalent views of marey; and the
HTML report of `marey analyze`, which has more (rules, critical path, sequences, occupancy, charts).
They run in turn on the same files, each in its own process that has imported everything. `--update`
writes the table to `docs/benchmarks.md`; `--traces FOLDER` adds traces.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from formats import run_python
from table import NO_VALUE, document_parser, duration, markdown_table, publish, verdict

ROUNDS = 5
MAX_REPORT_SECONDS = 1.0
BARRED_TRACE = Path(__file__).parent.parent / "tests" / "data" / "kineto" / "a100-nccl.json.gz"

# Each program prints its duration in seconds.
SAME_VIEWS = """
import sys, time
import marey
import marey._engine
begin = time.perf_counter()
run = marey.open(sys.argv[1])
for view in (
    "gpu_time", "gpu_time_by_step", "gpu_gaps", "kernel_summary", "launches", "queue_length",
    "queue_summary", "gpu_copies", "operator_kernels", "gpu_annotations", "stragglers",
):
    run.sql(f"SELECT * FROM {view}").rows()
print(time.perf_counter() - begin)
run.close()
"""
REPORT = """
import os, sys, tempfile, time
import marey._engine
with tempfile.TemporaryDirectory() as folder:
    page = os.path.join(folder, "report.html")
    begin = time.perf_counter()
    assert marey._engine.cli_main(["marey", "analyze", sys.argv[1], "-o", page]) == 0
    print(time.perf_counter() - begin)
"""
HTA_ANALYSES = """
import logging, sys, time, warnings
from pathlib import Path
from hta.trace_analysis import TraceAnalysis
logging.disable()
warnings.simplefilter("ignore")
begin = time.perf_counter()
trace = sys.argv[1]
analysis = TraceAnalysis(
    trace_files={0: trace}, trace_dir=str(Path(trace).parent), include_last_profiler_step=True
)
analysis.get_temporal_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1_000_000, duration_ratio=1.0)
analysis.get_cuda_kernel_launch_stats(visualize=False)
analysis.get_queue_length_summary()
analysis.get_memory_bw_summary()
analysis.get_aten_op_kernels_and_delay()
analysis.get_gpu_user_annotation_breakdown(visualize=False)
print(time.perf_counter() - begin)
"""


def main() -> None:
    parser = document_parser("Measures the analyses.")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="more traces to analyse")
    options = parser.parse_args()
    traces = [BARRED_TRACE]
    if options.traces:
        added = sorted(options.traces.glob("*.json.gz"))
        traces += [trace for trace in added if trace.name != BARRED_TRACE.name]
    heading = ("trace", "HTA", "the same views", "", "whole report", "", "bar", "")
    table = markdown_table([heading, *map(trace_row, traces)])
    publish("bench/views.py", [table], is_update=options.update)


def trace_row(trace: Path) -> tuple[str, ...]:
    seconds: dict[str, list[float]] = {HTA_ANALYSES: [], SAME_VIEWS: [], REPORT: []}
    if trace != BARRED_TRACE and not hta_reads(trace):
        del seconds[HTA_ANALYSES]
    for _ in range(ROUNDS):
        for program, measured in seconds.items():
            measured.append(run_python(program, trace).seconds)
    medians = {program: statistics.median(measured) for program, measured in seconds.items()}
    hta, same, report = medians.get(HTA_ANALYSES), medians[SAME_VIEWS], medians[REPORT]
    return (
        f"`{trace.name}`",
        "fails" if hta is None else duration(hta * 1e9),
        duration(same * 1e9),
        NO_VALUE if hta is None else f"{hta / same:.0f}x",
        duration(report * 1e9),
        NO_VALUE if hta is None else f"{hta / report:.1f}x",
        *bar_cells(trace, report),
    )


def hta_reads(trace: Path) -> bool:
    """Whether HTA can analyse a trace; it fails, for one, where no device was recorded."""
    try:
        run_python(HTA_ANALYSES, trace)
    except RuntimeError:
        return False
    return True


def bar_cells(trace: Path, report_seconds: float) -> tuple[str, str]:
    """Returns the bar, which is set for one trace only."""
    if trace != BARRED_TRACE:
        return "", ""
    return f"< {MAX_REPORT_SECONDS:.0f} s", verdict(report_seconds < MAX_REPORT_SECONDS)


if __name__ == "__main__":
    main()
