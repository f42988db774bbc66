"""Adapters for libraries that run the training loop: each with the real library."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey import _torch_hooks
from programs import run_command
from torch_programs import trace_ranks
from trace_files import run_rows
from trainers import BATCHES, EPOCHS, fit_with_lightning, train_with_transformers

torch = pytest.importorskip("torch")

# What the libraries warn of, about each other and about data loaders without workers.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def hooks_are_removed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The method of modules is put back a limited number of times in a process.
    monkeypatch.setattr(_torch_hooks, "_module_calls", None)
    before = torch.nn.Module.__call__
    yield
    assert not marey.torch.is_enabled()
    assert torch.nn.Module.__call__ is before


def paths(run: str, name: str) -> dict[str, int]:
    """Returns the number of spans of a name by path."""
    rows = marey.open(run).sql(
        f"SELECT path, count(*) FROM spans WHERE name = '{name}' GROUP BY path"
    )
    return dict(rows.rows())


def batches(run: str) -> list[tuple[int, int]]:
    """Returns the numbers of epoch and batch, in the order of their times."""

    def values(name: str) -> list[int]:
        table = marey.open(run).sql(
            f"SELECT integer FROM raw.metrics WHERE name(name_id) = '{name}' ORDER BY time_nanos"
        )
        return [int(value) for (value,) in table.rows()]

    return list(zip(values("epoch"), values("batch"), strict=True))


def count_steps(run: str) -> int:
    ((count,),) = run_rows(run, "SELECT count(*) FROM steps")
    return int(count)


@pytest.fixture
def lightning() -> Any:
    return pytest.importorskip("pytorch_lightning")


def fit(lightning: Any, **arguments: Any) -> None:
    fit_with_lightning(lightning, validates=True, enable_checkpointing=False, **arguments)


def test_lightning_s_callback_records_epochs_and_steps(lightning: Any) -> None:
    from marey.integrations.lightning import MareyCallback

    fit(lightning, callbacks=[MareyCallback("callback")])
    assert count_steps("callback.marey") == EPOCHS * BATCHES
    assert paths("callback.marey", "epoch") == {"epoch": EPOCHS}
    assert sum(paths("callback.marey", "validation").values()) == EPOCHS
    assert all(path.startswith("epoch/step") for path in paths("callback.marey", "SGD.step"))
    assert batches("callback.marey") == [(e, b) for e in range(EPOCHS) for b in range(BATCHES)]


def test_lightning_s_profiler_records_actions_within_steps(lightning: Any) -> None:
    from marey.integrations.lightning import MareyProfiler

    fit(lightning, profiler=MareyProfiler("profiler", operators=True))
    assert count_steps("profiler.marey") == EPOCHS * BATCHES
    found = paths("profiler.marey", "run_training_batch")
    assert sum(found.values()) == EPOCHS * BATCHES
    assert all(path.endswith("step/run_training_batch") for path in found)
    assert all("/run_training_batch/" in path for path in paths("profiler.marey", "SGD.step"))


def test_a_failing_training_is_written(lightning: Any) -> None:
    from marey.integrations.lightning import MareyCallback

    class Failing(MareyCallback):
        def on_train_batch_end(self, *arguments: Any) -> None:
            raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        fit(lightning, callbacks=[Failing("failing")])
    assert paths("failing.marey", "epoch") == {"epoch": 1}


def test_a_session_that_records_is_used(lightning: Any) -> None:
    from marey.integrations.lightning import MareyCallback

    session = marey.start("outer", data="trace")
    fit(lightning, callbacks=[MareyCallback("unused")])
    assert marey._native.active_sessions() == [session]
    marey.finalize(session, "marey")
    assert count_steps("outer.marey") == EPOCHS * BATCHES
    assert not os.path.exists("unused.marey")


def test_hugging_face_s_trainer_records_epochs_and_steps() -> None:
    transformers = pytest.importorskip("transformers")
    from marey.integrations.transformers import MareyCallback

    train_with_transformers(transformers, MareyCallback("trainer"))
    assert count_steps("trainer.marey") == EPOCHS * BATCHES
    assert paths("trainer.marey", "epoch") == {"epoch": EPOCHS}
    expected = [(number // BATCHES, number) for number in range(EPOCHS * BATCHES)]
    assert batches("trainer.marey") == expected


def test_accelerate_s_tracker_records_steps_and_logged_values() -> None:
    accelerate = pytest.importorskip("accelerate")
    from marey.integrations.accelerate import MareyTracker

    accelerator = accelerate.Accelerator(cpu=True, log_with=MareyTracker("accelerated"))
    accelerator.init_trackers("project")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(BATCHES):
        optimizer.zero_grad()
        accelerator.backward(model(torch.ones(2, 4)).sum())
        optimizer.step()
        accelerator.log({"loss": 0.5, "note": "text"}, step=step)
    accelerator.end_training()
    assert count_steps("accelerated.marey") == BATCHES
    losses = marey.open("accelerated.marey").sql(
        "SELECT value FROM raw.metrics WHERE name(name_id) = 'loss'"
    )
    assert losses.rows() == [(0.5,)] * BATCHES


def test_importing_the_package_imports_no_library() -> None:
    program = "import sys, marey.integrations; print(json.dumps(sorted(sys.modules)))"
    done = run_command(sys.executable, "-c", f"import json; {program}")
    modules = json.loads(done.stdout)
    libraries = {"torch", "lightning", "pytorch_lightning", "transformers", "accelerate"}
    assert libraries.isdisjoint(modules)


MODEL = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
"""

TRAINING = f"""
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({BATCHES}):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 8)).sum()
    loss.backward()
    optimizer.step()
"""

FSDP = f"""
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
{MODEL}
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
{TRAINING}
# In one write, because both ranks print into one pipe.
print(f"loss {{loss.item():.3f}}\\n", end="", flush=True)
dist.barrier()  # no rank closes its connections while the other one uses them
dist.destroy_process_group()
"""


def test_fsdp_is_recorded_with_its_collectives(tmp_path: Path) -> None:
    plain: dict[str, Any] = {}
    exec(MODEL + TRAINING, plain)  # both ranks have the same batches, so sharding changes nothing
    script = tmp_path / "fsdp.py"
    script.write_text(FSDP)
    printed = trace_ranks(script, Path("fsdp.marey"), 2, "--operators")
    assert printed == 2 * [f"loss {plain['loss'].item():.3f}"]
    run = marey.open("fsdp.marey")
    steps = run.sql("SELECT rank, count(*) FROM steps GROUP BY rank ORDER BY rank").rows()
    assert steps == [(0, BATCHES), (1, BATCHES)]
    modules = {name for (name,) in run.sql("SELECT DISTINCT name FROM module_times").rows()}
    assert {"0", "1", "2"} <= modules
    operations = run.sql("SELECT DISTINCT name FROM collectives").rows()
    assert len(operations) > 0
