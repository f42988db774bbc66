"""The commands `marey profile` and `marey run --profile`."""

from __future__ import annotations

import csv
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from marey.training import ProfilerConfig
from marey.training.cli import parser
from programs import DEADLINE_SECS, marey_command, write_program
from training_loops import FILE, saved, walk_files

pytestmark = pytest.mark.usefixtures("own_directory")

ALL = ProfilerConfig(sample_rate=1.0, export_chrome_trace=False)


def profile(*arguments: str) -> str:
    """Runs `marey profile`, which must succeed; returns its output."""
    done = marey_command("profile", *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_analyze_prints_or_writes_the_report() -> None:
    analyzer = saved(ALL, 3, millis=1)
    report = analyzer.get_efficiency_report() + "\n"
    assert profile("analyze", FILE) == report
    assert profile("analyze", FILE, "--output", "report.txt") == ""
    assert Path("report.txt").read_text() == report


def test_analyze_as_json_and_html() -> None:
    analyzer = saved(ALL, 3, millis=1)
    document = json.loads(profile("analyze", FILE, "--format", "json"))
    assert document["summary"] == analyzer.get_summary()
    assert document["operations"] == analyzer.get_top_operations()
    assert document["bottlenecks"][0]["type"] == "hot_operation"
    profile("analyze", FILE, "--format", "html", "-o", "report.html")
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>")


def test_compare_has_prism_s_table() -> None:
    saved(ALL, 3, millis=1)
    Path(FILE).rename("before.pt")
    saved(ALL, 4, millis=1)
    lines = profile("compare", "before.pt", FILE).splitlines()
    assert lines[0] == "Profile Comparison"
    assert lines[2].split() == ["Metric", "Profile", "1", "Profile", "2"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:]}
    assert rows["total_epochs"] == ["3", "4"]
    assert rows["memory_leak_detected"] == ["False", "False"]
    assert list(rows) == [
        "total_samples",
        "total_epochs",
        "total_time_ms",
        "avg_epoch_time_ms",
        "peak_gpu_memory_mb",
        "memory_leak_detected",
    ]
    profile("compare", "before.pt", FILE, "-o", "comparison.txt")
    assert Path("comparison.txt").read_text().splitlines() == lines


def test_export_writes_each_format() -> None:
    saved(ALL, 3)
    profile("export", FILE, "--format", "chrome-trace", "--output", "trace.json")
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events].count("forward") == 3
    profile("export", FILE, "--format", "csv", "--output", "data.csv")
    with open("data.csv", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)].count("forward") == 3
    profile("export", FILE, "--format", "tensorboard", "--output", "logs")
    assert any("tfevents" in str(path) for path in Path("logs").rglob("*"))
    profile("export", FILE, "--format", "json", "--output", "profile.json")
    assert profile("analyze", "profile.json") == profile("analyze", FILE)
    done = marey_command("profile", "export", "profile.json", "--format", "csv", "-o", "x.csv")
    assert done.exit_code == 2
    assert "profile.json has the sums of a profile, not its events" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analyze", "missing.pt"), "missing.pt"),
        (("analyze", "program.py"), "program.py"),
        (("analyze", FILE, "--format", "pdf"), "invalid choice: 'pdf'"),
        (("view", FILE, "--port", "99999"), "port '99999' must be a number from 1 to 65535"),
        (("export", FILE, "--format", "csv"), "required: -o/--output"),
        (("explain", FILE), "invalid choice: 'explain'"),
        (("analyze", FILE, "-o", "missing/report.txt"), "missing/report.txt"),
    ],
)
def test_bad_usage_and_files_are_named(arguments: tuple[str, ...], message: str) -> None:
    saved(ALL, 1)
    write_program("print()")
    done = marey_command("profile", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_view_shows_the_page_to_who_has_its_address_until_ctrl_c() -> None:
    saved(ALL, 3)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "marey", "profile", "view", FILE, "--port", str(port)]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert viewer.stdout is not None
        address, _, until = viewer.stdout.readline().rpartition(" until ")
        assert until == "Ctrl-C\n"
        start, _, token = address.rpartition("=")
        assert start == f"{FILE} is at http://localhost:{port}/?token"
        assert len(bytes.fromhex(token)) == 32
        with urllib.request.urlopen(f"{url}/?token={token}") as page:
            assert "forward" in page.read().decode()
        refused = [
            (url, {}, 403),
            (f"{url}/?token=", {}, 403),
            (f"{url}/?token={token[:-1]}", {}, 403),
            (f"{url}/?token=%C3%A9", {}, 403),
            (f"{url}/etc/passwd?token={token}", {}, 404),
            (f"{url}/?token={token}", {"Host": "example.com"}, 403),
            (f"{url}/?token={token}", {"Origin": "http://example.com"}, 403),
        ]
        for refused_url, headers, status in refused:
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(urllib.request.Request(refused_url, headers=headers))
            assert refusal.value.code == status, refused_url
        done = marey_command("profile", "view", FILE, "--port", str(port))
        assert done.exit_code == 2
        assert f"port {port} cannot be used: Address already in use" in done.stderr
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(DEADLINE_SECS) == 0
    finally:
        viewer.kill()
        viewer.communicate()


