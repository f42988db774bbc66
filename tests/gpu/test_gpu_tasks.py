"""Kernels of coroutines, threads with a context, and notebooks, below their task's scopes."""

from __future__ import annotations

import sys
import textwrap

import pytest
from gpu_programs import losses, read_chrome_trace, read_kernels, run
from versions import NEWEST_KNOWN

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] > NEWEST_KNOWN,
    reason="launches of tasks are found on interpreters whose structures are known",
)

TASKS = """
import asyncio, contextvars

class Turns:
    def __init__(self):
        self.events = {}

    def event(self, name):
        return self.events.setdefault(name, asyncio.Event())

    def done(self, name):
        self.event(name).set()

    async def after(self, name):
        await self.event(name).wait()
"""


def run_tasks(body: str, script: str = "", **env: str) -> str:
    """Runs a program with tasks and with launches that release the GIL."""
    return run(TASKS + textwrap.dedent(body), script, **env)


def test_tasks_that_interleave_keep_their_kernels() -> None:
    run_tasks(
        """
        async def first(turns):
            with marey.scope("first"):
                double.launch("kernel", 1)
                turns.done("first is in")
                await turns.after("second is in")
                double.launch("kernel", 10)
                with marey.scope("inner"):
                    double.launch("kernel", 100)
                    turns.done("first is in inner")
                    await turns.after("second is out")
                    double.launch("kernel", 1_000)
                double.launch("kernel", 10_000)

        async def second(turns):
            await turns.after("first is in")
            double.launch("kernel", 2)
            with marey.scope("second"):
                turns.done("second is in")
                await turns.after("first is in inner")
                double.launch("kernel", 20)
            turns.done("second is out")
            double.launch("kernel", 200)

        async def main():
            turns = Turns()
            with marey.scope("main"):
                double.launch("kernel", 3)
                await asyncio.gather(first(turns), second(turns))
            double.launch("kernel", 4)

        marey.start("profile", backend="cupti")
        double.launch("kernel", 5)
        with marey.scope("sync"):
            asyncio.run(main())
            double.launch("kernel", 6)
        marey.finalize()
        assert marey._native.launches_find_tasks()
        """
    )
    assert read_kernels() == {
        "kernel": (1, 5),
        "sync/kernel": (2, 4 + 6),
        "sync/main/kernel": (3, 3 + 2 + 200),
        "sync/main/first/kernel": (3, 10_011),
        "sync/main/first/inner/kernel": (2, 1_100),
        "sync/main/second/kernel": (1, 20),
    }
    assert losses() == {}


def test_a_trace_has_kernels_and_their_calls_in_the_scopes_of_tasks() -> None:
    run_tasks(
        """
        async def work(name):
            with marey.scope(name):
                await asyncio.sleep(0)
                double.launch("kernel", 10)
                await asyncio.sleep(0)

        async def main():
            await asyncio.gather(work("a"), work("b"))

        marey.start("profile", backend="cupti", data="trace")
        asyncio.run(main())
        marey.finalize()
        """
    )
    events = read_chrome_trace("profile.chrome_trace")["traceEvents"]
    stacks = [event["args"]["call_stack"] for event in events if event.get("cat") == "kernel"]
    assert sorted(stacks) == [["ROOT", "a", "kernel"], ["ROOT", "b", "kernel"]]


def test_threads_that_are_given_the_context_launch_in_its_scopes() -> None:
    run_tasks(
        """
        def work():
            double.launch("kernel", 1)
            with marey.scope("work"):
                double.launch("kernel", 10, times=100)
            double.launch("kernel", 2)

        async def main():
            with marey.scope("outer"):
                await asyncio.gather(*(asyncio.to_thread(work) for _ in range(5)))
                # This hands no context on: its thread is where the main thread's stack is.
                await asyncio.get_running_loop().run_in_executor(None, double.launch, "kernel", 7)

        marey.start("profile", backend="cupti")
        asyncio.run(main())
        marey.finalize()
        """
    )
    assert read_kernels() == {
        "kernel": (1, 7),
        "outer/kernel": (10, 15),
        "outer/work/kernel": (500, 5_000),
    }


def test_a_task_with_its_own_context_variables_keeps_its_scope() -> None:
    """Its context is a large map, in which the scope is found without the GIL."""
    run_tasks(
        """
        variables = [contextvars.ContextVar(f"v{number}") for number in range(500)]

        async def work(count):
            for number in range(count):
                variables[number].set(number)
                if number % 50 == 0:
                    double.launch("kernel", 1)
                    await asyncio.sleep(0)
            with marey.scope(f"{count}"):
                double.launch("kernel", 1)

        async def main():
            with marey.scope("outer"):
                tasks = [asyncio.create_task(work(count)) for count in (1, 20, 500)]
            with marey.scope("elsewhere"):
                await asyncio.gather(*tasks)

        marey.start("profile", backend="cupti")
        asyncio.run(main())
        marey.finalize()
        """
    )
    assert read_kernels() == {
        "outer/kernel": (12, 12),
        **{f"outer/{count}/kernel": (1, 1) for count in (1, 20, 500)},
    }


