"""A profile for each phase and rank."""

from __future__ import annotations

import os
from pathlib import Path

import marey
import pytest
from gpu_programs import read_kernels, run
from marey import _native
from marey.windows import MultiGPUProfiler, multi_gpu
from profiles import counts, record_scope, tree


def test_each_phase_has_a_profile_when_it_has_ended() -> None:
    profiler = MultiGPUProfiler("training_run")
    for phase in ("data_loading", "forward_pass"):
        with profiler.profile_phase(phase) as entered:
            assert entered.session_id == profiler.sessions[phase]
            assert (entered.phase, entered.profiler) == (phase, profiler)
            record_scope(phase)
        assert counts(tree(f"training_run_rank0_{phase}.hatchet")) == {phase: 1}


def test_a_phase_that_is_entered_again_adds_to_its_profile() -> None:
    profiler = MultiGPUProfiler("runs/a")
    for _ in range(5):
        with profiler.profile_phase("forward"), marey.scope("layer"):
            pass
        record_scope("between")
    profiler.finalize()
    assert counts(tree("runs/a_rank0_forward.hatchet")) == {"layer": 5}
    assert os.listdir("runs") == ["a_rank0_forward.hatchet"]
    assert profiler.sessions == {}


def test_a_phase_within_itself_ends_with_the_outer_one() -> None:
    profiler = MultiGPUProfiler()
    with profiler.profile_phase("forward"):
        with profiler.profile_phase("forward"), marey.scope("inner"):
            pass
        record_scope("outer")
    profiler.finalize()
    assert counts(tree("profile_rank0_forward.hatchet")) == {"inner": 1, "outer": 1}


def test_phases_may_overlap() -> None:
    profiler = MultiGPUProfiler()
    with profiler.profile_phase("outer"), profiler.profile_phase("inner"), marey.scope("both"):
        pass
    profiler.finalize()
    for phase in ("outer", "inner"):
        assert counts(tree(f"profile_rank0_{phase}.hatchet")) == {"both": 1}


def test_an_exception_in_a_phase_leaves_its_profile() -> None:
    profiler = MultiGPUProfiler()
    with pytest.raises(ZeroDivisionError), profiler.profile_phase("forward"), marey.scope("layer"):
        1 / 0  # noqa: B018
    assert counts(tree("profile_rank0_forward.hatchet")) == {"layer": 1}


def test_the_rank_is_that_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")
    profiler = MultiGPUProfiler()
    assert (profiler.rank, profiler.local_rank) == (5, 1)
    with profiler.profile_phase("forward"), marey.scope("layer"):
        pass
    assert os.listdir() == ["profile_rank5_forward.hatchet"]


def test_many_phases_do_not_exhaust_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_gpu, "MAX_SESSIONS", 4)
    profiler = MultiGPUProfiler()
    for number in range(10):
        with profiler.profile_phase(f"epoch{number}"), marey.scope("layer"):
            pass
        assert len(_native.sessions()) <= 4
    profiler.finalize()
    assert len([*Path().glob("*.hatchet")]) == 10


def test_a_name_that_is_no_part_of_a_file_name_is_refused() -> None:
    profiler = MultiGPUProfiler()
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="is no name of a phase"):
            profiler.profile_phase(name).__enter__()
    with pytest.raises(TypeError, match="the name of a phase must be a text, not 3"):
        profiler.create_session(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown profiler: cupy"):
        profiler.create_session("forward", backend="cupy")


def test_phases_have_the_kernels_that_were_launched_in_them() -> None:
    run(
        """
        from marey.windows import MultiGPUProfiler

        profiler = MultiGPUProfiler("gpu")
        for phase, nanos in (("forward_pass", 1000), ("backward_pass", 3000)):
            profiler.create_session(phase, backend="cupti")
            with profiler.profile_phase(phase), marey.scope("layer"):
                double.launch("kernel", nanos)
            marey.deactivate(profiler.sessions[phase])
        profiler.finalize()
        """
    )
    assert read_kernels("gpu_rank0_forward_pass.hatchet") == {"layer/kernel": (1, 1000)}
    assert read_kernels("gpu_rank0_backward_pass.hatchet") == {"layer/kernel": (1, 3000)}
