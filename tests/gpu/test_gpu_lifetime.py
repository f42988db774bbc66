"""The lifetime of device recording: starts, ends, forks, signals."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from gpu_programs import gpu_note, losses, program, read_kernels, record, run, try_run
from profiles import counts, profile_names, tree
from programs import Live, marey_command, write_program
from replay import environment

deliveries = pytest.mark.parametrize("delivery", ["inline", "worker"])

# Where CUPTI cannot begin while the driver starts, another thread than the program's begins.
WAIT = """
while marey._native.gpu_level()[0] == "waiting":
    pass
"""


def test_a_session_from_before_the_driver_has_its_first_launch() -> None:
    run(
        """
        marey.start("profile")
        assert double.calls("cuInit") == 0, "a program that forks later could not use CUDA"
        with marey.scope("before"):
            pass
        with marey.scope("step"):
            double.launch("kernel", 5, times=3)  # starts the driver
        marey.finalize()
        """
    )
    assert read_kernels() == {"step/kernel": (3, 15)}
    assert counts(tree("profile.hatchet"))["before"] == 1
    assert gpu_note().startswith("CUPTI 130001")
    assert "missing" not in gpu_note()
    assert losses() == {}
    (devices,) = tree_devices("profile.hatchet").values()
    assert devices["0"]["arch"] == "90", "which the driver says when it has started"


def test_cupti_that_cannot_start_with_the_driver_starts_later() -> None:
    run(
        f"""
        marey.start("profile")
        assert cuda.cuInit(0) == 0
        {WAIT.replace(chr(10), chr(10) + " " * 8)}
        with marey.scope("step"):
            double.launch("kernel", 5)
        marey.finalize()
        """,
        "fail cuptiSubscribe 15 at 1",
    )
    assert read_kernels() == {"step/kernel": (1, 5)}
    assert gpu_note().startswith("CUPTI 130001")
    assert gpu_note().endswith(
        "; recording began after the driver was initialised, earlier launches are missing"
    )


def tree_devices(path: str) -> dict[str, dict[str, dict[str, str]]]:
    """Returns the devices of a profile, by type and number."""
    devices: dict[str, dict[str, dict[str, str]]] = json.loads(Path(path).read_text())[1]
    return devices


def test_naming_the_backend_starts_recording_of_waiting_sessions() -> None:
    run(
        """
        marey.start("waits")
        marey.start("names", backend="cupti")
        assert double.calls("cuInit") > 0
        with marey.scope("step"):
            double.launch("kernel", 5)
        marey.finalize()
        """
    )
    assert read_kernels("waits.hatchet") == read_kernels("names.hatchet") == {"step/kernel": (1, 5)}


def test_the_injection_of_another_tool_is_kept() -> None:
    ended = try_run(
        """
        marey.start("profile")
        assert os.environ["CUDA_INJECTION64_PATH"] == "/nowhere/tool.so"
        with marey.scope("step"):
            double.launch("kernel", 5)
        marey.finalize()
        """,
        CUDA_INJECTION64_PATH="/nowhere/tool.so",
    )
    assert ended.exit_code == 0, ended.stderr
    assert read_kernels() == {}
    assert counts(tree("profile.hatchet")) == {"step": 1}
    assert gpu_note().startswith(
        "the program had not used CUDA; CUDA_INJECTION64_PATH names another"
    )


def test_a_program_without_cuda_does_not_start_the_driver() -> None:
    ended = try_run(
        """
        marey.start("profile")
        with marey.scope("step"):
            pass
        print(double.calls("cuInit"), double.calls("cuptiSubscribe"))
        marey.finalize()
        """
    )
    assert ended.stdout == "0 0\n"
    assert ended.stderr in (  # by whether this machine has one
        "marey: the program used no NVIDIA GPU; the profile holds the host side only\n",
        "marey: no GPU was found; the profile holds the host side only\n",
    )


@deliveries
def test_the_last_session_releases_cupti(delivery: str) -> None:
    run(
        """
        for name in ("first", "second", "third"):
            marey.start(name, backend="cupti")
            double.launch("kernel", 5, times=3)
            marey.finalize()
            before = double.stats()
            double.launch("kernel", 5, times=100)
            after = double.stats()
            assert before.callbacks == after.callbacks > 0
            assert before.written == after.written
        assert double.calls("cuptiSubscribe") == double.calls("cuptiUnsubscribe") == 3
        assert double.calls("cuptiFinalize") == 0, "another tool may use the library"
        """,
        f"delivery {delivery}",
    )
    for name in ("first", "second", "third"):
        assert read_kernels(f"{name}.hatchet") == {"kernel": (3, 15)}
        assert losses(f"{name}.hatchet") == {}


@deliveries
def test_nothing_is_recorded_while_no_session_is_active(delivery: str) -> None:
    record(
        """
        double.launch("kernel", 5)
        marey.deactivate(session)
        double.launch("kernel", 100, times=1000)
        marey.activate(session)
        double.launch("kernel", 7)
        """,
        f"delivery {delivery}",
    )
    assert read_kernels() == {"kernel": (2, 12)}
    assert losses() == {}


def test_marey_disable_does_not_touch_the_driver() -> None:
    run(
        """
        marey.start("profile", backend="cupti")
        double.launch("kernel", 5)
        marey.finalize()
        assert double.calls("cuptiSubscribe") == 0
        """,
        MAREY_DISABLE="1",
    )
    assert profile_names() == []


@deliveries
def test_a_forked_child_records_the_host_and_the_parent_its_kernels(delivery: str) -> None:
    run(
        """
        marey.start("profile", backend="cupti")
        with marey.scope("before"):
            double.launch("kernel", 5)
        child = os.fork()
        if child == 0:
            with marey.scope("child"):
                pass
            marey.finalize()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with marey.scope("after"):
            double.launch("kernel", 7)
        marey.finalize()
        """,
        f"delivery {delivery}",
    )
    assert read_kernels() == {"before/kernel": (1, 5), "after/kernel": (1, 7)}
    (of_child,) = (name for name in profile_names() if name != "profile.hatchet")
    assert read_kernels(of_child) == {}
    assert counts(tree(of_child)) == {"child": 1}


def test_the_end_on_a_thread_without_a_context_waits_for_the_work() -> None:
    run(
        """
        assert cuda.cuInit(0) == 0
        context = ctypes.c_void_p()
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        marey.start("profile", backend="cupti")
        double.launch("kernel", 5)
        thread = threading.Thread(target=marey.finalize)
        thread.start()
        thread.join()
        assert double.calls("cuCtxPushCurrent_v2") == double.calls("cuCtxPopCurrent_v2") > 0
        assert double.calls("cuCtxSynchronize") > 0
        """
    )
    assert read_kernels() == {"kernel": (1, 5)}


@deliveries
def test_kernels_are_written_without_finalize(delivery: str) -> None:
    run(
        """
        marey.start("profile", backend="cupti")
        with marey.scope("step"):
            double.launch("kernel", 5, times=1000)
        """,
        f"delivery {delivery}",
    )
    assert read_kernels() == {"step/kernel": (1000, 5000)}
    assert losses() == {}


@pytest.mark.parametrize("receiver", ["main thread", "thread that delivers"])
def test_kernels_are_written_after_sigterm(receiver: str) -> None:
    blocked = [] if receiver == "main thread" else [signal.SIGTERM]
    body = f"""
        marey.start("profile", backend="cupti")
        with marey.scope("step"):
            double.launch("kernel", 5, times=1000)
        signal.pthread_sigmask(signal.SIG_BLOCK, {[int(number) for number in blocked]})
        print("ready")
        signal.pause()
        """
    with Live(program(body), **environment(Path("lib"), "delivery worker")) as live:
        assert live.read_line() == "ready"
        live.process.send_signal(signal.SIGTERM)
        assert live.end().exit_code == -signal.SIGTERM
    assert read_kernels() == {"step/kernel": (1000, 5000)}


# A launch after a collective that never ends, so that a wait for the device never returns.
HANGING_DEVICE = """
    fail cuCtxSynchronize -2147483648
    part go {
        launch ends duration 5
        launch hangs unfinished
    }
    """


def assert_ended_before_the_device(path: str) -> None:
    assert read_kernels(path) == {"step/ends": (1, 5)}
    assert losses(path) == {"device_records_dropped": 1}
    assert "devices were busy" in tree(path)["marey"]["notes"]["gpu end"]


@pytest.mark.parametrize("handler", ["", "import atexit; atexit.register(marey.finalize)"])
def test_a_process_exits_although_a_device_hangs(handler: str) -> None:
    run(
        f"""
        {handler}
        marey.start("profile", backend="cupti")
        with marey.scope("step"):
            double.play("go")
        """,
        HANGING_DEVICE,
    )
    assert_ended_before_the_device("profile.hatchet")


def test_a_program_under_marey_run_exits_although_a_device_hangs() -> None:
    path = write_program(
        program(
            """
            with marey.scope("step"):
                double.play("go")
            """
        )
    )
    variables = environment(Path("lib"), HANGING_DEVICE)
    ended = marey_command("run", "-o", "profile", path, **variables)
    assert ended.exit_code == 0, ended.stderr
    assert "marey: wrote profile.hatchet" in ended.stderr
    assert_ended_before_the_device("profile.hatchet")


def test_a_child_of_multiprocessing_exits_although_a_device_hangs() -> None:
    run(
        """
        import multiprocessing

        def work():
            marey.start("profile", backend="cupti")
            with marey.scope("step"):
                double.play("go")

        if __name__ == "__main__":
            child = multiprocessing.get_context("spawn").Process(target=work)
            child.start()
            child.join()
            assert child.exitcode == 0
        """,
        HANGING_DEVICE,
    )
    assert_ended_before_the_device("profile.hatchet")


def test_a_program_may_fork_while_sessions_come_and_go() -> None:
    run(
        """
        is_over = threading.Event()
        def work(number):
            while not is_over.is_set():
                session = marey.start(str(number), backend="cupti")
                with marey.scope("step"):
                    double.launch("kernel", 5)
                marey.finalize(session)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0) == (child, 0)
        is_over.set()
        for thread in threads:
            thread.join()
        """,
        PYTHONWARNINGS="ignore::DeprecationWarning",  # since 3.12: of forks beside threads
    )


def test_sessions_may_come_and_go_on_several_threads() -> None:
    run(
        """
        def work(number):
            for turn in range(20):
                session = marey.start(f"{number}.{turn}", backend="cupti")
                with marey.scope("step"):
                    double.launch("kernel", 5, times=10)
                marey.finalize(session)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert double.calls("cuptiSubscribe") == double.calls("cuptiUnsubscribe") > 0
        before = double.stats().callbacks
        double.launch("kernel", 5)
        assert double.stats().callbacks == before
        """,
        "delivery worker",
    )
    assert len(profile_names()) == 80
    for name in profile_names():
        # A thread whose first event falls into a scope of the main one, which is whoever has begun
        # to record, stands below that; what was in a scope before the session stands at the root.
        found = read_kernels(name)
        assert set(found) <= {"step/kernel", "step/step/kernel", "kernel"}
        own = [kernel for path, kernel in found.items() if path.endswith("step/kernel")]
        counts, nanos = (sum(values) for values in zip(*own, strict=True))
        assert counts >= 10, f"{name} lacks kernels of its own thread"
        assert nanos == 5 * counts
