"""The examples of Proton's documentation run unchanged, with the classes of `marey.windows`.

Where an example waits for five minutes, the periods are shortened; where it needs a GPU, it runs on
the double; what it leaves to the reader, such as the model, the test provides.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import marey
import marey.windows
import pytest
import window_examples
from gpu_programs import read_kernels, run
from marey.windows import LLMInferenceProfiler, RequestMetrics, ServiceWindowProfiler
from profiles import counts, record_scope, tree
from programs import until
from window_files import node, paths, shorten, total


@pytest.fixture(autouse=True)
def _marey_is_proton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proton", marey)


def example(source: str, **names: Any) -> dict[str, Any]:
    """Runs an example with these names and the classes of `marey.windows`."""
    classes = {name: getattr(marey.windows, name) for name in marey.windows.__all__}
    namespace = {"__name__": "example", "proton": marey, **classes, **names}
    exec(compile(source, "example.py", "exec", dont_inherit=True), namespace)
    return namespace


class Countdown:
    """A condition that is true for so many questions."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __bool__(self) -> bool:
        self.rounds -= 1
        return self.rounds >= 0


def test_windows_by_time() -> None:
    served = 0

    def process_request() -> None:
        nonlocal served
        with marey.scope("request"):
            served += 1

    names = example(
        window_examples.TIME_WINDOW,
        service_running=Countdown(20),
        time_to_rotate=lambda: served % 5 == 4,
        process_request=process_request,
    )
    profiler = names["profiler"]
    profiler.end_window()
    files = paths(profiler.windows)
    assert [total([path], "request") for path in files] == [4, 5, 5, 5, 1]
    assert [Path(path).parent.name for path in files] == ["profiles"] * 5
    assert profiler.window_duration == 300


def test_windows_of_a_service_with_exit_metrics() -> None:
    import time

    def process_llm_request(tokens: int) -> list[str]:
        if tokens == 4:
            raise RuntimeError("out of memory")
        return ["token"] * tokens

    names = example(
        window_examples.SERVICE,
        incoming_requests=[1, 2, 3, 4],
        process_llm_request=process_llm_request,
        time=time,
    )
    (window,) = names["profiler"].windows
    metrics = node(window.path, "service_window")
    assert metrics["success_rate"] == 0.75
    assert metrics["total_tokens_generated"] == 6
    assert (metrics["total_requests"], metrics["failed_requests"]) == (4, 1)
    assert 0 <= metrics["min_latency_ms"] <= metrics["p50_latency_ms"] <= metrics["p99_latency_ms"]
    assert metrics["p99_latency_ms"] <= metrics["max_latency_ms"]


class Model:
    """A model that generates as many tokens as it is given."""

    async def generate(self, tokens: list[str]) -> list[str]:
        await asyncio.sleep(0)
        return [token.upper() for token in tokens]


class Request:
    def __init__(self, line: str) -> None:
        self.id, self.prompt = line.split(" ", 1)


async def ask(number: int, is_over: asyncio.Event) -> int:
    """Sends requests one after the other; returns how many were answered."""
    reader, writer = await asyncio.open_unix_connection("socket")
    answered = 0
    while not is_over.is_set():
        writer.write(f"{number}.{answered} one two three\n".encode())
        assert await reader.readline() == b"ONE TWO THREE\n"
        answered += 1
    writer.close()
    await writer.wait_closed()
    return answered


def test_an_inference_service_under_load(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, factor=6000)  # five minutes are 50 ms
    names = example(
        window_examples.INFERENCE,
        load_model=Model,
        tokenize=str.split,
        detokenize=" ".join,
        asyncio=asyncio,
    )
    base: Any = names["LLMInferenceService"]

    class Service(base):  # type: ignore[misc]
        async def serve_requests(self) -> None:
            server = await asyncio.start_unix_server(self.answer, "socket")
            self.is_over = asyncio.Event()
            clients = [asyncio.create_task(ask(number, self.is_over)) for number in range(8)]
            while self.profiler.window_number < 14:
                await asyncio.sleep(0.01)
            self.is_over.set()
            self.answered = sum([await client for client in clients])
            server.close()
            self.profiler.end_profiling_window()

        async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := (await reader.readline()).decode():
                response = await self.process_request(Request(line))
                writer.write(f"{response}\n".encode())
            writer.close()

    service = Service()
    asyncio.run(service.start())

    profiler: LLMInferenceProfiler = service.profiler
    files = paths(profiler.windows)
    assert service.answered > 100
    for scope in ("tokenization", "model_forward", "detokenization", "request"):
        assert total(files, scope) == service.answered
    assert total(files, "request", "generated_tokens") == 3 * service.answered
    numbers = range(1, len(files) + 1)
    metadata = [
        json.loads(Path(f"inference_profiles/metadata_w{number}.json").read_text())
        for number in numbers
    ]
    assert sum(entry["requests_processed"] for entry in metadata) == service.answered
    assert sum(entry["tokens_generated"] for entry in metadata) == 3 * service.answered
    assert [entry["window_number"] for entry in metadata] == [*numbers]
    detailed = [name for name in os.listdir("inference_profiles") if "_detailed_" in name]
    assert [name.split("_")[2] for name in detailed] == ["w12"]


