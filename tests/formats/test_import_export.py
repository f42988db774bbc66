"""Other formats from Python: `marey.open`, `marey.import_files` and `Run.export`."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import marey
import pytest
from programs import run_command, run_well
from run_programs import COUNTS, record_in
from trace_files import run_rows

# Two operators, one inside the other, in microseconds.
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 7, "tid": 1, "ts": 10, "dur": 8},
    {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 7, "tid": 1, "ts": 12, "dur": 3},
]
PATIENCE_SECS = 60
SPANS = "SELECT path, duration_nanos FROM spans ORDER BY path"


def trace(path: Path, cut: int = 0) -> Path:
    """Writes a trace in the format of `torch.profiler`, without its last bytes."""
    content = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS})
    path.write_bytes(gzip.compress(content[: len(content) - cut].encode()))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_in(tmp_path_factory.mktemp("recorded"))


def test_calls_are_counted_by_path() -> None:
    source = """
        import marey
        marey.start("x")
        for _ in range(3):
            with marey.scope("outer"):
                for _ in range(2):
                    with marey.scope("inner"):
                        pass
        marey.finalize()
        """
    run_well(source)
    counts = run_rows("x.hatchet", "SELECT path, count FROM flame ORDER BY path")
    assert counts == [("outer", 3), ("outer/inner", 6)]


def test_temporary_files_follow_the_current_tmpdir(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = trace(Path("trace.json.gz"))
    # Variables are looked up when a file is opened, and not while it is read.
    for folder in (tmp_path / "first", tmp_path / "second"):
        monkeypatch.setenv("TMPDIR", str(folder))
        with pytest.raises(FileNotFoundError, match=f"{folder}"):
            marey.open(path)
        folder.mkdir()
        marey.open(path).close()
        assert list(folder.iterdir()) == []


def test_a_trace_is_opened_as_a_run() -> None:
    with marey.open(trace(Path("trace.json.gz"))) as run:
        assert run.sql(SPANS).rows() == [("outer", 8_000), ("outer/inner", 3_000)]
        assert run.path == str(Path("trace.json.gz").absolute())
        assert "trace.json.gz" in repr(run)


def test_losses_are_warnings() -> None:
    file = trace(Path("cut.json.gz"), cut=20)
    with pytest.warns(UserWarning, match=r"`: byte \d+: .* \(the rest is skipped"):
        run = marey.open(file)
    assert run.info()["losses"] == {"truncated_files": 1}
    assert run.sql(SPANS).column("path") == ["outer"]


def test_unreadable_files_are_errors() -> None:
    Path("notes.txt").write_text("hello world")
    with pytest.raises(marey.UnreadableRun, match="its content is of no known format"):
        marey.open("notes.txt")
    Path("bad.hatchet").write_text('[{"frame": 5}]')
    with pytest.raises(marey.UnreadableRun, match="byte 11: expected the frame"):
        marey.open("bad.hatchet")
    with pytest.raises(FileNotFoundError):
        marey.open("absent.json")


def test_a_pipe_can_be_imported() -> None:
    content = trace(Path("trace.json.gz")).read_bytes()
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(Path("pipe").write_bytes, content)
        with marey.open("pipe") as run:
            assert run.sql(SPANS).column("path") == ["outer", "outer/inner"]
        assert sent.result() == len(content)


def test_importing_no_files_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are no files to import"):
        marey.import_files([], "job.marey")
    assert list(Path().iterdir()) == []


def test_several_files_are_imported_into_one_run() -> None:
    marey.import_files([trace(Path("a.json.gz")), trace(Path("b.json.gz"))], "job.marey")
    with marey.open("job.marey") as run:
        assert len(run.sql(SPANS)) == 4
        assert len(run.info()["processes"]) == 2
    with pytest.raises(FileExistsError):
        marey.import_files("a.json.gz", "job.marey")
    marey.import_files(Path("a.json.gz"), b"one.marey")
    assert len(run_rows("one.marey", SPANS)) == 2


@pytest.mark.filterwarnings("ignore:.* cannot represent")
def test_a_run_is_exported_and_read_again(path: Path) -> None:
    with marey.open(path) as run:
        assert run.export("run.hatchet") == ["run.hatchet"]
        assert run.export(Path("trace.json.gz")) == ["trace.json.gz"]
        # A file that is there is replaced.
        assert run.export("trace.json.gz", format="chrome-trace") == ["trace.json.gz"]
    graph, [calls] = marey.parse(["calls"], "run.hatchet")
    assert sum(graph.dataframe[calls].dropna()) == sum(COUNTS.values())
    names = dict(run_rows("trace.json.gz", "SELECT path, count(*) FROM spans GROUP BY path"))
    assert names == COUNTS


def test_data_that_a_format_cannot_represent_is_a_warning(path: Path) -> None:
    with (
        marey.open(path) as run,
        pytest.warns(UserWarning, match="collapsed cannot represent 40 metric values"),
    ):
        run.export("stacks.collapsed")
    assert Path("stacks.collapsed").read_text().count("step;forward;layer ") == 1


@pytest.mark.filterwarnings("ignore:.* cannot represent")
def test_a_time_window_is_exported(path: Path) -> None:
    with marey.open(path) as run:
        middle = run.sql("SELECT min(start_nanos) FROM spans WHERE name = 'load'").rows()[0][0]
        run.export("before.json", end=middle)
        run.export("after.json", start=middle)
        [(last,)] = run.sql("SELECT max(end_nanos) FROM processes").rows()
        with pytest.raises(marey.CannotExport, match="no events"):
            run.export("nothing.json", start=last + 10**9)
    assert not Path("nothing.json").exists()
    query = "SELECT name, count(*) FROM spans GROUP BY name"
    rows = {part: dict(run_rows(f"{part}.json", query)) for part in ("before", "after")}
    assert rows["after"] == {"load": COUNTS["load"]}
    assert rows["before"] == {
        name.rpartition("/")[2]: count for name, count in COUNTS.items() if name != "load"
    }


@pytest.mark.filterwarnings("ignore:.* cannot represent")
def test_a_folder_gets_a_file_with_the_default_name(path: Path) -> None:
    Path("out").mkdir()
    with marey.open(path) as run:
        [trace_file] = run.export("out", format="kineto")
        [stacks] = run.export("out/", format="pprof")
    assert trace_file.endswith(".pt.trace.json.gz")
    assert stacks == "out/train.pb.gz"


def test_numpy_integers_are_accepted(path: Path) -> None:
    np = pytest.importorskip("numpy")
    with marey.open(path) as run:
        for steps in (np.int64(3), (np.uint8(3), 4)):
            with pytest.raises(marey.CannotExport, match="the run has none of the selected steps"):
                run.export("x.svg", steps=steps)
        with pytest.raises(marey.CannotExport, match="the run has no rank 5"):
            run.export("x.svg", ranks=np.array([5]))


@pytest.mark.filterwarnings("ignore:.* cannot represent")
def test_missing_folders_are_created(path: Path) -> None:
    with marey.open(path) as run:
        assert run.export("new/one/", format="collapsed") == ["new/one/train.collapsed"]
        [events] = run.export("logs", format="tensorboard")
    assert Path(events).is_file()
    assert Path(events).parent == Path("logs")


def test_exports_that_fail_are_errors(path: Path) -> None:
    with marey.open(path) as run:
        with pytest.raises(ValueError, match='unknown format "xls"'):
            run.export("x", format="xls")
        with pytest.raises(ValueError, match='invalid time "soon"'):
            run.export("x.svg", start="soon")
        with pytest.raises(ValueError, match="pass only one of them"):
            run.export("x.svg", start=0, steps=1)
        with pytest.raises(marey.CannotExport, match="does not imply a format"):
            run.export("x.txt")
        with pytest.raises(marey.CannotExport, match="the run has none of the selected steps"):
            run.export("x.svg", steps=(3, 4))
        with pytest.raises(marey.CannotExport, match="the run has no rank 5"):
            run.export("x.svg", ranks=[5])
        with pytest.raises(marey.CannotExport, match="the start must be before the end"):
            run.export("x.svg", start="2s", end="1s")
        for steps in (-1, (0, 1 << 32)):
            with pytest.raises(ValueError, match="there is no step"):
                run.export("x.svg", steps=steps)
        with pytest.raises(ValueError, match="there is no rank -1"):
            run.export("x.svg", ranks=[0, -1])
        with pytest.raises(TypeError, match="integer"):
            run.export("x.svg", steps=1.0)  # type: ignore[arg-type]
        with pytest.raises(marey.CannotExport, match="cannot write `no/such/x"):
            run.export("no/such/x.svg")
    assert list(Path().iterdir()) == []


def test_exporting_does_not_change_signal_handlers(path: Path) -> None:
    """Ctrl-C stays with Python; only the program `marey` handles signals itself."""
    program = """
