"""Measures the analyses: `python bench/views.py`.

What it takes from a trace to all answers: nine of HTA's analyses, and the page of `marey analyze`,
which has the same and more (rules, critical path, sequences, occupancy, charts), in turn on the
same files, each in a process of its own that has started and imported everything. `--update`
writes the table to `docs/benchmarks.md`; `--traces FOLDER` measures those there too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from formats import Cost, python
from table import duration, grid, measured_with, update

ROUNDS = 5
BAR_SECONDS = 1.0
RECORDED = Path(__file__).parent.parent / "tests" / "data" / "kineto" / "a100-nccl.json.gz"

# Each prints the seconds that it took.
OURS = """
import os, sys, tempfile, time
import marey._engine
with tempfile.TemporaryDirectory() as folder:
    page = os.path.join(folder, "report.html")
    begin = time.perf_counter()
    assert marey._engine.cli_main(["marey", "analyze", sys.argv[1], "-o", page]) == 0
    print(time.perf_counter() - begin)
"""
HTA = """
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


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the analyses.")
    parser.add_argument("--update", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="more traces to analyse")
    options = parser.parse_args()
    traces = [RECORDED]
    if options.traces:
        more = sorted(options.traces.glob("*.json.gz"))
        traces += [trace for trace in more if trace.name != RECORDED.name]
    table = [("trace", "HTA", "marey", "faster", "bar", ""), *map(line, traces)]
    text = "\n".join(grid(table))
    print(text)
    if options.update:
        command = "bench/views.py --update"
        update("\n\n".join([measured_with(command), text]), "bench/views.py")
    return 0


def line(trace: Path) -> tuple[str, ...]:
    theirs: list[Cost] = []
    ours: list[Cost] = []
    for _ in range(ROUNDS):
        theirs.append(python(HTA, trace))
        ours.append(python(OURS, trace))
    hta, marey = (statistics.median(cost.seconds for cost in costs) for costs in (theirs, ours))
    return (
        f"`{trace.name}`",
        duration(hta * 1e9),
        duration(marey * 1e9),
        f"{hta / marey:.0f}x",
        f"< {BAR_SECONDS:.0f} s",
        "holds" if marey < BAR_SECONDS else "**missed**",
    )


if __name__ == "__main__":
    sys.exit(main())
