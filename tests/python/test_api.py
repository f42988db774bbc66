"""The Python API: Proton's names, signatures, arguments and messages."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import marey
import marey as proton
import pytest
from profiles import counts, live_root, profile_names, record_scope, tree
from programs import run_program, run_well

SIGNATURES = {
    "start": "(name=None, *, context='shadow', data='tree', backend=None, mode=None, hook=None)",
    "activate": "(session=None)",
    "deactivate": "(session=None, flushing=False)",
    "finalize": "(session=None, output_format='')",
    "profile": "(func=None, *, name=None, context='shadow', data='tree', backend=None, mode=None,"
    " hook=None)",
    "scope": "(name, metrics=None)",
    "cpu_timed_scope": "(name, metrics=None)",
    "enter_scope": "(name, metrics=None, *, triton_op=False)",
    "exit_scope": "(name=None, *, triton_op=False, metrics=None)",
    "state": "(name)",
    "enter_state": "(name)",
    "exit_state": "()",
    "metadata_state": "(kernel_name=None)",
    "depth": "(session=0)",
    "register_triton_hook": "()",
    "unregister_triton_hook": "()",
    "context.depth": "(session=0)",
    "data.get": "(session=0, phase=0)",
    "data.get_msgpack": "(session=0, phase=0)",
    "data.advance_phase": "(session=0)",
    "data.is_phase_complete": "(session=0, phase=0)",
    "data.clear": "(session=0, phase=0, clear_up_to_phase=False)",
    "mode.PCSampling": "(interval=1000)",
    "hooks.LaunchHook.configure": "(self, *, include=None, exclude=None)",
    "state.enter_state": "(name)",
    "scope.cpu_timed_scope": "(name, metrics=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_has_protons_signature(name: str) -> None:
    found = named(name)
    signature = inspect.signature(found)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


def named(name: str) -> Any:
    """Imports a module of marey and returns the name from it, as a user would."""
    module, _, rest = name.rpartition(".")
    if not module:
        return getattr(marey, name)
    first, _, inner = module.partition(".")
    found = importlib.import_module(f"marey.{first}")
    for part in [*inner.split("."), rest] if inner else [rest]:
        found = getattr(found, part)
    return found


def test_all_public_names_exist() -> None:
    assert proton.DEFAULT_PROFILE_NAME == "proton"
    assert {"Hook", "HookManager", "LaunchHook"} <= set(dir(proton.hooks))
    assert {"BaseMode", "Default", "MMA", "PCSampling", "PeriodicFlushing"} <= set(dir(proton.mode))
    assert issubclass(proton.BackendUnavailable, proton.MareyError)
    assert set(marey.__all__) <= set(dir(marey))


# Sessions


def test_a_free_threaded_interpreter_is_rejected() -> None:
    # `abiflags` is what tells such a build. The libraries may not be loaded there.
    done = run_program("import sys; sys.abiflags += 't'; import marey")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: marey does not support free-threaded builds of CPython yet: "
        "use a build with the GIL"
    )


def test_a_session_starts_pauses_and_ends() -> None:
    session = proton.start("mine")
    record_scope("active")
    proton.deactivate(session)
    record_scope("inactive")
    proton.activate(session)
    record_scope("again")
    proton.finalize(session)
    assert counts(tree("mine.hatchet")) == {"active": 1, "again": 1}


def test_files_are_named_after_the_session() -> None:
    proton.finalize(proton.start())
    proton.finalize(proton.start(Path("sub") / "dir"))
    proton.finalize(proton.start("packed"), output_format="hatchet_msgpack")
    proton.finalize(proton.start("default"), "hatchet")
    assert profile_names() == ["default.hatchet", "proton.hatchet"]
    assert profile_names(directory="sub") == ["dir.hatchet"]
    assert profile_names(".hatchet_msgpack") == ["packed.hatchet_msgpack"]


def test_starting_the_same_path_returns_the_same_session() -> None:
    first = proton.start("same")
    proton.deactivate(first)
    assert proton.start("same") == first
    record_scope("active again")
    assert proton.start("other") != first
    assert counts(live_root(first)) == {"active again": 1}


def test_sessions_have_their_own_activation_and_file() -> None:
    one, two = proton.start("one"), proton.start("two")
    with proton.scope("both"):
        proton.deactivate(two)
        record_scope("only one", {"a": 1})
        proton.activate(two)
    proton.deactivate(one)
    record_scope("only two")
    proton.finalize()
    assert counts(tree("one.hatchet")) == {"both": 1, "both/only one": 1}
    assert counts(tree("two.hatchet")) == {"both": 1, "only two": 1}


def test_the_65th_session_is_rejected() -> None:
    sessions = [proton.start(f"s{number}") for number in range(64)]
    record_scope("x")
    with pytest.raises(RuntimeError, match="64 sessions are alive"):
        proton.start("one more")
    proton.finalize(sessions[10])
    assert proton.start("one more") not in sessions
    proton.finalize()
    written = [counts(tree(path)) for path in profile_names() if path != "one more.hatchet"]
    assert written == [{"x": 1}] * 64


@pytest.mark.parametrize(
    "call",
    [
        proton.activate,
        proton.deactivate,
        proton.finalize,
        proton.depth,
        proton.data.get,
        proton.data.get_msgpack,
        proton.data.advance_phase,
        proton.data.is_phase_complete,
        proton.data.clear,
    ],
)
def test_an_unknown_session_is_an_index_error(call: Callable[[int], Any]) -> None:
    proton.start("known")
    with pytest.raises(IndexError, match=r"^Session has not been initialized: 770077$"):
        call(770077)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"context": "x"}, "Unknown context source: x"),
        ({"data": "x"}, "Unknown data: x"),
        ({"backend": "x"}, "Unknown profiler: x"),
        ({"mode": "x"}, "Unknown mode: x"),
        ({"mode": "periodic_flushing:format=x"}, "Unknown output format: x"),
        ({"mode": "mma:colour=red"}, "Unknown knob of mode mma: colour"),
        ({"mode": "mma:granularity=x"}, "Unknown granularity: x"),
        ({"mode": "pcsampling:interval=0"}, "Interval must be a positive integer."),
        (
            {"mode": "pcsampling:interval=x"},
            "Knob interval of mode pcsampling is no whole number: x",
        ),
        ({"hook": "x"}, "Unsupported hook: 'x'"),
    ],
)
def test_unknown_argument_values_are_value_errors(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        proton.start("x", **options)
    with pytest.raises(ValueError, match=r"^Unknown output format: x$"):
        proton.finalize(proton.start("y"), "x")
    with pytest.raises(ValueError, match="chrome_trace"):
        proton.finalize(output_format="chrome_trace")


@pytest.mark.parametrize("backend", ["cupti", "cupti_pcsampling", "roctracer", "instrumentation"])
def test_a_backend_that_cannot_start_has_a_reason_and_a_hint(backend: str) -> None:
    with pytest.raises(proton.BackendUnavailable) as caught:
        proton.start("x", backend=backend)
    assert caught.value.backend == backend
    assert caught.value.step
    assert caught.value.hint
    assert caught.value.code is None or caught.value.code > 0
    assert isinstance(caught.value, RuntimeError)
    assert marey._native.sessions() == []


@pytest.mark.parametrize(
    ("mode", "lack"),
    [
        ("pcsampling", "program counters are not sampled"),
        (marey.mode.PCSampling(interval=10), "program counters are not sampled"),
        ("default", "kernels do not time themselves"),
        (marey.mode.MMA(granularity="cta"), "kernels do not time themselves"),
    ],
)
def test_unsupported_modes_are_accepted_with_a_warning(mode: Any, lack: str) -> None:
    with pytest.warns(UserWarning, match=lack) as warned:
        session = proton.start("x", mode=mode)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    record_scope("a")
    assert counts(live_root(session)) == {"a": 1}


def test_tritons_proton_knob_disables_start() -> None:
    knobs = pytest.importorskip("triton.knobs")
    with knobs.proton.scope():
        knobs.proton.disable = True
        assert proton.start("x") is None
        knobs.proton.disable = False
        assert proton.start("y") is not None
    source = "import marey; print(marey.start('z'))"
    assert run_well(source, TRITON_PROTON_DISABLE="1") == "None\n"
    assert run_well(source, TRITON_PROTON_DISABLE="0") == "0\n"


def test_without_a_gpu_one_note_is_printed() -> None:
    source = """
        import marey
        for name in ("a", "b"):
            marey.finalize(marey.start(name))
        marey.start("c")
        """
    assert run_well(source) == ""
    assert profile_names() == ["a.hatchet", "b.hatchet", "c.hatchet"]


def test_marey_disable_disables_everything() -> None:
    source = """
        import marey as proton
        session = proton.start("x", backend="cupti", hook="triton")
        proton.activate(session), proton.deactivate(session)
        with proton.scope("a", {"m": 1}), proton.state("b"), proton.cpu_timed_scope("c"):
            proton.enter_scope("d", {"m": 1.5})
            proton.exit_scope(metrics={"m": 2})
        with proton.profile("p"):
            pass
        @proton.profile
        def f():
            return 3
        print(session, f(), proton.depth(session), proton.data.get(session),
              proton.data.advance_phase(session), proton.data.is_phase_complete(session),
              proton.exit_scope(), proton.finalize())
        """
    assert run_well(source, MAREY_DISABLE="1") == "None 3 None None None False None None\n"
    assert profile_names() == []


# Phases


def test_phases_can_be_closed_read_cleared_and_written() -> None:
    session = proton.start("phased")
    for phase in range(3):
        record_scope(f"in {phase}")
        assert proton.data.is_phase_complete(session, phase) is False
        assert proton.data.advance_phase(session) == phase + 1
        assert proton.data.is_phase_complete(session, phase) is True
    assert [counts(live_root(session, phase)) for phase in range(4)] == [
        {"in 0": 1},
        {"in 1": 1},
        {"in 2": 1},
        {},
    ]
    proton.data.clear(session, 1, clear_up_to_phase=True)
    for phase in (0, 1, 4):
        with pytest.raises(IndexError, match=f"^Phase {phase} has no data.$"):
            proton.data.get(session, phase)
    proton.finalize(session)
    assert profile_names() == ["phased.part_2.hatchet", "phased.part_3.hatchet"]
    assert counts(tree("phased.part_2.hatchet")) == {"in 2": 1}


def test_a_scope_counts_in_the_phase_in_which_it_ends() -> None:
    session = proton.start("phased")
    with proton.scope("long"):
        record_scope("early", {"m": 1})
        proton.data.advance_phase(session)
        record_scope("late")
    assert counts(live_root(session, 0)) == {"long/early": 1} | {"long": 0}
    assert counts(live_root(session, 1)) == {"long": 1, "long/late": 1}


def test_clearing_the_open_phase_restarts_it() -> None:
    session = proton.start("x")
    record_scope("before")
    proton.data.clear(session)
    record_scope("after")
    assert counts(live_root(session)) == {"after": 1}


@pytest.mark.parametrize(
    "mode",
    ["periodic_flushing:format=hatchet", proton.mode.PeriodicFlushing(format="hatchet")],
)
def test_periodic_flushing_writes_a_phase_when_it_closes(mode: Any) -> None:
    session = proton.start("flushed", mode=mode)
    record_scope("first")
    proton.data.advance_phase(session)
    assert counts(tree("flushed.part_0.hatchet")) == {"first": 1}
    proton.finalize(session)
    assert profile_names() == ["flushed.part_0.hatchet", "flushed.part_1.hatchet"]


def test_msgpack_flushing_writes_msgpack() -> None:
    session = proton.start("flushed", mode="periodic_flushing:format=hatchet_msgpack")
    proton.data.advance_phase(session)
    assert profile_names(".hatchet_msgpack") == ["flushed.part_0.hatchet_msgpack"]


# `profile`


def test_profile_as_a_context_manager_writes_at_the_end() -> None:
    with pytest.raises(KeyError), proton.profile("block"), proton.scope("inside"):
        raise KeyError
    assert counts(tree("block.hatchet")) == {"inside": 1}
    with proton.profile(name="named"):
        pass
    assert profile_names() == ["block.hatchet", "named.hatchet"]


def test_profile_as_a_decorator_pauses_at_the_end() -> None:
    @proton.profile
    def plain(x: int, *, y: int) -> int:
        """Divides."""
        with proton.scope("inside"):
            return x // y

    assert (plain.__name__, plain.__doc__) == ("plain", "Divides.")
    assert plain(6, y=2) == 3
    with pytest.raises(ZeroDivisionError):
        plain(1, y=0)
    record_scope("outside")
    proton.finalize()
    assert counts(tree("proton.hatchet")) == {"inside": 2}


def test_profile_as_a_decorator_with_arguments_and_of_a_coroutine() -> None:
    @proton.profile(name="custom", context="shadow")
    async def work() -> str:
        with proton.scope("before"):
            await asyncio.sleep(0)
        return "done"

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work()) == "done"
    proton.finalize()
    assert counts(tree("custom.hatchet")) == {"before": 1}


def test_a_profiled_function_may_finalize_itself() -> None:
    @proton.profile(name="own")
    def work() -> None:
        record_scope("x")
        proton.finalize()

    work()
    assert counts(tree("own.hatchet")) == {"x": 1}