def test_the_port_of_view_is_prism_s() -> None:
    assert parser().parse_args(["view", FILE]).port == 8051


def test_the_help_of_profile_describes_each_option() -> None:
    helped = marey_command("profile", "--help")
    assert helped.exit_code == 0
    assert marey_command("profile").stdout == helped.stdout
    assert marey_command("profile", "view", "--help").stdout == helped.stdout
    described = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", helped.stdout, re.MULTILINE))
    assert described == {"--format", "--output", "--port", "--help"}


TRAINING = """
    import torch
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        net(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    print("trained")
"""


def test_run_profile_writes_a_profile() -> None:
    pytest.importorskip("torch")
    write_program(TRAINING, "train.py")
    done = marey_command(
        "run", "--profile", "--profile-output", "experiments/one/profile.pt", "train.py"
    )
    assert (done.exit_code, done.stdout) == (0, "trained\n")
    assert "marey: analyze it with: marey profile analyze experiments/one/profile.pt" in done.stderr
    assert list(walk_files("experiments/one")) == ["profile.pt"]
    report = profile("analyze", "experiments/one/profile.pt")
    assert "Total epochs: 4" in report
    assert "Linear" in report
    assert "Peak host memory" in report


def test_run_profile_has_prism_s_path_by_default() -> None:
    write_program("import marey\nwith marey.scope('work'): pass", "train.py")
    done = marey_command("run", "-n", "experiment", "--profile", "train.py")
    assert done.exit_code == 0, done.stderr
    assert list(walk_files("runs/experiment")) == ["profile.pt"]
    assert "work" in profile("analyze", "runs/experiment/profile.pt")


def test_run_profile_keeps_the_recording_of_a_program_that_fails() -> None:
    source = "import marey\nwith marey.scope('work'): pass\nraise SystemExit(3)"
    write_program(source, "train.py")
    assert marey_command("run", "--profile", "train.py").exit_code == 3
    assert "work" in profile("analyze", "runs/train/profile.pt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--profile-output", "a.pt", "train.py"), "--profile-output needs --profile"),
        (("--profile", "-d", "tree", "train.py"), "--profile needs a trace"),
        (("--profile", "-o", "a.marey", "train.py"), "instead of --output"),
        (("--profile", "--", "true"), "--profile takes a Python script or module"),
    ],
)
def test_options_that_exclude_each_other_are_named(options: tuple[str, ...], message: str) -> None:
    write_program("print('ran')", "train.py")
    done = marey_command("run", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_profiler_in_a_profiled_program_uses_its_recording() -> None:
    source = """
        from marey.training import TrainingProfiler
        profiler = TrainingProfiler()
        for epoch in range(20):
            profiler.callback.on_epoch_begin()
            with profiler.profile_region("work"):
                pass
            profiler.callback.on_epoch_end()
        profiler.save("own.pt")
    """
    write_program(source, "train.py")
    done = marey_command("run", "--profile", "train.py")
    assert done.exit_code == 0, done.stderr
    for path in ("own.pt", "runs/train/profile.pt"):
        assert "Total samples: 20\n" in profile("analyze", path)
