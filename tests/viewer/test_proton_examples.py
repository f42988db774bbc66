"""The analysis examples of Proton's documentation, unchanged.

If an example waits or reads the time, the test provides a clock; if it starts a GPU session, the
test provides a profile with GPU metrics.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections import deque
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, SupportsIndex

import marey
import pytest
from programs import run_command
from viewer_graphs import TIME, path
from window_examples import SERVICE as SERVICE_USE

ANALYSIS = """
import proton

# Read profile data
gf, inclusive, exclusive, device_info = proton.read("profile.hatchet")

# Parse with derived metrics
gf, derived = proton.parse(
    ["time/ms", "flop/s", "util"],
    "profile.hatchet",
    include=".*kernel.*",
    threshold=0.01
)

# Print analysis
print(gf.dataframe)
"""


def run(example: str, **names: Any) -> dict[str, Any]:
    """Runs an example as a module called `example`; returns its names."""
    namespace = {"__name__": "example", **names}
    exec(compile(example, "example.py", "exec", dont_inherit=True), namespace)
    return namespace


@pytest.fixture(autouse=True)
def _marey_is_proton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proton", marey)


def test_profile_analysis_and_visualization(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    graph = marey.graph.Graph.read(path("kernels"))
    frame = graph.dataframe
    frame["name"] = frame["name"].str.replace("gemm", "kernel_gemm")
    graph.to_hatchet("profile.hatchet")

    names = run(ANALYSIS)

    assert names["inclusive"][-1] == "time (ns)"
    assert names["exclusive"][:2] == ["name", "device_id"]
    assert names["device_info"]["CUDA"]["0"]["arch"] == "89"
    assert names["derived"] == ["time/ms (inc)", "flop/s (inc)", "util"]
    shown = names["gf"].dataframe
    kernels = shown[shown["name"].str.match(".*kernel.*")]
    assert {*kernels["name"]} == {
        "kernel_gemm_128x64_f16",
        "kernel_gemm_64x64_f64",
        "kernel_gemm_64x64_fp8",
    }  # the others take less than 0.01 ms, or are not called so
    assert shown["time/ms (inc)"].min() >= 0.01
    assert kernels["util"].notna().all()
    assert "optimizer" not in {*shown["name"]}
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[0] == "name"
    assert printed[2].startswith("{'name': 'ROOT', 'type': 'function'}")


ROLLING = '''
import proton
from collections import deque
from threading import Lock
import shutil

class RollingWindowProfiler:
    """
    Maintains a rolling window of profiles with automatic cleanup
    """
    def __init__(self, 
                 window_size_minutes: int = 10,
                 max_windows_kept: int = 6,  # Keep last hour of profiles
                 profile_dir: str = "./rolling_profiles"):
        self.window_size = window_size_minutes * 60  # Convert to seconds
        self.max_windows = max_windows_kept
        self.profile_dir = profile_dir
        self.profile_queue = deque(maxlen=max_windows_kept)
        self.lock = Lock()
        self.current_session = None
        
    def start_new_window(self):
        """Start a new profiling window"""
        with self.lock:
            # End previous window if exists
            if self.current_session is not None:
                proton.finalize(self.current_session)
                
            # Create new profile
            timestamp = datetime.now().strftime("%Y%m%d_%H%M%S")
            profile_path = f"{self.profile_dir}/rolling_{timestamp}"
            
            self.current_session = proton.start(profile_path, backend="cupti")
            proton.activate(self.current_session)
            
            # Add to queue (automatic cleanup via maxlen)
            self.profile_queue.append({
                "path": profile_path,
                "session": self.current_session,
                "start_time": datetime.now()
            })
            
            # Clean up old files if queue is full
            if len(self.profile_queue) == self.max_windows:
                self._cleanup_old_profiles()
                
    def _cleanup_old_profiles(self):
        """Remove profiles older than the window"""
        # The deque automatically removes old entries
        # This method can be used for additional cleanup if needed
        pass
        
    def get_recent_profiles(self, n: int = None):
        """Get paths to recent profile files"""
        with self.lock:
            if n is None:
                n = len(self.profile_queue)
            return [p["path"] + ".hatchet" for p in list(self.profile_queue)[-n:]]
            
    def analyze_trends(self):
        """Analyze performance trends across windows"""
        recent_profiles = self.get_recent_profiles()
        
        for profile_path in recent_profiles:
            if os.path.exists(profile_path):
                gf, metrics = proton.parse(["time/ms", "util"], profile_path)
                # Perform trend analysis
                print(f"Profile: {profile_path}")
                print(f"  Total time: {gf.dataframe['time/ms (inc)'].iloc[0]:.2f} ms")
                print(f"  Average utilization: {gf.dataframe['util'].mean():.2%}")
'''  # noqa: W291, W293


class Clock:
    """A fake `datetime` and `time`; waiting advances it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 2, 3, 4, 5)

    def now(self) -> datetime:
        return self.moment

    def time(self) -> float:
        return self.moment.timestamp()

    def sleep(self, secs: float) -> None:
        self.moment += timedelta(seconds=secs)


