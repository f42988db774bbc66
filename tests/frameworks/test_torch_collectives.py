"""Collectives of `torch.distributed` on a plain recording, by PyTorch's flight recorder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marey
import pytest
from marey import _torch_collectives
from marey._torch_collectives import Reader
from programs import marey_command, run_marey
from torch_programs import trace_ranks
from trace_files import run_rows, traced

pytest.importorskip("torch")

RANKS = 4
STEPS = 6
LATE_S = 0.1

JOB = f"""
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
gradients = dist.new_group()  # apart from what is late because processes start at their own times
model = DistributedDataParallel(torch.nn.Linear(8, 8), process_group=gradients)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pairs = [dist.new_group(pair) for pair in ([0, 1], [2, 3])]
for _ in range({STEPS}):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 8)).sum()
    if rank == 2:
        time.sleep({LATE_S})  # the rank that the others wait for
    loss.backward()
    optimizer.step()
dist.all_reduce(torch.ones(3, dtype=torch.float64), group=pairs[rank // 2])
dist.all_gather_into_tensor(torch.empty(RANKS * 2), torch.ones(2))
dist.barrier()
print(f"rank {{rank}} of {{dist.get_world_size()}}\\n", end="", flush=True)
dist.destroy_process_group()
""".replace("RANKS", str(RANKS))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the run of a job of four processes that torchrun starts."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.py").write_text(JOB)
    path = folder / "job.marey"
    printed = sorted(trace_ranks(folder / "job.py", path, RANKS))
    assert printed == [f"rank {rank} of {RANKS}" for rank in range(RANKS)]
    return path


def test_collectives_have_operation_group_size_type_and_ranks(job: Path) -> None:
    # The last three operations of each rank; the gradients of a step are one all_reduce.
    found = run_rows(
        job,
        """
        SELECT rank, name, group_ranks, group_size, dtype, in_elements, out_elements, bytes, state
        FROM collectives WHERE dtype = 'Double' OR name IN ('all_gather', 'barrier')
            AND out_elements = 8 ORDER BY rank, start_nanos
        """,
    )
    expected = []
    for rank in range(RANKS):
        pair = "0-1" if rank < 2 else "2-3"
        expected += [
            (rank, "all_reduce", pair, 2, "Double", 3, 3, 3 * 8, "completed"),
            (rank, "all_gather", "0-3", RANKS, "Float", 2, 2 * RANKS, 2 * RANKS * 4, "completed"),
        ]
    assert found == expected
    gradients = run_rows(
        job,
        "SELECT rank, count(*) FROM collectives "
        "WHERE name = 'all_reduce' AND dtype = 'Float' GROUP BY rank ORDER BY rank",
    )
    assert gradients == [(rank, STEPS) for rank in range(RANKS)]


GLOO = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="file://rendezvous", rank=0, world_size=1)
for _ in range(3):
    dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
"""


def test_threads_of_gloo_have_a_span_for_each_collective(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(GLOO.replace("file://rendezvous", f"file://{tmp_path}/rendezvous"))
    run_marey("run", "--operators", "-d", "trace", "-o", "g.marey", script)
    found = run_rows(
        Path("g.marey"),
        "SELECT count(*), bool_or(t.os_id = p.pid) FROM spans AS s "
        "JOIN threads AS t ON t.id = s.thread_id JOIN processes AS p ON p.id = t.process_id "
        "WHERE s.name = 'gloo:all_reduce'",
    )
    assert found == [(3, False)]  # not on the main thread


MESSAGES = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(3):
    if dist.get_rank() == 0:
        message = dist.isend(torch.ones(2), 1)
    else:
        message = dist.irecv(torch.ones(2), 0)
    torch.relu(torch.ones(2))
    message.wait()
dist.destroy_process_group()
"""


def test_a_message_of_gloo_lasts_until_it_is_waited_for(tmp_path: Path) -> None:
    # The operator that starts it, `c10d::send`, ends before it.
    script = tmp_path / "messages.py"
    script.write_text(MESSAGES)
    trace_ranks(script, Path("m.marey"), 2, "--operators")
    found = run_rows(
        Path("m.marey"),
        "SELECT rank, path, count(*) FROM spans "
        "WHERE name LIKE 'gloo:%' OR name = 'aten::relu' GROUP BY rank, path ORDER BY rank, path",
    )
    assert found == [
        (0, "aten::relu", 3),
        (0, "c10d::send/gloo:send", 3),
        (1, "aten::relu", 3),
        (1, "c10d::recv_/gloo:recv", 3),
    ]
    assert run_rows(Path("m.marey"), "SELECT * FROM losses") == []


def test_sequence_numbers_are_the_same_on_all_ranks(job: Path) -> None:
    different = run_rows(
        job,
        """
        SELECT sequence FROM collectives WHERE group_size = 4
        GROUP BY process_group, sequence HAVING count(*) <> 4 OR count(DISTINCT name) <> 1
        """,
    )
    assert different == []


def test_the_rank_that_others_wait_for_is_found(job: Path) -> None:
    (worst, *_) = run_rows(
        job,
        """
        SELECT rank, last_count FROM stragglers WHERE process_group = (
            SELECT max(process_group) FROM collectives WHERE name = 'all_reduce' AND dtype = 'Float'
        ) ORDER BY last_count DESC
        """,
    )
    assert worst[0] == 2
    assert worst[1] > STEPS / 2
    report = marey_command("analyze", job)
    assert "Ranks that others wait for" in report.stdout
    # The rank that is late is named before any that waits in backward.
    findings = marey.open(str(job)).findings()
    rules, ranks = findings.column("rule"), findings.column("rank")
    (first, *_) = [rank for rule, rank in zip(rules, ranks, strict=True) if rule in RANK_RULES]
    assert first == 2
    # By the spans alone: the others are in backward until the last rank arrives.
    late = run_rows(
        job, "SELECT rank FROM rank_arrivals WHERE name = 'backward' AND last_count >= 3"
    )
    assert (2,) in late


RANK_RULES = ("straggler", "late_rank")


class Ring:
    """A flight recorder's ring that keeps the last entries."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.entries: list[dict[str, Any]] = []

    def add(self, state: str) -> None:
        number = len(self.entries)
        self.entries.append(
            {
                "record_id": number,
                "collective_seq_id": number,
                "is_p2p": False,
                "process_group": ["0", "default_pg"],
                "profiling_name": "nccl:all_reduce",
                "state": state,
                "time_created_ns": 1_000 + number,
                "time_discovered_started_ns": 0,
                "time_discovered_completed_ns": 0,
                "duration_ms": 0.5,
                "input_sizes": [[3, 4], []],
                "input_dtypes": ["Half", "Half"],
            }
        )

    def dump(self) -> bytes:
        return json.dumps({"entries": self.entries[-self._size :]}).encode()


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    ring = Ring(4)
    monkeypatch.setattr(Reader, "_rings", lambda _: [("nccl", ring.dump)])
    return ring


def test_each_collective_is_read_once_and_lost_ones_are_counted(ring: Ring) -> None:
    ring.add("completed")  # before the recording
    with traced("ring"):
        reader = Reader()
        reader._groups = {"0": [0, 1, 2, 3, 8]}
        for _ in range(2):
            ring.add("completed")
        ring.add("started")
        assert reader.read() == 2  # the third is not over
        assert reader.read() == 0
        ring.entries[-1]["state"] = "completed"
        for _ in range(5):
            ring.add("completed")
        assert reader.read() == 4
        ring.add("started")
        del ring.entries[-1]["process_group"]
        assert reader.read() == 0
        assert reader.read(unfinished=True) == 1
    run = Path("ring.marey")
    assert run_rows(run, "SELECT sequence FROM collectives ORDER BY sequence") == [
        (number,) for number in (1, 2, 5, 6, 7, 8)
    ]
    (first, *_) = run_rows(
        run,
        """
        SELECT start_nanos, duration_nanos, dtype, in_elements, out_elements, group_ranks
        FROM collectives ORDER BY sequence
        """,
    )
    assert first == (1_001, 500_000, "Half", 13, None, "0-3,8")
    losses = run_rows(run, "SELECT cause, count FROM losses ORDER BY cause")
    assert losses == [("collectives_overwritten", 2), ("unreadable_events", 1)]


def test_the_ring_is_read_before_it_is_full(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "4")
    assert _torch_collectives._ring_entries() == 4
    with traced("full"):
        reader = Reader()
        for _ in range(50):
            ring.add("completed")
            ring.add("completed")
            reader.end_step()
        reader.read()
    assert run_rows(Path("full.marey"), "SELECT count(*) FROM collectives") == [(100,)]
    assert run_rows(Path("full.marey"), "SELECT * FROM losses") == []


def test_a_tree_does_not_read_the_ring(ring: Ring) -> None:
    with marey.profile("tree"):
        reader = Reader()
        ring.add("completed")
        assert reader.read() == 0
