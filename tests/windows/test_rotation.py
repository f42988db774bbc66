"""Windows follow each other without a gap, nothing is counted twice, and old ones are deleted."""

from __future__ import annotations

import itertools
import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import marey
import pytest
from marey import _native
from marey.windows import (
    ContinuousProfiler,
    LLMInferenceProfiler,
    RollingWindowProfiler,
    ServiceWindowProfiler,
    TimeWindowProfiler,
    Window,
    background,
    retention,
    rotation,
)
from profiles import record_scope
from programs import Live, marey_command, run_program, run_well, until, write_program
from window_files import call_on_threads, paths, total


@contextmanager
def unwritable() -> Iterator[None]:
    """Puts a file where the folder of the windows is."""
    os.rename("profiles", "elsewhere")
    Path("profiles").touch()
    yield
    os.remove("profiles")
    os.mkdir("profiles")


@pytest.fixture
def profiler() -> TimeWindowProfiler:
    """A profiler whose first window is open and does not end by itself."""
    profiler = TimeWindowProfiler(300)
    profiler.start_window()
    return profiler


def test_each_scope_is_in_exactly_one_window() -> None:
    profiler = TimeWindowProfiler(0.02)
    profiler.start_window()
    entered = call_on_threads(lambda: record_scope("request"), lambda: len(profiler.windows) >= 8)
    profiler.end_window()
    assert total(paths(profiler.windows), "request") == entered
    assert len(profiler.windows) == profiler.window_count >= 9


def test_a_window_begins_where_the_one_before_has_ended(profiler: TimeWindowProfiler) -> None:
    for _ in range(3):
        profiler.rotate_profile()
    profiler.end_window()
    windows = profiler.windows
    assert [window.number for window in windows] == [0, 1, 2, 3]
    for before, after in itertools.pairwise(windows):
        assert before.end == after.start


def test_no_event_loop_and_no_listed_thread_ends_the_windows() -> None:
    output = run_well(
        """
        import sys, threading, marey
        from marey.windows import TimeWindowProfiler

        profiler = TimeWindowProfiler(0.02, hook=None)
        profiler.start_window()
        while len(profiler.windows) < 3:
            pass
        print("asyncio" in sys.modules, threading.active_count(), "marey._engine" in sys.modules)
        profiler.end_window()
        """
    )
    assert output == "False 1 False\n"


def test_a_rotation_by_hand_restarts_the_period(profiler: TimeWindowProfiler) -> None:
    timer = profiler._windows._timer
    assert timer is not None
    restarts = timer.restarts
    profiler.rotate_profile()
    # The period had ended just before, and its end waited for the rotation by hand.
    profiler._windows._rotate_if_due(restarts)
    assert profiler.window_count == 2
    profiler._windows._rotate_if_due(timer.restarts)
    assert profiler.window_count == 3
    profiler.end_window()


def test_names_of_profiles_are_those_that_are_documented() -> None:
    profilers: list[Any] = [
        TimeWindowProfiler(300),
        ServiceWindowProfiler(300),
        LLMInferenceProfiler(5),
        RollingWindowProfiler(5),
        ContinuousProfiler(300),
    ]
    for profiler in profilers:
        profiler._windows.begin()
        profiler._windows.end()
    names = sorted(
        "/".join(Path(path).relative_to(Path.cwd()).parts)
        for profiler in profilers
        for path in paths(profiler.windows)
    )
    time = profilers[0].windows[0].start.strftime("%Y%m%d_%H%M")
    assert [name.partition(time)[0] for name in names] == [
        "continuous_",
        "inference_profiles/inference_standard_w1_",
        "profiles/profile_window_0_",
        "rolling_profiles/rolling_",
        "service_profiles/service_window_0_",
    ]