CONTINUOUS = """
    import itertools, threading, time
    import marey.windows
    import window_examples
    from marey.windows import ContinuousProfiler

    class Stop(Exception):
        pass

    windows = itertools.count()
    original = ContinuousProfiler.profile_with_monitoring

    def monitored(self):
        if next(windows) == 8:
            self.stop()
            raise Stop
        rotation = self._windows
        if rotation.open is None:
            self.start()
        nanos = 9_000_000 if rotation.next_number == 8 else 1_000_000
        with marey.scope("decode"):
            double.launch("kernel", nanos)
        threading.Thread(target=rotation.rotate).start()
        original(self)

    ContinuousProfiler.profile_with_monitoring = monitored
    names = {"ContinuousProfiler": ContinuousProfiler}
    try:
        exec(window_examples.CONTINUOUS, names)
    except Stop:
        pass
    print([round(m["avg_kernel_time_ms"], 6) for m in names["profiler"].performance_history])
"""


def test_continuous_profiling_with_alerts() -> None:
    printed = run(CONTINUOUS).splitlines()
    alert, time, path, history = printed
    assert alert.startswith("⚠️ Performance anomaly detected at 20")
    assert time == "  Average kernel time: 9.00 ms"
    assert os.path.exists(path.removeprefix("  Profile saved at: "))
    assert json.loads(history.replace("nan", "null"))[:8] == [1.0] * 7 + [9.0]


class Loss:
    def backward(self) -> None:
        record_scope("backward")


def test_phases_of_training() -> None:
    def load_data() -> str:
        with marey.scope("load"):
            return "data"

    def model(data: str) -> str:
        with marey.scope("forward"):
            return data

    names = example(
        window_examples.PHASES, load_data=load_data, model=model, loss=Loss(), torch=None
    )
    assert names["output"] == "data"
    assert {
        phase: counts(tree(f"training_run_rank0_{phase}.hatchet"))
        for phase in ("data_loading", "forward_pass", "backward_pass")
    } == {
        "data_loading": {"load": 1},
        "forward_pass": {"forward": 1},
        "backward_pass": {"backward": 1},
    }


STUBS = """
    import types
    import window_examples

    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(set_device=lambda device: None)
    horovod = types.ModuleType("horovod")
    horovod.torch = types.ModuleType("horovod.torch")
    for name, value in {"init": None, "rank": 2, "local_rank": 0, "size": 4}.items():
        setattr(horovod.torch, name, lambda value=value: value)
    horovod.torch.DistributedOptimizer = lambda optimizer: optimizer
    sys.modules |= {
        "torch": torch, "proton": marey, "horovod": horovod, "horovod.torch": horovod.torch
    }

    class MyModel:
        def cuda(self, device=0):
            return self

        def __call__(self, data):
            double.launch("gemm", 1000)
            return data

    class Step:
        def zero_grad(self): pass
        def step(self): double.launch("adam", 10)
        def backward(self): double.launch("backward", 100)
"""