class Gpu:
    """Fake sessions with `backend="cupti"`: each writes the next of some profiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, profiles: list[Path]) -> None:
        self.profiles = iter(profiles)
        self.written: dict[int, Path] = {}
        monkeypatch.setattr(marey, "start", self.start)
        monkeypatch.setattr(marey, "activate", self.written.__getitem__)
        monkeypatch.setattr(marey, "deactivate", self.written.__getitem__)
        monkeypatch.setattr(marey, "finalize", self.finalize)

    def start(self, name: str, *, backend: str) -> int:
        assert backend == "cupti"
        session = len(self.written)
        self.written[session] = Path(f"{name}.hatchet")
        return session

    def finalize(self, session: int | None = None) -> None:
        if session is not None:
            shutil.copy(next(self.profiles), self.written[session])


def test_rolling_windows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    clock = Clock()
    os.mkdir("rolling_profiles")
    profiler = run(ROLLING, datetime=clock, os=os)["RollingWindowProfiler"](max_windows_kept=2)
    Gpu(monkeypatch, [path("kernels"), path("optimized"), path("hip")])
    for _window in range(3):
        profiler.start_new_window()
        clock.sleep(profiler.window_size)
    marey.finalize(profiler.current_session)

    profiler.analyze_trends()

    assert capsys.readouterr().out == (
        "Profile: ./rolling_profiles/rolling_20260102_031405.hatchet\n"
        "  Total time: 1.22 ms\n"
        "  Average utilization: 138.05%\n"
        "Profile: ./rolling_profiles/rolling_20260102_032405.hatchet\n"
        "  Total time: 0.53 ms\n"
        "  Average utilization: 74.27%\n"
    )  # as with Triton's viewer


SERVICE = '''
import proton
import numpy as np
from dataclasses import dataclass
from typing import List
import time

@dataclass
class RequestMetrics:
    latency_ms: float
    tokens_generated: int
    success: bool

class ServiceWindowProfiler:
    """
    Profile service windows with comprehensive end-of-window metrics
    """
    def __init__(self, window_seconds: int = 300):
        self.window_seconds = window_seconds
        self.current_requests: List[RequestMetrics] = []
        self.window_scope_id = None
        
    def start_window(self):
        """Start a new profiling window"""
        self.current_requests = []
        self.window_start = time.time()
        self.window_scope_id = proton.enter_scope("service_window", {
            "window_start_timestamp": self.window_start,
            "window_duration_seconds": self.window_seconds
        })
        
    def record_request(self, request_metrics: RequestMetrics):
        """Record metrics for a completed request"""
        self.current_requests.append(request_metrics)
        
    def end_window(self):
        """End window and record comprehensive metrics"""
        if not self.current_requests:
            proton.exit_scope(metrics={"requests_count": 0})
            return
            
        # Calculate latency percentiles
        latencies = [r.latency_ms for r in self.current_requests]
        latencies_array = np.array(latencies)
        
        # Calculate throughput metrics
        window_duration = time.time() - self.window_start
        total_tokens = sum(r.tokens_generated for r in self.current_requests)
        successful_requests = sum(1 for r in self.current_requests if r.success)
        
        # Record comprehensive end-of-window metrics
        proton.exit_scope(metrics={
            # Latency percentiles
            "p50_latency_ms": np.percentile(latencies_array, 50),
            "p90_latency_ms": np.percentile(latencies_array, 90),
            "p95_latency_ms": np.percentile(latencies_array, 95),
            "p99_latency_ms": np.percentile(latencies_array, 99),
            "max_latency_ms": np.max(latencies_array),
            "min_latency_ms": np.min(latencies_array),
            "avg_latency_ms": np.mean(latencies_array),
            
            # Throughput metrics
            "requests_per_second": len(self.current_requests) / window_duration,
            "tokens_per_second": total_tokens / window_duration,
            "success_rate": successful_requests / len(self.current_requests),
            
            # Volume metrics
            "total_requests": len(self.current_requests),
            "total_tokens_generated": total_tokens,
            "failed_requests": len(self.current_requests) - successful_requests
        })
'''  # noqa: W293


def test_service_windows_with_exit_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    clock = Clock()

    def process_llm_request(tokens: int) -> list[str]:
        clock.sleep(tokens / 64)
        if tokens == 4:
            raise RuntimeError("out of memory")
        return ["token"] * tokens

    with marey.profile("service"):
        requests = [1, 2, 3, 4]
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "time", clock)
            run(
                SERVICE + SERVICE_USE,
                incoming_requests=requests,
                process_llm_request=process_llm_request,
            )

    graph, inclusive, *_ = marey.read("service.hatchet")
    window = next(row for row in graph if row["name"] == "service_window")
    latencies = [1000 * request / 64 for request in requests]
    assert window["p50_latency_ms"] == statistics.median(latencies)
    assert window["max_latency_ms"] == max(latencies)
    assert window["avg_latency_ms"] == statistics.mean(latencies)
    assert window["tokens_per_second"] == 6 / (10 / 64)
    assert window["success_rate"] == 0.75
    assert (window["total_requests"], window["failed_requests"]) == (4, 1)
    assert window["window_duration_seconds"] == 300
    assert "total_requests" in inclusive
    assert graph.column("total_requests (inc)")[0] == 4


CONTINUOUS = '''
import proton
from typing import Callable
import statistics

class ContinuousProfiler:
    """
    Continuous profiling with performance monitoring and alerts
    """
    def __init__(self,
                 window_seconds: int = 300,
                 alert_callback: Callable = None):
        self.window_seconds = window_seconds
        self.alert_callback = alert_callback
        self.performance_history = deque(maxlen=20)  # Keep last 20 windows
        self.baseline_metrics = None
        
    def profile_with_monitoring(self):
        """Profile and monitor for performance anomalies"""
        timestamp = datetime.now().strftime("%Y%m%d_%H%M%S")
        profile_name = f"continuous_{timestamp}"
        
        session = proton.start(profile_name, backend="cupti")
        proton.activate(session)
        
        # Let it run for the window duration
        time.sleep(self.window_seconds)
        
        proton.deactivate(session)
        proton.finalize(session)
        
        # Analyze the profile
        metrics = self._analyze_profile(f"{profile_name}.hatchet")
        self.performance_history.append(metrics)
        
        # Check for anomalies
        if self._detect_anomaly(metrics):
            if self.alert_callback:
                self.alert_callback(metrics)
                
    def _analyze_profile(self, profile_path):
        """Extract key metrics from profile"""
        gf, _ = proton.parse(["time/ms", "util"], profile_path)
        
        return {
            "timestamp": datetime.now(),
            "avg_kernel_time_ms": gf.dataframe['time/ms (inc)'].mean(),
            "max_kernel_time_ms": gf.dataframe['time/ms (inc)'].max(),
            "avg_utilization": gf.dataframe['util'].mean(),
            "profile_path": profile_path
        }
        
    def _detect_anomaly(self, current_metrics):
        """Detect performance anomalies"""
        if len(self.performance_history) < 5:
            return False  # Not enough history
            
        # Calculate statistics from history
        avg_times = [m["avg_kernel_time_ms"] for m in self.performance_history[-5:]]
        historical_avg = statistics.mean(avg_times)
        historical_std = statistics.stdev(avg_times)
        
        # Alert if current performance is 2 std devs away from mean
        if abs(current_metrics["avg_kernel_time_ms"] - historical_avg) > 2 * historical_std:
            return True
            
        return False
'''  # noqa: W293


class Deque(deque[Any]):
    """A deque that can be sliced, as the example does with its history."""

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        return [*self][at]


def test_continuous_profiling_with_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    clock = Clock()
    given = [path("kernels"), path("optimized")] * 3 + [path("hip")]
    Gpu(monkeypatch, given)
    names = run(CONTINUOUS, datetime=clock, time=clock, deque=Deque)
    alerts: list[Any] = []
    profiler = names["ContinuousProfiler"](alert_callback=alerts.append)
    for _window in range(6):
        profiler.profile_with_monitoring()
    first = profiler.performance_history[0]
    assert first["profile_path"] == "continuous_20260102_030405.hatchet"
    assert first["timestamp"] == datetime(2026, 1, 2, 3, 9, 5)
    graph = marey.graph.Graph.read(path("kernels"))
    times_ms = [time_ns / 1e6 for time_ns in graph.column(TIME)]
    assert first["max_kernel_time_ms"] == pytest.approx(max(times_ms))
    assert first["avg_kernel_time_ms"] == pytest.approx(statistics.mean(times_ms))
    assert 0 < first["avg_utilization"] < 10
    # The example counts a window to its own history, so it hardly ever alerts by itself.
    assert alerts == []
    assert not profiler._detect_anomaly(first)
    slow = {**first, "avg_kernel_time_ms": 10 * first["avg_kernel_time_ms"]}
    assert profiler._detect_anomaly(slow)


COMPARING = """
# Compare GPU 0 and GPU 1 performance
proton-viewer -m time/ms --diff-profile profile_rank_0.hatchet profile_rank_1.hatchet

