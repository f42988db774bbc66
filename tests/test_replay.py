"""The double of NVIDIA's libraries, under the real Proton and the real Triton."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import find, run_well, tree
from replay import environment

pytestmark = [
    pytest.mark.usefixtures("own_directory"),
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed"),
]

deliveries = pytest.mark.parametrize("delivery", ["inline", "worker"])
versions = pytest.mark.parametrize("version", [26, 28, 130_001, 130_500])

PROTON = """
    import threading
    import triton.profiler as proton
    from replay import Double, use_driver

    use_driver()
    double = Double()
    proton.start("profile", backend="cupti")
"""


def proton(program: str, script: str) -> str:
    """Runs a program under Proton, which ends with the session's file."""
    lines = [*PROTON.splitlines(), *program.splitlines(), "    proton.finalize()"]
    return run_well("\n".join(lines), **environment(Path("lib"), script))


def kernel(path: str) -> tuple[int, int, str]:
    """Count, nanoseconds and device of a kernel in Proton's file."""
    values = find(tree("profile.hatchet"), path)["metrics"]
    return values["count"], values["time (ns)"], values["device_id"]


@deliveries
@versions
def test_proton_counts_what_is_played(delivery: str, version: int) -> None:
    proton(
        """
    double.play("outside")
    with proton.scope("step"):
        double.play("inside")
        """,
        f"""
        version {version}
        delivery {delivery}
        part outside {{
            repeat 8 {{
                launch "void add<float>(int)" duration 500
            }}
        }}
        part inside {{
            repeat 3 {{
                launch gemm duration 700 stream 13
                copy to-device 4096 duration 90
            }}
            launch reduce duration 11 device 1
        }}
        devices 2
        """,
    )
    assert kernel("void add<float>(int)") == (8, 4_000, "0")
    assert kernel("step/gemm") == (3, 2_100, "0")
    assert kernel("step/reduce") == (1, 11, "1")


@deliveries
def test_two_threads_keep_apart(delivery: str) -> None:
    proton(
        """
    def work(name, nanos):
        with proton.scope(name):
            double.launch("kernel", nanos, times=5000)

    threads = [
        threading.Thread(target=work, args=("one", 3)),
        threading.Thread(target=work, args=("two", 5)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        """,
        f"delivery {delivery}",
    )
    assert kernel("one/kernel") == (5_000, 15_000, "0")
    assert kernel("two/kernel") == (5_000, 25_000, "0")


@deliveries
def test_order_does_not_matter_to_proton(delivery: str) -> None:
    proton(
        """
    for scope in ("one", "two"):
        with proton.scope(scope):
            double.play(scope)
        """,
        f"""
        delivery {delivery}
        part one {{
            order shuffled 64 42
            repeat 100 {{
                launch kernel duration 3
            }}
        }}
        part two {{
            order reversed 7
            repeat 100 {{
                launch kernel duration 5
            }}
        }}
        """,
    )
    assert kernel("one/kernel") == (100, 300, "0")
    assert kernel("two/kernel") == (100, 500, "0")


def test_a_graph_of_the_script_lies_under_its_launch() -> None:
    proton(
        """
    double.play("capture")
    with proton.scope("replayed"):
        double.play("launch")
        """,
        """
        part capture {
            capture step {
                launch first duration 100
                launch second duration 10
            }
            instantiate step
        }
        part launch {
            repeat 4 {
                graph step
            }
        }
        """,
    )
    assert kernel("replayed/<captured_at>/first") == (4, 400, "0")
    assert kernel("replayed/<captured_at>/second") == (4, 40, "0")


def test_a_held_subscription_is_what_proton_says_it_is() -> None:
    out = run_well(
        """
        import triton.profiler as proton
        from replay import Double, use_driver

        use_driver()
        double = Double()
        try:
            proton.start("profile", backend="cupti")
        except RuntimeError as error:
            print(error)
        print(double.calls("cuptiSubscribe"))
        """,
        **environment(Path("lib"), "fail cuptiSubscribe 39"),
    )
    said, calls = out.splitlines()
    assert said.endswith("cuptiSubscribe with error 39")
    assert calls == "1"


def test_a_kernel_of_triton_is_launched_by_its_own_driver() -> None:
    out = run_well(
        """
        import ctypes
        import triton
        import triton.language as tl
        import triton.profiler as proton
        from replay import Double
        from triton.backends.nvidia.driver import CudaDriver

        @triton.jit
        def add(x, y, size, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(y + at, tl.load(x + at, mask=at < size) + 1.0, mask=at < size)

        class Array:
            dtype = "float32"

            def __init__(self, size):
                self.memory = (ctypes.c_float * size)()

            def data_ptr(self):
                return ctypes.addressof(self.memory)

        double = Double()
        triton.runtime.driver.set_active(CudaDriver())
        proton.start("profile", backend="cupti")
        x, y = Array(256), Array(256)
        with proton.scope("step"):
            for _ in range(3):
                add[(2,)](x, y, 256, BLOCK=128)
        proton.finalize()
        print(double.calls("cuLaunchKernelEx"), double.stats().written)
        """,
        **environment(Path("lib"), "kernel add duration 250 registers 24"),
        TRITON_DEFAULT_FP_FUSION="1",  # else Triton warns of a default that will change
    )
    assert out.split() == ["3", "3"]
    assert kernel("step/add") == (3, 750, "0")