def test_basic_multi_gpu() -> None:
    run(
        STUBS
        + """
    os.environ["RANK"] = "3"
    exec(window_examples.BASIC, {"MyModel": MyModel, "input_data": 1})
    """
    )
    assert read_kernels("profile_rank_3.hatchet") == {"gemm": (1, 1000)}


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_multi_gpu_with_horovod() -> None:
    run(
        STUBS
        + """
    names = {
        "torch": torch, "MyModel": MyModel, "optimizer": Step(), "num_epochs": 2,
        "train_loader": [(1, 1)] * 3, "criterion": lambda output, target: Step(),
    }
    exec(window_examples.HOROVOD, names)
    """
    )
    kernels = read_kernels("horovod_profile_rank2_size4.hatchet")
    assert len(kernels) == 2 * 3 * 3
    assert kernels["epoch_1/batch_2/backward"] == (1, 100)


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_a_script_for_multi_gpu_jobs() -> None:
    printed = run(
        STUBS
        + """
    os.mkdir("profiles")
    sys.argv[1:] = ["--job-name", "job"]
    names = {"__name__": "__main__", "os": os, "run_distributed_job": MyModel().__call__}
    exec(window_examples.JOB, names)
    """
    )
    assert printed == "Profiles saved to ./profiles/\n"
    (name,) = os.listdir("profiles")
    assert name.startswith("job_rank0_of_1_")
    assert read_kernels(f"profiles/{name}") == {"gemm": (1, 1000)}


def test_best_practices_for_several_gpus() -> None:
    cuda = SimpleNamespace(
        synchronize=lambda: None, memory_allocated=lambda: 2e6, memory_reserved=lambda: 8e6
    )
    tensor = SimpleNamespace(numel=lambda: 250_000)
    marey.start("practices")
    example(
        window_examples.PRACTICES,
        torch=SimpleNamespace(cuda=cuda),
        dist=SimpleNamespace(all_reduce=lambda _tensor: None),
        tensor=tensor,
        kernel_computation=lambda: None,
        large_tensor_operation=lambda: None,
        get_work_for_rank=lambda _rank: [SimpleNamespace(id=7), SimpleNamespace(id=9)],
        process_item=lambda _item: None,
        rank=1,
        local_rank=1,
    )
    marey.finalize()
    items = {"process_item_7": 1, "process_item_9": 1}
    assert counts(tree("workload_rank1_items2.hatchet")) == items
    assert counts(tree("practices.hatchet")).items() >= {"critical_kernel": 1, **items}.items()
    assert node("practices.hatchet", "all_reduce")["size_mb"] == 1
    memory = node("practices.hatchet", "memory_intensive_op")
    assert (memory["allocated_memory_mb"], memory["reserved_memory_mb"]) == (2, 8)
    assert memory["gpu_id"] == 1


def test_exit_metrics_of_batches() -> None:
    numpy = pytest.importorskip("numpy")
    example(
        window_examples.EXIT_METRICS,
        batches=[[1] * 3, [1] * 5],
        process_batch=len,
        np=numpy,
    )
    metrics = node("service_profile.hatchet", "batch_processing_window")
    assert (metrics["total_batches"], metrics["avg_batch_size"]) == (2, 4)
    assert metrics["p99_latency_sec"] > 0


def serve(profiler: ServiceWindowProfiler) -> Any:
    """Returns the handler of a server that records its requests."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            with marey.scope("answer"):
                success = line != b"fail\n"
            profiler.record_request(RequestMetrics(1.0, 4, success))
            writer.write(line)
        writer.close()

    return answer


def test_every_request_of_an_asyncio_server_is_in_one_window() -> None:
    service = ServiceWindowProfiler(0.03)

    async def client(is_over: asyncio.Event) -> tuple[int, int]:
        reader, writer = await asyncio.open_unix_connection("socket")
        sent = failed = 0
        while not is_over.is_set():
            line = b"fail\n" if sent % 5 == 0 else b"work\n"
            writer.write(line)
            assert await reader.readline() == line
            sent, failed = sent + 1, failed + (line == b"fail\n")
        writer.close()
        await writer.wait_closed()
        return sent, failed

    async def main() -> tuple[int, int]:
        is_over = asyncio.Event()
        server = await asyncio.start_unix_server(serve(service), "socket")
        service.start_window()
        clients = [asyncio.create_task(client(is_over)) for _ in range(4)]
        await asyncio.to_thread(until, lambda: len(service.windows) >= 5)
        is_over.set()
        results = [await task for task in clients]
        server.close()
        service.end_window()
        return sum(sent for sent, _ in results), sum(failed for _, failed in results)

    sent, failed = asyncio.run(main())
    files = paths(service.windows)
    assert total(files, "answer") == sent
    assert total(files, "service_window", "total_requests") == sent
    assert total(files, "service_window", "failed_requests") == failed
    assert total(files, "service_window", "total_tokens_generated") == 4 * sent
