"""Kernels in a profile: below the path that launched them, with their times."""

from __future__ import annotations

import os
import shutil

import pytest
from gpu_programs import gpu_note, losses, read_kernels, record, run
from profiles import find, tree

deliveries = pytest.mark.parametrize("delivery", ["inline", "worker"])

GRAPH = """
    part capture {
        capture step {
            launch first duration 100
            launch second duration 10
        }
        instantiate step
    }
    part replay {
        graph step
    }
"""


def test_kernels_have_minimum_maximum_and_quantiles() -> None:
    record(
        """
        with marey.scope("step"):
            for nanos in range(1, 101):
                double.launch("kernel", 1000 * nanos)
        """
    )
    values = find(tree("profile.hatchet"), "step/kernel")["metrics"]
    assert (values["count"], values["time (ns)"]) == (100, 5_050_000)
    assert (values["device_id"], values["device_type"]) == ("0", "CUDA")
    assert (values["gpu_min (ns)"], values["gpu_max (ns)"]) == (1_000, 100_000)
    for quantile in (50, 90, 99):
        # The sketch has 32 buckets to a power of two.
        assert values[f"gpu_p{quantile} (ns)"] == pytest.approx(1_000 * quantile, rel=1 / 32)
    assert gpu_note().startswith("CUPTI 130001, ")
    assert losses() == {}


@deliveries
def test_kernels_of_many_buffers_are_all_counted(delivery: str) -> None:
    run(
        """
        marey.start("profile", backend="cupti")
        with marey.scope("step"):
            double.launch("kernel", 3, times=100_000)
        marey.finalize()
        assert double.stats().buffers_completed > 4
        """,
        f"delivery {delivery}",
    )
    assert read_kernels() == {"step/kernel": (100_000, 300_000)}
    assert losses() == {}


@deliveries
def test_kernels_of_ended_threads_are_counted(delivery: str) -> None:
    record(
        """
        def work(number):
            with marey.scope(f"group {number % 3}"):
                double.launch("kernel", 5)

        for number in range(1200):
            thread = threading.Thread(target=work, args=(number,))
            thread.start()
            thread.join()
        double.launch("kernel", 7)
        """,
        f"delivery {delivery}",
    )
    assert read_kernels() == {
        "kernel": (1, 7),
        **{f"group {group}/kernel": (400, 2_000) for group in range(3)},
    }
    assert losses() == {}


def test_kernels_are_below_the_python_frames_that_launch_them() -> None:
    run(
        """
        def step():
            with marey.scope("scope"):
                double.play("step")

        marey.start("profile", backend="cupti", context="python")
        for _ in range(2):
            step()
        marey.finalize()
        """,
        "part step {\nlaunch kernel duration 3\n}",
    )
    (path,) = read_kernels()
    assert read_kernels()[path] == (2, 6)
    # As in Proton, an outer scope is no part of a path of frames.
    assert "@step/" in path
    assert path.endswith("@play/kernel"), "the line that launches, which lets go of the GIL"


def test_kernels_of_backward_are_below_the_main_threads_scope() -> None:
    record(
        """
        def work():
            ctypes.CDLL(None).prctl(15, b"pt_autograd_0", 0, 0, 0)  # PR_SET_NAME
            double.launch("kernel", 5)

        def call_on_worker():
            worker = threading.Thread(target=work)
            worker.start()
            worker.join()

        with marey.scope("step"), marey.scope("backward"):
            call_on_worker()
        with marey.scope("later"):
            call_on_worker()
        """
    )
    assert read_kernels() == {"step/backward/kernel": (1, 5), "later/kernel": (1, 5)}


def test_every_session_has_its_own_kernels() -> None:
    run(
        """
        first = marey.start("first", backend="cupti")
        double.launch("kernel", 1)
        second = marey.start("second", backend="cupti")
        double.launch("kernel", 10)
        marey.deactivate(first)
        double.launch("kernel", 100)
        marey.activate(first)
        marey.finalize(second)
        double.launch("kernel", 1000)
        marey.finalize(first)
        """
    )
    assert read_kernels("first.hatchet") == {"kernel": (3, 1_011)}
    assert read_kernels("second.hatchet") == {"kernel": (2, 110)}


# Phases


@deliveries
def test_a_kernel_belongs_to_the_phase_that_launched_it(delivery: str) -> None:
    out = record(
        """
        double.play("held")
        print(marey.data.advance_phase(session))
        double.launch("in the second", 5)
        double.play("come")
        """,
        f"""
        delivery {delivery}
        part held {{
            order held
            launch "in the first" duration 3
        }}
        part come {{
            order as-they-come
        }}
        """,
        mode="periodic_flushing",
    )
    assert out == "1\n"
    assert read_kernels("profile.part_0.hatchet") == {"in the first": (1, 3)}
    assert read_kernels("profile.part_1.hatchet") == {"in the second": (1, 5)}


def test_a_phase_is_complete_after_its_last_record() -> None:
    out = record(
        """
        double.play("unfinished")
        marey.data.advance_phase(session)
        before = marey.data.is_phase_complete(session, 0)
        double.play("finish")
        while not marey.data.is_phase_complete(session, 0):
            double.flush()
        print(before, marey.data.get(session, 0)[0]["children"][0]["metrics"]["count"])
        """,
        """
        part unfinished {
            launch kernel duration 9 unfinished
        }
        part finish {
            finish
        }
        """,
    )
    assert out == "False 1\n"