import signal, sys, warnings
import marey
warnings.simplefilter("ignore")
marey.open(sys.argv[1]).export("x.svg")
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = run_command(sys.executable, "-c", program, path)
    assert (done.exit_code, done.stdout) == (0, "interrupted\n")


def test_a_terminal_shows_the_progress_of_an_import() -> None:
    os.mkfifo("trace.json")
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "marey", "import", "trace.json", "-o", "run.marey"]
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    with open("trace.json", "w", encoding="utf-8") as file:
        # The import waits for the rest of the file, and shows progress.
        file.write(json.dumps(EVENTS)[:-1])
        file.flush()
        shown = b""
        while b"importing" not in shown:
            assert select.select([ours], [], [], PATIENCE_SECS)[0], shown
            shown += os.read(ours, 1 << 16)
        file.write("]")
    assert program.wait(PATIENCE_SECS) == 0
    with suppress(OSError), open(ours, "rb", buffering=0) as terminal:
        while rest := terminal.read(1 << 16):
            shown += rest
    line = shown.rsplit(b"\r", 1)[-1]
    assert b"importing" not in line, "the bar is gone at the end"
    assert run_rows("run.marey", SPANS) == [("outer", 8_000), ("outer/inner", 3_000)]


def test_an_export_after_a_command_in_the_process_leaves_signals_to_the_program() -> None:
    trace(Path("trace.json.gz"))
    source = """
        import marey, re, signal
        from marey import _engine
        assert _engine.cli_main(["marey", "schema"]) == 0
        marey.open("trace.json.gz").export("out.collapsed")
        status = open("/proc/self/status").read()
        caught = int(re.search("SigCgt:\\\\s*(.*)", status)[1], 16)
        numbers = (signal.SIGTERM, signal.SIGHUP)
        print([caught >> (number - 1) & 1 for number in numbers])
        """
    assert run_well(source, "-W", "ignore").splitlines()[-1] == "[0, 0]"