def test_attributes_state_their_arguments_and_what_is_open() -> None:
    time = TimeWindowProfiler(60, "a")
    assert (time.window_duration, time.output_dir, time.window_count) == (60, "a", 0)
    assert (time.current_session, time.profiling) == (None, False)
    time.start_window()
    assert time.current_session in _native.sessions()
    assert (time.window_count, time.profiling) == (1, True)
    time.end_window()
    inference = LLMInferenceProfiler(2, "b", 7)
    assert (inference.window_duration, inference.profile_dir) == (timedelta(minutes=2), "b")
    assert (inference.detailed_interval, inference.window_number) == (7, 0)
    assert (inference.current_session, inference.window_start_time) == (None, None)
    rolling = RollingWindowProfiler(2, 4, "c")
    assert (rolling.window_size, rolling.max_windows, rolling.profile_dir) == (120, 4, "c")
    assert (rolling.current_session, [*rolling.profile_queue]) == (None, [])
    service = ServiceWindowProfiler(9)
    assert (service.window_seconds, service.window_start, service.current_requests) == (9, None, [])
    continuous = ContinuousProfiler(9, print)
    assert (continuous.window_seconds, continuous.alert_callback) == (9, print)
    assert (continuous.baseline_metrics, [*continuous.performance_history]) == (None, [])


def test_windows_of_one_second_have_different_names() -> None:
    profiler = RollingWindowProfiler(10, max_windows_kept=9)
    for _ in range(5):
        profiler.start_new_window()
    profiler.stop()
    assert len(set(profiler.get_recent_profiles())) == 5
    assert all(map(os.path.exists, profiler.get_recent_profiles()))
    assert len(os.listdir("rolling_profiles")) == 5


def test_ranks_do_not_share_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    profiler = TimeWindowProfiler(300)
    profiler.start_window()
    record_scope("step")
    profiler.end_window()
    (path,) = paths(profiler.windows)
    assert "profile_window.rank3_0_" in path
    assert total([path], "step") == 1


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (2, [3, 4]),
        ("3", [2, 3, 4]),
        ("150s", [2, 3, 4]),
        ("25 kB", [3, 4]),
        ("1GB", [0, 1, 2, 3, 4]),
        ("1GB,4,1h", [1, 2, 3, 4]),
        ("1kB", [4]),
        ("1s", [4]),
        (None, [0, 1, 2, 3, 4]),
    ],
)
def test_old_windows_go_by_number_age_and_bytes(keep: str | int | None, kept: list[int]) -> None:
    now = datetime(2026, 10, 25, 2, 30)
    windows = []
    for number in range(5):
        path = Path(f"{number}.hatchet")
        path.write_bytes(bytes(10_000))
        # In the night in which the clocks go back, each window ends at the same local time.
        window = Window(number, now, str(path), end=now, end_seconds=60.0 * number)
        windows.append(window)
    expired = retention.parse(keep).expired(windows, now_seconds=240.0)
    assert [window.number for window in windows if window not in expired] == kept


