"""The double of NVIDIA's libraries, under the real Proton and the real Triton."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from profiles import find, tree
from programs import run_program, run_well
from replay import environment

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")

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
    """Runs a program under Proton; returns the file of the session."""
    lines = [*PROTON.splitlines(), *program.splitlines(), "    proton.finalize()"]
    return run_well("\n".join(lines), **environment(Path("lib"), script))


def kernel(path: str) -> tuple[int, int, str]:
    """Returns count, nanoseconds and device of a kernel in Proton's file."""
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
def test_threads_have_separate_contexts(delivery: str) -> None:
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
def test_proton_accepts_records_in_any_order(delivery: str) -> None:
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


def test_a_scripted_graph_is_below_its_launch() -> None:
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


def test_a_held_subscription_has_protons_error() -> None:
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
        import triton.profiler as proton
        from replay import Double
        from triton_add import Array, add_kernel, use_driver

        double, add = Double(), add_kernel()
        use_driver()
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


def test_the_driver_moves_memory_and_captures_graphs() -> None:
    out = run_well(
        """
        import ctypes
        from replay import Double

        double, cuda = Double(), ctypes.CDLL("libcuda.so.1")

        def ask(function, kind=ctypes.c_void_p, *arguments):
            value = kind()
            assert function(ctypes.byref(value), *arguments) == 0
            return value

        assert cuda.cuInit(0) == 0
        assert ask(cuda.cuDeviceGetCount, ctypes.c_int).value == 2
        context = ask(cuda.cuDevicePrimaryCtxRetain, ctypes.c_void_p, 1)
        assert cuda.cuCtxSetCurrent(context) == 0
        assert ask(cuda.cuCtxGetDevice, ctypes.c_int).value == 1

        size = ctypes.c_size_t(16)
        memory = ask(cuda.cuMemAlloc_v2, ctypes.c_void_p, size)
        back = ctypes.create_string_buffer(16)
        assert cuda.cuMemcpyHtoD_v2(memory, b"sixteen letters!", size) == 0
        assert cuda.cuMemcpyDtoH_v2(back, memory, size) == 0
        print(back.raw.decode())

        stream = ask(cuda.cuStreamCreate, ctypes.c_void_p, 0)
        module = ask(cuda.cuModuleLoadData, ctypes.c_void_p, b"code")
        kernel = ask(cuda.cuModuleGetFunction, ctypes.c_void_p, module, b"add")
        shape = [1, 1, 1, 32, 1, 1, 0, stream, None, None]
        assert cuda.cuStreamBeginCapture_v2(stream, 0) == 0
        assert cuda.cuLaunchKernel(kernel, *shape) == 0
        assert cuda.cuMemsetD8Async(memory, 0, size, stream) == 0
        graph = ctypes.c_void_p()
        assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
        count = ctypes.c_size_t(0)
        assert cuda.cuGraphGetNodes(graph, None, ctypes.byref(count)) == 0
        print(count.value)
        flags = ctypes.c_uint64(0)
        instance = ask(cuda.cuGraphInstantiateWithFlags, ctypes.c_void_p, graph, flags)
        assert cuda.cuGraphLaunch(instance, stream) == 0
        assert cuda.cuStreamSynchronize(stream) == 0
        found = ctypes.c_void_p()
        name = b"cuMemAlloc"
        assert cuda.cuGetProcAddress_v2(name, ctypes.byref(found), 12000, flags, None) == 0
        print(found.value == ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value)
        """,
        **environment(Path("lib"), "devices 2"),
    )
    assert out.splitlines() == ["sixteen letters!", "2", "True"]


def test_a_forked_child_has_its_own_worker() -> None:
    out = run_well(
        """
        import ctypes, os
        from replay import Double

        double, cupti = Double(), ctypes.CDLL("libcupti.so")
        size = ctypes.c_size_t
        places = [ctypes.POINTER(kind) for kind in (ctypes.c_void_p, size, size)]
        request = ctypes.CFUNCTYPE(None, *places)
        complete = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, size, size
        )
        buffer = ctypes.create_string_buffer(1 << 16)
        sizes = []

        @request
        def on_request(start, size, most):
            start[0], size[0], most[0] = ctypes.addressof(buffer), len(buffer), 0

        @complete
        def on_complete(context, stream, start, size, valid):
            sizes.append(valid)

        assert cupti.cuptiActivityRegisterCallbacks(on_request, on_complete) == 0
        assert cupti.cuptiActivityEnable(10) == 0

        def deliver():
            sizes.clear()
            double.launch("kernel", 5, times=100)
            assert cupti.cuptiActivityFlushAll(0) == 0
            return sum(sizes)

        print(deliver(), flush=True)
        child = os.fork()
        if child == 0:
            print(deliver(), flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1], deliver())
        """,
        **environment(Path("lib"), "delivery worker"),
    )
    assert out.split() == ["21600", "21600", "0", "21600"]


def test_an_invalid_script_fails_every_call() -> None:
    done = run_program(
        """
        import ctypes

        print(ctypes.CDLL("libcuda.so.1").cuInit(0))
        """,
        **environment(Path("lib"), "sing"),
    )
    assert done.stdout == "999\n"
    assert "line 1" in done.stderr


def test_the_driver_is_started_once_and_loads_what_the_environment_names() -> None:
    source = Path("tool.c")
    source.write_text(
        """
        #include <stdio.h>
        int InitializeInjection(void) { puts("injected"); fflush(stdout); return 1; }
        """
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "tool.so", str(source)], check=True)
    out = run_well(
        """
        import ctypes
        from replay import Double

        double, cuda = Double(), ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        print(cuda.cuCtxGetCurrent(ctypes.byref(context)), flush=True)
        double.launch("kernel", 5)
        print(cuda.cuCtxGetCurrent(ctypes.byref(context)), flush=True)
        assert cuda.cuInit(0) == 0
        """,
        **environment(Path("lib")),
        CUDA_INJECTION64_PATH=str(Path("tool.so").absolute()),
    )
    assert out.split() == ["3", "injected", "0"]
