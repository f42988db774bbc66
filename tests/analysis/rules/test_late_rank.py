"""The rule `late_rank`: a rank that the others wait for, from host spans alone."""

from __future__ import annotations

from pathlib import Path

import marey
import pytest
from analyses import make_run
from programs import inside, run_well
from rank_traces import collective_traces, host_traces
from rules import check_no_findings_without_data, findings_of

RULE = "late_rank"

# Four ranks train together. One of them does more than the others, if any does: what is said on the
# command line is also the name of the run.
PROGRAM = """
    import multiprocessing, os, time
    import torch
    import torch.distributed as dist
    import marey, marey.torch

    RANKS, STEPS, LATE = 4, 12, 2

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, seconds):
            ctx.seconds = seconds
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            if ctx.seconds:
                with marey.scope("slow gradient"):
                    time.sleep(ctx.seconds)
            return gradient, None

    def train(case, rank):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        more = 0.06 if rank == LATE else 0
        dist.barrier()
        marey.start(case, data="trace")
        for _ in range(STEPS):
            # What every rank does: noise is small beside it.
            time.sleep(0.01 + (more if case == "before" else 0))
            y = model(torch.ones(2, 4))
            Slow.apply(y, more if case == "inside" else 0).sum().backward()
            optimizer.step()
        marey.finalize()

    def work(rank):
        os.environ["RANK"] = str(rank)
        # Without it there are no collectives in the run, from which `straggler` names the rank.
        os.environ["TORCH_FR_BUFFER_SIZE"] = "0"
        torch.set_num_threads(1)
        meet = "file://" + os.path.abspath("meet")
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=RANKS)
        marey.torch.enable()
        for case in ("before", "inside", "nobody"):
            train(case, rank)
        dist.destroy_process_group()

    if __name__ == "__main__":
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=work, args=(rank,)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        assert [rank.exitcode for rank in ranks] == [0] * RANKS
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of all cases, from one job, because four ranks take seconds to start."""
    pytest.importorskip("torch.distributed")
    folder = tmp_path_factory.mktemp("job")
    with inside(folder):
        run_well(PROGRAM)
    return folder


def test_the_rank_that_comes_late_is_named_and_not_those_that_wait(trained: Path) -> None:
    run = marey.open(trained / "before.marey")
    [row] = findings_of(run, RULE)
    assert (row["subject"], row["rank"], row["rank_count"]) == ("rank 2", 2, 4)
    assert (row["confidence"], row["severity"]) == ("likely", "high")
    assert row["path"] == "step/backward"
    assert row["longer_name"] == "no span"
    assert row["longer_nanos"] == pytest.approx(60e6, rel=0.5)
    # `backward` does next to nothing but wait. On a busy machine a few of its ends are too far
    # apart to say so, and count as work; else it would be 80 % of the step.
    for other in findings_of(run, "hot_operation"):
        assert other["subject"] != "backward" or other["impact_percent"] < 40
    assert run.findings().rows()[0][1] == RULE


def test_a_late_rank_is_blamed_on_the_span_that_delays_it(trained: Path) -> None:
    run = marey.open(trained / "inside.marey")
    [row] = findings_of(run, RULE)
    assert (row["subject"], row["longer_name"]) == ("rank 2", "slow gradient")
    hot = findings_of(run, "hot_operation")
    assert (hot[0]["subject"], hot[0]["rank"]) == ("slow gradient", 2)


def test_ranks_on_time_are_no_finding(trained: Path) -> None:
    assert findings_of(marey.open(trained / "nobody.marey"), RULE) == []


def test_findings_match_hand_computed_values() -> None:
    # Rank 1 is last in 6 of 8, each time by 3 ms, and rank 2 in the others, by 1 ms. By chance it
    # would be in 2, give or take 1.22.
    run = make_run(*host_traces(*[(0, 3000, 0, 0)] * 6, *[(0, 0, 1000, 0)] * 2))
    [row] = findings_of(run, RULE)
    assert (row["subject"], row["count"], row["last_count"]) == ("rank 1", 8, 6)
    assert row["chance_count"] == 2
    assert row["impact_nanos"] == row["gain_nanos"] == pytest.approx(18e6 / 8)
    assert row["delay_percent"] == pytest.approx(90)
    assert row["confidence"] == "possible"
    assert findings_of(run, RULE, likely_percent=75)[0]["confidence"] == "likely"
    assert findings_of(run, RULE, min_deviations=3.5) == []
    assert findings_of(run, RULE, min_count=9) == []
    assert findings_of(run, RULE, min_percent=99) == []


def test_waiting_ranks_are_not_blamed() -> None:
    # `backward` lasts 3.5 ms on ranks 0 and 2, of which they wait 3.
    run = make_run(*host_traces(*[(0, 3000, 0)] * 8))
    assert [row["subject"] for row in findings_of(run, RULE)] == ["rank 1"]
    assert "backward" not in [row["subject"] for row in findings_of(run, "hot_operation")]
    findings = run.findings()
    assert findings.rows()[0][list(findings.columns).index("rule")] == RULE


def test_ranks_that_are_late_in_turn_are_no_finding() -> None:
    late = [(3000, 0, 0), (0, 3000, 0), (0, 0, 3000)] * 4
    assert findings_of(make_run(*host_traces(*late)), RULE) == []


def test_with_recorded_collectives_only_straggler_fires() -> None:
    run = make_run(*collective_traces(*[(0.0, 450.0, 0.0)] * 8))
    assert [row["subject"] for row in findings_of(run, "straggler")] == ["rank 1"]
    assert findings_of(run, RULE) == []


def test_no_findings_without_data() -> None:
    check_no_findings_without_data(RULE)