def test_files_of_old_windows_are_deleted_and_other_files_are_not() -> None:
    os.mkdir("profiles")
    Path("profiles/profile_window_0_20250101_000000.hatchet").write_text("of another run")
    profiler = TimeWindowProfiler(300, keep=2)
    profiler.start_window()
    for _ in range(4):
        profiler.rotate_profile()
    profiler.end_window()
    left = {os.path.basename(path) for path in paths(profiler.windows)}
    assert len(left) == 2
    assert set(os.listdir("profiles")) == {*left, "profile_window_0_20250101_000000.hatchet"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TimeWindowProfiler(0), "window_duration_seconds must be a finite number greater"),
        (lambda: TimeWindowProfiler(math.nan), "window_duration_seconds must be a finite number"),
        (lambda: ServiceWindowProfiler(-1), "window_seconds must be .*, not -1"),
        (lambda: ContinuousProfiler(math.inf), "window_seconds must be a finite number"),
        (lambda: LLMInferenceProfiler(0), "window_minutes must be"),
        (lambda: LLMInferenceProfiler(5, "x", 0), "detailed_sampling_interval must be at least 1"),
        (lambda: RollingWindowProfiler(5, 0), "max_windows_kept must be at least 1, not 0"),
        (lambda: TimeWindowProfiler(5, keep="soon"), "keep 'soon' is no limit; known: 12 "),
        (lambda: TimeWindowProfiler(5, keep=-3), "keep must be at least 1, not -3"),
        (lambda: ContinuousProfiler(alerts=["stepp"]), "no metric 'stepp'; did you mean steps?"),
        (lambda: ContinuousProfiler(alerts=["steps>3"]), "write METRIC>.20% or METRIC<-20%"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _any(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TimeWindowProfiler(_any("5m")),
            "seconds must be a number, not '5m'",
        ),
        (lambda: RollingWindowProfiler(5, _any(2.5)), "max_windows_kept must be a whole number"),
        (
            lambda: ContinuousProfiler(5, _any("call")),
            "alert_callback must be callable",
        ),
        (lambda: ContinuousProfiler(5, alerts="steps"), "alerts must be a sequence"),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_an_end_without_a_start_is_an_error_that_says_so() -> None:
    for end in (
        TimeWindowProfiler().end_window,
        ServiceWindowProfiler().end_window,
        LLMInferenceProfiler().end_profiling_window,
        RollingWindowProfiler().stop,
        ContinuousProfiler().stop,
    ):
        with pytest.raises(RuntimeError, match="Profiler: no window to end; none was started"):
            end()


def test_a_second_start_is_an_error_and_the_window_goes_on(profiler: TimeWindowProfiler) -> None:
    with pytest.raises(RuntimeError, match="TimeWindowProfiler: window 0 is open already"):
        profiler.start_window()
    record_scope("step")
    profiler.end_window()
    assert total(paths(profiler.windows), "step") == 1


def test_a_profiler_can_be_started_again() -> None:
    profiler = TimeWindowProfiler()
    for _ in range(2):
        profiler.start_window()
        record_scope("step")
        profiler.end_window()
    assert [window.number for window in profiler.windows] == [0, 1]
    assert [total([path], "step") for path in paths(profiler.windows)] == [1, 1]
    assert len(os.listdir("profiles")) == 2


def test_an_exception_in_a_scope_leaves_the_window_whole(profiler: TimeWindowProfiler) -> None:
    with pytest.raises(ZeroDivisionError), marey.scope("step"):
        1 / 0  # noqa: B018
    profiler.end_window()
    assert total(paths(profiler.windows), "step") == 1


def test_a_folder_that_cannot_be_made_is_named() -> None:
    Path("file").touch()
    with pytest.raises(OSError, match="file"):
        TimeWindowProfiler(output_dir="file/profiles").start_window()
    with pytest.raises(OSError, match="file"):
        LLMInferenceProfiler(profile_dir="file/profiles")


def test_what_cannot_be_written_is_kept_and_written_later(profiler: TimeWindowProfiler) -> None:
    record_scope("step")
    unwritten = r"window 0 is not written and stays in memory: .*profiles"
    with unwritable():
        with pytest.raises(OSError, match=unwritten):
            profiler.rotate_profile()
        record_scope("step")
        with pytest.raises(OSError, match="window 1 is not written"):
            profiler.end_window()
        assert profiler.windows == []
    record_scope("step")
    profiler.end_window()
    assert [total([path], "step") for path in paths(profiler.windows)] == [1, 1, 1]
    assert len(os.listdir("profiles")) == 3


def test_a_full_disk_keeps_the_windows_and_leaves_no_part_of_a_file() -> None:
    done = run_program("""
        import os, resource
        import marey
        from marey.windows import LLMInferenceProfiler

        def limit(size_bytes):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

        profiler = LLMInferenceProfiler()
        profiler.start_profiling_window()
        for is_full in (True, False):
            profiler.record_request(5, 3, 7)
            limit(100 if is_full else resource.RLIM_INFINITY)
            try:
                profiler._windows.rotate()
            except OSError as error:
                print("File too large" in str(error), os.listdir("inference_profiles"))
        profiler.end_profiling_window()
        names = os.listdir("inference_profiles")
        print(*sorted(name.split("_2")[0] for name in names))
    """)
    assert done.exit_code == 0, done.stderr
    first, names = done.stdout.splitlines()
    assert first == "True []"
    assert names.split() == [
        *(f"inference_standard_w{number}" for number in (1, 2, 3)),
        *(f"metadata_w{number}.json" for number in (1, 2, 3)),
    ]


def test_metadata_on_a_full_disk_leaves_no_part_of_it() -> None:
    done = run_program("""
        import os, resource
        from marey.windows.files import write_new

        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            write_new("metadata_w0.json", "x" * 1000)
        except OSError as error:
            print(error.strerror, os.listdir())
    """)
    assert done.stdout == "File too large ['program.py']\n"


def test_windows_end_at_multiples_of_their_length_after_the_first_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(background, "monotonic", lambda: now)
    monkeypatch.setattr("_thread.start_new_thread", lambda *_: None)
    timer = background.Timer(10, print)
    timer.start()
    for late, following in ((111.5, 120), (120, 130), (155, 160)):
        now = late
        assert timer._wait(timer._generation) == 0
        assert timer._deadline == following
    timer.restart()
    assert timer._deadline == 165  # the program has ended the window itself


def test_windows_go_on_by_themselves_after_an_end_that_could_not_be_written() -> None:
    profiler = TimeWindowProfiler(0.02)
    profiler.start_window()
    with unwritable(), pytest.raises(OSError, match="is not written"):
        profiler.end_window()
    until(lambda: profiler.windows)
    profiler.end_window()


def test_memory_is_limited_while_nothing_can_be_written(
    profiler: TimeWindowProfiler,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rotation, "MAX_UNWRITTEN", 3)
    with unwritable():
        for _ in range(5):
            record_scope("step")
            with pytest.raises(OSError, match="is not written"):
                profiler.rotate_profile()
    profiler.end_window()
    assert [window.number for window in profiler.windows] == [2, 3, 4, 5]
    assert total(paths(profiler.windows), "step") == 3
    assert len(os.listdir("profiles")) == 4
    assert "marey: window 0 is lost: 3 later ones are not written either" in capfd.readouterr().err


def test_processes_with_one_folder_keep_each_others_windows() -> None:
    output = run_well(
        """
        import os, marey
        from marey.windows import TimeWindowProfiler

        start = os.pipe()
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                os.close(start[1])
                os.read(start[0], 1)
                profiler = TimeWindowProfiler(300, keep=1, hook=None)
                profiler.start_window()
                for _ in range(3):
                    with marey.scope("step"):
                        pass
                    profiler.rotate_profile()
                profiler.end_window()
                os._exit(len(profiler.windows) != 1)
            children.append(child)
        os.close(start[1])
        print([os.waitpid(child, 0)[1] for child in children])
        """
    )
    assert output == "[0, 0, 0, 0]\n"
    assert len(os.listdir("profiles")) == 4


def test_the_timer_says_what_it_cannot_write_and_goes_on() -> None:
    done = run_program(
        """
        import os, marey
        from marey.windows import TimeWindowProfiler

        profiler = TimeWindowProfiler(0.02, hook=None)
        profiler.start_window()
        os.rename("profiles", "elsewhere")
        open("profiles", "w").close()
        with marey.scope("step"):
            pass
        count = profiler.window_count
        while profiler.window_count < count + 2:
            pass
        os.remove("profiles")
        os.mkdir("profiles")
        while not profiler.windows:
            pass
        profiler.end_window()
        """
    )
    assert done.exit_code == 0, done.stderr
    assert "marey: the end of a window failed: " in done.stderr
    assert "is not written and stays in memory" in done.stderr
    files = [f"profiles/{name}" for name in os.listdir("profiles")]
    assert sum(total([path], "step") for path in files) == 1


def test_the_last_window_is_written_at_exit() -> None:
    run_well(
        """
        import marey
        from marey.windows import ServiceWindowProfiler, RequestMetrics

        profiler = ServiceWindowProfiler()
        profiler.start_window()
        profiler.record_request(RequestMetrics(5, 7, True))
        """
    )
    (name,) = os.listdir("service_profiles")
    assert name.startswith("service_window_0_")
    assert total([f"service_profiles/{name}"], "service_window", "total_tokens_generated") == 7


def test_sigkill_leaves_the_windows_up_to_the_last_checkpoint() -> None:
    source = """
        import os, marey
        from marey.windows import TimeWindowProfiler

        profiler = TimeWindowProfiler(hook=None)
        profiler.start_window()
        for name in ("first", "second"):
            with marey.scope(name):
                pass
            if name == "first":
                profiler.rotate_profile()
        marey._native.checkpoint()
        print(os.getpid(), flush=True)
        input()
    """
    with Live(source) as program:
        pid = program.read_line()
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
    files = sorted(os.listdir("profiles"))
    assert len(files) == 2
    (opened,) = (name for name in files if f".{pid}" in name)
    (ended,) = (name for name in files if name != opened)
    assert total([f"profiles/{ended}"], "first") == 1
    assert total([f"profiles/{opened}"], "second") == 1


def test_under_marey_run_windows_have_metrics_and_no_profile() -> None:
    write_program("""
        from marey.windows import RequestMetrics, ServiceWindowProfiler

        profiler = ServiceWindowProfiler()
        profiler.start_window()
        profiler.record_request(RequestMetrics(5, 7, True))
        profiler.end_window()
        (window,) = profiler.windows
        print(window.path, window.metrics["total_tokens_generated"])
    """)
    done = marey_command("run", "--no-torch", "-o", "whole", "program.py")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "None 7\n"


def test_sigterm_leaves_the_open_window_on_disk() -> None:
    program = """
        import marey
        from marey.windows import TimeWindowProfiler

        profiler = TimeWindowProfiler(hook=None)
        profiler.start_window()
        with marey.scope("before"):
            pass
        profiler.rotate_profile()
        with marey.scope("after"):
            pass
        print("ready")
        input()
    """
    with Live(program) as live:
        assert live.read_line() == "ready"
        live.process.send_signal(signal.SIGTERM)
        assert live.end().exit_code == -signal.SIGTERM
        pid = live.process.pid
    names = sorted(os.listdir("profiles"))
    assert names[0] == f"profile_window.{pid}.part_1.hatchet"
    assert total([f"profiles/{names[0]}"], "after") == 1
    assert total([f"profiles/{names[1]}"], "before") == 1


def test_finalize_of_all_sessions_ends_the_windows(profiler: TimeWindowProfiler) -> None:
    record_scope("step")
    marey.finalize()
    profiler.rotate_profile()
    assert not profiler.profiling
    assert total(paths(profiler.windows), "step") == 1
    with pytest.raises(RuntimeError, match="the session has ended"):
        profiler.end_window()


def test_a_forked_child_leaves_the_windows_to_its_parent() -> None:
    output = run_well(
        """
        import os, marey
        from marey.windows import TimeWindowProfiler

        profiler = TimeWindowProfiler(0.02, hook=None)
        profiler.start_window()
        child = os.fork()
        if child == 0:
            assert not profiler.profiling and profiler.windows == []
            profiler.start_window()
            with marey.scope("child"):
                pass
            profiler.end_window()
            os._exit(len(profiler.windows) - 1)
        assert os.waitpid(child, 0)[1] == 0
        with marey.scope("parent"):
            pass
        profiler.end_window()
        print(len(profiler.windows) == profiler.window_count)
        """
    )
    assert output == "True\n"
    files = [f"profiles/{name}" for name in os.listdir("profiles")]
    assert total(files, "parent") == total(files, "child") == 1


def test_other_sessions_go_on() -> None:
    with marey.profile("all"):
        profiler = TimeWindowProfiler()
        profiler.start_window()
        for _ in range(2):
            record_scope("step")
            profiler.rotate_profile()
        profiler.end_window()
        record_scope("step")
    assert total(["all.hatchet"], "step") == 3
    assert total(paths(profiler.windows), "step") == 2


def test_nothing_is_written_where_marey_is_disabled() -> None:
    output = run_well(
        """
        from marey.windows import RequestMetrics, ServiceWindowProfiler

        profiler = ServiceWindowProfiler()
        profiler.start_window()
        profiler.record_request(RequestMetrics(5, 7, True))
        profiler.end_window()
        print([(window.path, window.metrics["total_requests"]) for window in profiler.windows])
        """,
        MAREY_DISABLE="1",
    )
    assert output == "[(None, 1)]\n"
    assert os.listdir("service_profiles") == []