# Graphs


def test_a_graph_without_capture_does_not_delay_the_end() -> None:
    source = """
        session = marey.start("profile", backend="cupti")
        with marey.scope("capture"):
            double.play("{part}")
        marey.data.advance_phase(session)
        print(marey.data.is_phase_complete(session, 0))
        marey.finalize()
        print(double.calls("cuptiActivityFlushAll"))
        """
    out = run(source.format(part="capture"), GRAPH)
    assert read_kernels("profile.part_0.hatchet") == {}
    assert out.startswith("True")
    shutil.rmtree("lib")
    nothing = run(source.format(part="nothing"), f"{GRAPH}\npart nothing {{\n}}")
    assert out == nothing, "a forced flush is for launches that wait"


def test_graph_kernels_are_below_launch_and_capture() -> None:
    record(
        """
        with marey.scope("capture"):
            double.play("capture")
        with marey.scope("train"):
            for _ in range(3):
                with marey.scope("step"):
                    double.play("replay")
        with marey.state("warm"):
            double.play("replay")
        """,
        GRAPH,
    )
    assert read_kernels() == {
        "train/step/<captured_at>/capture/first": (3, 300),
        "train/step/<captured_at>/capture/second": (3, 30),
        "warm/<captured_at>/capture/first": (1, 100),
        "warm/<captured_at>/capture/second": (1, 10),
    }
    assert losses() == {}


def test_kernels_of_an_earlier_graph_are_below_its_launch() -> None:
    run(
        """
        double.play("capture")
        marey.start("profile", backend="cupti")
        with marey.scope("step"):
            double.play("replay")
        marey.finalize()
        """,
        GRAPH,
    )
    assert read_kernels() == {"step/first": (1, 100), "step/second": (1, 10)}
    assert losses() == {}


def test_a_running_capture_prevents_waiting_for_the_device() -> None:
    """Waiting for the context would invalidate the capture."""
    run(
        """
        assert cuda.cuInit(0) == 0
        context, stream, module, kernel, graph = (ctypes.c_void_p() for _ in range(5))
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0
        assert cuda.cuModuleLoadData(ctypes.byref(module), b"code") == 0
        assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add") == 0
        shape = [1, 1, 1, 32, 1, 1, 0, stream, None, None]
        marey.start("profile", backend="cupti")
        assert cuda.cuLaunchKernel(kernel, *shape) == 0
        assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
        with marey.scope("captured"):
            assert cuda.cuLaunchKernel(kernel, *shape) == 0
        marey.finalize()
        assert double.calls("cuCtxSynchronize") == 0
        assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
        marey.start("after", backend="cupti")
        assert cuda.cuLaunchKernel(kernel, *shape) == 0
        marey.finalize()
        assert double.calls("cuCtxSynchronize") == 1
        """,
        "kernel add duration 250",
    )
    assert read_kernels() == {"add": (1, 250)}
    assert read_kernels("after.hatchet") == {"add": (1, 250)}


# Correlation numbers


def test_a_reused_correlation_id_is_another_launch() -> None:
    record(
        """
        for name in ("one", "two", "three"):
            with marey.scope(name):
                double.play("again")
            marey.data.advance_phase(session)
        """,
        """
        part again {
            correlation 4294967290
            repeat 5 {
                launch kernel duration 3
            }
        }
        """,
    )
    for phase, name in enumerate(("one", "two", "three")):
        assert read_kernels(f"profile.part_{phase}.hatchet") == {f"{name}/kernel": (5, 15)}


def test_a_record_without_a_launch_is_counted_and_not_summed() -> None:
    record(
        "double.run()",
        """
        launch known duration 3
        launch unknown duration 1000 uncalled 77000
        launch nameless duration 1000 uncalled 0
        """,
    )
    assert read_kernels() == {"known": (1, 3)}
    assert losses() == {"unmatched_activities": 2}


def test_every_device_is_described() -> None:
    record(
        "double.run()",
        """
        device "NVIDIA H200" arch 90 sms 132 clock 1980000 memory-clock 3201000 bus 6144
        device "NVIDIA B200" arch 100 sms 148 clock 1965000 memory-clock 3996000 bus 8192
        launch kernel duration 3
        launch kernel duration 5 device 1
        """,
    )
    nodes = tree("profile.hatchet")["children"]
    found = {node["metrics"]["device_id"]: node["metrics"]["time (ns)"] for node in nodes}
    assert [node["frame"]["name"] for node in nodes] == ["kernel"] * 2
    assert found == {"0": 3, "1": 5}


def test_marey_cupti_lib_selects_the_library() -> None:
    body = """
        marey.start("profile", backend="cupti")
        double.launch("kernel", 3)
        marey.finalize()
        """
    run(body, MAREY_CUPTI_LIB=os.path.abspath("lib/libcupti.so"))
    assert read_kernels() == {"kernel": (1, 3)}
    assert gpu_note().startswith(f"CUPTI 130001, {os.path.abspath('lib')}/")
