"""The commands `marey profile` and `marey run --profile`."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import pytest
from marey.training import ProfilerConfig, TrainingProfiler
from marey.training.listen import resolve
from programs import LiveCommand, marey_command, write_program
from training_loops import FILE, saved, walk_files

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


def test_a_sample_is_marked_in_each_format() -> None:
    config = dataclasses.replace(ALL, sample_rate=0.25, adaptive_sampling=False)
    summary = saved(config, 16).get_summary()
    document = json.loads(profile("analyze", FILE, "--format", "json"))
    assert document["summary"] == summary
    assert document["summary"]["is_extrapolated"] is True
    assert all(operation["is_extrapolated"] is True for operation in document["operations"])
    line = "Times are extrapolated from the recorded epochs (total_samples)."
    assert profile("compare", FILE, FILE).splitlines()[-1] == line
    recorded = f"{summary['total_samples']} of 16; sums and counts are of these"
    profile("analyze", FILE, "--format", "html", "-o", "page.html")
    assert recorded in Path("page.html").read_text()
    assert f"Recorded epochs: {recorded}" in marey_command("analyze", FILE).stdout


@pytest.mark.parametrize("megabytes", [5, 15])
def test_the_page_takes_a_leak_by_epochs_and_not_by_recorded_steps(megabytes: int) -> None:
    kept = []
    profiler = TrainingProfiler(dataclasses.replace(ALL, sample_rate=0.25, adaptive_sampling=False))
    for _ in range(60):
        profiler.callback.on_epoch_begin()
        kept.append(bytearray(b"x") * megabytes * 1_000_000)
        profiler.callback.on_epoch_end()
    profiler.save(FILE)
    kept.clear()
    report = json.loads(marey_command("analyze", FILE, "-f", "json").stdout)
    found = [each["description"] for each in report["findings"] if each["rule"] == "memory_leak"]
    # In a step from one recorded epoch to the next it grows by four times as much.
    assert len(found) == (megabytes > 10)
    assert all(f"grew by {megabytes}" in each and "per epoch" in each for each in found)


def test_all_epochs_are_no_sample() -> None:
    saved(ALL, 3)
    assert "extrapolated" not in profile("compare", FILE, FILE)
    assert "Recorded epochs" not in marey_command("analyze", FILE).stdout


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
    with viewing("--port", str(port)) as viewer:
        address, _, until = viewer.read_line().rpartition(" until ")
        assert until == "Ctrl-C"
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
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.end().exit_code == 0


def test_the_port_of_view_is_prism_s() -> None:
    listen = resolve()
    assert (listen.address, listen.port) == ("127.0.0.1", 8051)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--listen", "0.0.0.0"), "error: 0.0.0.0 can be reached from other machines"),
        (("--listen", "[::]:8080"), "error: :: can be reached from other machines"),
        (("--listen", "[::1]8080"), "is not [ADDRESS]:PORT"),
        (("--listen", ":0"), "port '0' must be a number from 1 to 65535"),
        (("--listen", ":8080", "--port", "8081"), "--listen and --port both name a port"),
        (("--listen", "no such host"), "--listen no such host: "),
        (("--tls-cert", "cert.pem"), "--tls-cert and --tls-key are given together"),
        (("--tls-cert", FILE, "--tls-key", FILE), f"--tls-cert {FILE} and --tls-key {FILE}: "),
    ],
)
def test_view_refuses_to_listen_where_it_cannot_or_must_not(
    arguments: tuple[str, ...], message: str
) -> None:
    saved(ALL, 1)
    done = marey_command("profile", "view", FILE, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    if "can be reached" in message:
        assert "hint: give --tls-cert FILE and --tls-key FILE, or --insecure" in done.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Returns the files of a certificate of this machine, signed by itself, and of its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not on this machine")
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subject = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = [openssl, *request, *subject, "-out", cert, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key


def test_view_shows_the_page_to_other_machines_over_tls(certificate: tuple[str, str]) -> None:
    saved(ALL, 3)
    port, (cert, key) = free_port(), certificate
    options = ("--listen", f"0.0.0.0:{port}", "--tls-cert", cert, "--tls-key", key)
    trusted = ssl.create_default_context(cafile=cert)
    with viewing(*options) as viewer:
        address = viewer.read_line().removesuffix(" until Ctrl-C")
        token = address.rpartition("=")[2]
        assert address.startswith(f"{FILE} is at https://{socket.gethostname()}:{port}/?token=")
        silent = socket.create_connection(("127.0.0.1", port))  # makes no handshake
        url = f"https://127.0.0.1:{port}/?token={token}"
        with urllib.request.urlopen(url, context=trusted) as page:
            assert "forward" in page.read().decode()
        other = urllib.request.Request(url, headers={"Host": f"example.com:{port}"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(other, context=trusted)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, context=old)
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(url.replace("https", "http"))
        silent.close()
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.end()[1:] == ("", "")


def test_view_warns_where_the_page_is_sent_unencrypted() -> None:
    saved(ALL, 3)
    port = free_port()
    with viewing("--listen", "0.0.0.0", "--port", str(port), "--insecure") as viewer:
        address = viewer.read_line().removesuffix(" until Ctrl-C")
        url = f"http://127.0.0.1:{port}/?token={address.rpartition('=')[2]}"
        with urllib.request.urlopen(url) as page:
            assert "forward" in page.read().decode()
        named = urllib.request.Request(url, headers={"Host": f"{socket.gethostname()}:{port}"})
        urllib.request.urlopen(named).close()
        other = urllib.request.Request(url, headers={"Host": f"example.com:{port}"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(other)
        viewer.process.send_signal(signal.SIGINT)
        errors = viewer.end().stderr
    assert errors.startswith("warning: the page and its token are sent unencrypted")
    assert errors.count("\n") == 1


def viewing(*options: str) -> LiveCommand:
    """Runs `marey profile view`, which prints the address of the page."""
    return LiveCommand(sys.executable, "-m", "marey", "profile", "view", FILE, *options)


def test_the_help_of_profile_describes_each_option() -> None:
    helped = marey_command("profile", "--help")
    assert helped.exit_code == 0
    assert marey_command("profile").stdout == helped.stdout
    assert marey_command("profile", "view", "--help").stdout == helped.stdout
    described = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", helped.stdout, re.MULTILINE))
    listening = {"--listen", "--port", "--tls-cert", "--tls-key", "--insecure"}
    assert described == {"--format", "--output", "--help"} | listening


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