def test_kernels_of_notebook_cells_are_below_their_scopes() -> None:
    """ipykernel runs each cell in a task of one loop, with a persistent context."""
    run_tasks(
        """
        loop = asyncio.new_event_loop()
        shell = contextvars.copy_context()

        def cell(source):
            async def execute():
                code = compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                coroutine = eval(code, globals())
                if coroutine is not None:
                    await coroutine

            task = shell.run(loop.create_task, execute())
            loop.run_until_complete(task)

        import ast
        cell('session = marey.start("profile", backend="cupti")')
        cell('double.launch("kernel", 1)')
        cell('''
        with marey.scope("cell"):
            double.launch("kernel", 10)
            await asyncio.sleep(0)
            double.launch("kernel", 100)
        ''')
        cell('double.launch("kernel", 1_000)')
        cell('marey.finalize(session)')
        """
    )
    assert read_kernels() == {"kernel": (2, 1_001), "cell/kernel": (2, 110)}


def test_kernels_of_modules_in_coroutines_are_below_them() -> None:
    pytest.importorskip("torch")
    run_tasks(
        """
        import torch, marey.torch

        class Layer(torch.nn.Module):
            def forward(self, x):
                double.launch("kernel", 1)
                return x

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = Layer(), Layer()

            def forward(self, x):
                double.launch("kernel", 10)
                return self.second(self.first(x))

        model = Model()

        async def serve(name, requests):
            with marey.scope(name):
                for _ in range(requests):
                    await asyncio.sleep(0)
                    double.launch("kernel", 100)
                    model(torch.zeros(1))
                    await asyncio.to_thread(model, torch.zeros(1))

        async def main():
            with torch.no_grad():
                await asyncio.gather(serve("a", 2), serve("b", 3))

        marey.torch.enable()
        marey.start("profile", backend="cupti")
        asyncio.run(main())
        marey.finalize()
        """
    )
    expected: dict[str, object] = {}
    for name, requests in (("a", 2), ("b", 3)):
        calls = 2 * requests
        expected |= {
            f"{name}/kernel": (requests, 100 * requests),
            f"{name}/Model/kernel": (calls, 10 * calls),
            f"{name}/Model/first/kernel": (calls, calls),
            f"{name}/Model/second/kernel": (calls, calls),
        }
    assert read_kernels() == expected


def test_kernels_of_compiled_code_are_below_its_region() -> None:
    torch = pytest.importorskip("torch")
    if torch.__version__.startswith(("2.2.", "2.3.")):
        pytest.skip("PyTorch 2.4 and later name compiled regions by their graph")
    run(
        """
        import warnings
        # The driver's double is none that PyTorch could start.
        warnings.simplefilter("ignore")
        import torch, marey.torch

        def compile_to_kernel(graph, inputs):
            def run(*inputs):
                double.launch("triton_poi_fused_relu_0", 10)
                return graph(*inputs)
            return run

        compiled = torch.compile(torch.relu, backend=compile_to_kernel)
        compiled(torch.ones(2))
        marey.torch.enable(operators=True)
        marey.start("profile", backend="cupti")
        with marey.scope("use"):
            compiled(torch.ones(2))
            compiled(torch.ones(2))
        marey.finalize()
        """
    )
    kernel = "use/Torch-Compiled Region: 0/0/triton_poi_fused_relu_0"
    assert read_kernels() == {kernel: (2, 20)}


def test_backward_of_a_coroutine_is_below_its_scopes() -> None:
    """PyTorch runs backward on its own thread, which has no context."""
    pytest.importorskip("torch")
    run_tasks(
        """
        import queue as queues, warnings
        # The driver's double is none that PyTorch could start.
        warnings.simplefilter("ignore")
        import torch, marey.torch

        class Launches(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                double.launch("forward", 1)
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                double.launch("backward", 10)
                return gradient

        queue, finished = queues.Queue(), queues.Queue()

        def engine():
            # The engine's thread for a device, which is there only where a device is.
            PR_SET_NAME = 15
            ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_autograd_0", 0, 0, 0)
            for work in iter(queue.get, None):
                double.launch(work, 100)
                finished.put(work)

        def have_engine_launch(gradient):
            queue.put("engine")
            finished.get()

        thread = threading.Thread(target=engine)
        thread.start()

        async def train(name, turns, before, after):
            await turns.after(before)
            with marey.scope(name):
                for _ in range(2):
                    loss = Launches.apply(torch.ones(1, requires_grad=True))
                    turns.done(after)
                    await asyncio.sleep(0)
                    loss.register_hook(have_engine_launch)
                    loss.backward()

        async def main():
            turns = Turns()
            turns.done("start")
            await asyncio.gather(
                train("a", turns, "start", "a is in"), train("b", turns, "a is in", "b is in")
            )

        marey.torch.enable()
        marey.start("profile", backend="cupti")
        asyncio.run(main())
        queue.put(None)
        thread.join()
        marey.finalize()
        """
    )
    expected: dict[str, object] = {}
    for name in "ab":
        expected |= {
            f"{name}/forward": (2, 2),
            f"{name}/backward/backward": (2, 20),
            f"{name}/backward/engine": (2, 200),
        }
    assert read_kernels() == expected