# View all GPU profiles side by side
for rank in {0..7}; do
    echo "=== Rank $rank ==="
    proton-viewer -m time/ms,util --print-sorted profile_rank_$rank.hatchet | head -20
done
"""

STALLS = """
proton-viewer -m "StalledBranchResolving,StalledMemoryDependency" detailed.hatchet
"""


def shell(commands: str) -> str:
    """Runs commands in bash, with `marey-viewer` as `proton-viewer`; returns their output."""
    viewer = Path("bin/proton-viewer")
    viewer.parent.mkdir()
    program = "from marey._cli import viewer; viewer()"
    viewer.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{program}' \"$@\"\n")
    viewer.chmod(0o755)
    path = f"{viewer.parent.absolute()}:{os.environ['PATH']}"
    done = run_command("bash", "-e", "-c", commands, PATH=path)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_comparing_multi_gpu_profiles() -> None:
    for rank in range(8):
        source = path("optimized" if rank % 2 else "kernels")
        shutil.copy(source, f"profile_rank_{rank}.hatchet")
    compared, *ranks = shell(COMPARING).split("=== Rank ")
    first, second = (marey.parse(["time/ms"], f"profile_rank_{rank}.hatchet")[0] for rank in (0, 1))
    assert compared == (second - first).tree(expand_name=True) + "\n"
    assert compared.startswith("-0.373 ROOT\n")
    assert [shown.splitlines()[0] for shown in ranks] == [f"{rank} ===" for rank in range(8)]
    for rank, shown in enumerate(ranks):
        graph, labels = marey.parse(["time/ms", "util"], f"profile_rank_{rank}.hatchet")
        tree = graph.tree(labels, expand_name=True).splitlines()
        assert shown.splitlines()[1:20] == tree[:19]


def test_the_metrics_of_pc_sampling_go_by_their_documented_names() -> None:
    shutil.copy(path("samples"), "detailed.hatchet")
    graph = marey.graph.Graph.read("detailed.hatchet")
    labels = ["stalled_branch_resolving (inc)", "stalled_long_scoreboard (inc)"]
    assert shell(STALLS) == graph.tree(labels, expand_name=True) + "\n"
