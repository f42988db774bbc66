"""Recording a training loop: callbacks, regions, saving, and what goes wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import marey
import marey.torch
import pytest
from marey.profile import start_for
from marey.training import (
    CallGraphBuilder,
    ProfileAnalyzer,
    ProfilerConfig,
    TrainingProfiler,
    recording,
)
from marey.training.bottleneck import Bottleneck, BottleneckType
from programs import Live, run_program, run_well
from threads import run_in_threads
from trace_files import run_rows
from trainers import fit_with_lightning, train_with_transformers
from training_loops import FILE, Trainer, analysed, kinds, run_epochs, walk_files

torch = pytest.importorskip("torch")

ALL = ProfilerConfig(sample_rate=1.0, collect_gpu_ops=False, export_chrome_trace=False)


@pytest.fixture(autouse=True)
def hooks_are_removed() -> Iterator[None]:
    yield
    assert not marey.torch.is_enabled()


def counts(path: str = FILE) -> dict[str, int]:
    """Returns the number of calls by path, without those of modules and PyTorch."""
    rows = run_rows(path, "SELECT path, count FROM flame WHERE kind IN ('scope', 'step')")
    return {path: count for path, count in rows if count}


def saved_counts(profiler: TrainingProfiler) -> dict[str, int]:
    """Saves a profile and returns its counts."""
    profiler.save(FILE)
    return counts()


def test_importing_marey_does_not_import_training() -> None:
    run_well("""
        import sys, marey
        assert "marey.training" not in sys.modules
        marey.training.TrainingProfiler
        assert "marey._engine" not in sys.modules, "a profiled program never loads the engine"
    """)


NAMES = {
    "PRISM": ("on_sample_start", "on_epoch_start", "on_epoch_end", "on_training_end"),
    "Keras": ("on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end"),
    "Lightning": (
        "on_fit_start",
        "on_train_epoch_start",
        "on_train_epoch_end",
        "on_fit_end",
    ),
}


@pytest.mark.parametrize("trainer", NAMES)
def test_the_names_that_trainers_call_are_known(trainer: str) -> None:
    begin, begin_epoch, end_epoch, end = NAMES[trainer]
    profiler = TrainingProfiler(ALL)
    callback = profiler.callback
    getattr(callback, begin)(0, logs=None)
    for epoch in range(2):
        getattr(callback, begin_epoch)(epoch)
        with profiler.profile_region("work"):
            pass
        getattr(callback, end_epoch)(epoch, {"loss": 1})
    callback.on_anything_else("is ignored")
    getattr(callback, end)()
    assert not marey._native.is_active()
    profiler.save(FILE)
    prefix = "sample/" if trainer == "PRISM" else ""
    expected = {"epoch": 2, "epoch/step": 2, "epoch/step/work": 2}
    assert {path.removeprefix(prefix): count for path, count in counts().items()} == {
        **expected,
        **({"sample": 1} if prefix else {}),
    }


def test_a_name_that_is_no_callback_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'ProfilerCallback' object has no attribute 'foo'"):
        _ = TrainingProfiler().callback.foo


def test_hugging_face_s_trainer_calls_the_callback() -> None:
    transformers = pytest.importorskip("transformers")
    profiler = TrainingProfiler(ALL)
    train_with_transformers(transformers, profiler.callback)
    found = saved_counts(profiler)
    assert (found["epoch"], found["epoch/step"]) == (2, 6)


@pytest.mark.filterwarnings("ignore")  # of Lightning, about data loaders without workers
def test_lightning_s_trainer_calls_the_callback() -> None:
    lightning = pytest.importorskip("pytorch_lightning")
    profiler = TrainingProfiler(ALL)
    options = {"default_root_dir": "checkpoints", "callbacks": [profiler.callback]}
    fit_with_lightning(lightning, validates=False, **options)
    found = saved_counts(profiler)
    assert (found["epoch"], found["epoch/step"]) == (2, 6)


def test_keras_s_trainer_calls_the_callback() -> None:
    if importlib.util.find_spec("keras") is None:  # its import chooses a backend
        pytest.skip("there is no keras here")
    run_well(
        """
        import keras
        import numpy as np
        from marey.training import ProfilerConfig, TrainingProfiler

        profiler = TrainingProfiler(
            ProfilerConfig(sample_rate=1.0, collect_gpu_ops=False, export_chrome_trace=False)
        )
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        x, y = np.ones((6, 4)), np.ones((6, 1))
        data = {"x": x, "y": y, "batch_size": 2, "verbose": 0, "callbacks": [profiler.callback]}
        model.fit(**data, epochs=2, validation_data=(x, y))
        assert profiler.loop.recording.is_open is False, "on_train_end ends the recording"
        model.evaluate(**data)
        model.predict(x, verbose=0, callbacks=[profiler.callback])
        profiler.save("profile.pt")
        """,
        KERAS_BACKEND="torch",
    )
    found = counts()
    assert (found["epoch"], found["epoch/step"]) == (2, 6)
    assert sum(count for path, count in found.items() if path.endswith("validation")) == 2


def test_the_keras_of_tensorflow_2_is_told_which_batches_to_report() -> None:
    callback = TrainingProfiler(ALL).callback
    assert callback._implements_train_batch_hooks()
    assert not callback._implements_test_batch_hooks()
    assert not callback._implements_predict_batch_hooks()


def test_steps_are_those_of_the_optimizer() -> None:
    profiler, trainer = TrainingProfiler(ALL), Trainer()
    for _ in range(3):
        profiler.callback.on_epoch_begin()
        for _ in range(4):
            profiler.callback.on_batch_begin()
            with profiler.profile_region("work"):
                trainer.step()
            profiler.callback.on_batch_end()
        profiler.callback.on_epoch_end()
    found = saved_counts(profiler)
    assert (found["epoch"], found["epoch/step"], found["epoch/step/work"]) == (3, 12, 12)


def test_batches_are_steps_after_an_epoch_in_which_no_optimizer_of_pytorch_was_used() -> None:
    Trainer()  # has one
    profiler = TrainingProfiler(ALL)
    for _ in range(3):
        profiler.callback.on_epoch_begin()
        for _ in range(4):
            profiler.callback.on_batch_begin()
            with profiler.profile_region("work"):
                pass
            profiler.callback.on_batch_end()
        profiler.callback.on_epoch_end()
    found = saved_counts(profiler)
    assert (found["epoch"], found["epoch/step"], found["epoch/step/work"]) == (3, 1 + 4 + 4, 12)


@pytest.mark.parametrize("has_torch", [False, True])
def test_batches_are_steps_without_an_optimizer_of_pytorch(has_torch: bool) -> None:
    """Trainers with optimizers of their own report batches."""
    run_well(f"""
        import sys, marey
        if {has_torch}:
            import torch
        from marey.training import ProfilerConfig, TrainingProfiler
        profiler = TrainingProfiler(ProfilerConfig(sample_rate=1.0, export_chrome_trace=False))
        for _ in range(2):
            profiler.callback.on_epoch_begin()
            for _ in range(4):
                profiler.callback.on_batch_begin()
                profiler.callback.on_batch_end()
            profiler.callback.on_epoch_end()
        profiler.save("profile.pt")
        assert ("torch" in sys.modules) == {has_torch}
    """)
    assert counts()["epoch/step"] == 8


def test_step_separates_epochs_in_a_loop_without_a_trainer() -> None:
    with TrainingProfiler(ALL) as profiler:
        for _ in range(5):
            with profiler.profile_region("work"):
                pass
            profiler.step()
    assert analysed(profiler).get_summary()["total_epochs"] == 4
    found = counts()
    assert found["work"] == 1  # before the first call of `step`
    assert found["epoch/step/work"] == 4


def test_an_epoch_that_is_not_drawn_records_nothing_and_has_no_hooks() -> None:
    config = ProfilerConfig(sample_rate=1e-9, adaptive_sampling=False, export_chrome_trace=False)
    profiler, trainer = TrainingProfiler(config), Trainer()
    plain = torch.nn.Module.__call__
    is_hooked = []
    for _ in range(3):
        profiler.callback.on_epoch_begin()
        with profiler.profile_region("work"):
            trainer.step()
        is_hooked.append(torch.nn.Module.__call__ is not plain)
        profiler.callback.on_epoch_end()
    profiler.save(FILE)
    assert is_hooked == [True, False, False]
    assert run_rows(FILE, "SELECT count(*) FROM spans WHERE name = 'work'") == [(1,)]
    assert ProfileAnalyzer(FILE).get_summary()["total_epochs"] == 3


def test_the_random_numbers_of_the_program_stay_the_same() -> None:
    random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), torch.rand(1)
    random.seed(1)
    torch.manual_seed(1)
    with TrainingProfiler(ALL) as profiler:
        run_epochs(profiler, 5)
    assert (random.random(), torch.rand(1)) == expected


def test_regions_are_decorators_and_nest_and_keep_exceptions() -> None:
    profiler = TrainingProfiler(ALL)

    @profiler.profile_region("outer")
    def outer() -> None:
        with profiler.profile_region("inner"):
            raise RuntimeError("failed")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="failed"):
            outer()
    assert saved_counts(profiler) == {"outer": 2, "outer/inner": 2}


def test_a_decorator_begins_a_recording_with_each_first_call() -> None:
    profiler = TrainingProfiler(ALL)

    @profiler.profile_region("work")
    def work() -> None:
        pass

    assert not marey._native.sessions(), "nothing was entered"
    for calls in (1, 2):
        work()
        assert marey._native.is_active()
        profiler.save(FILE)
        assert not marey._native.sessions()
        assert counts() == {"work": calls}


def test_a_region_without_a_text_as_name_is_an_error() -> None:
    profiler = TrainingProfiler(ALL)
    with pytest.raises(TypeError):
        profiler.profile_region(5)
    with profiler.profile_region("work"):
        pass
    assert saved_counts(profiler) == {"work": 1}


def test_save_contains_what_earlier_saves_contained() -> None:
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 2)
    profiler.save("first.pt")
    run_epochs(profiler, 3)
    profiler.save("second.pt")
    assert ProfileAnalyzer("first.pt").get_summary()["total_epochs"] == 2
    assert ProfileAnalyzer("second.pt").get_summary()["total_epochs"] == 5


def test_save_replaces_an_earlier_file() -> None:
    profiler = TrainingProfiler(dataclasses.replace(ALL, export_chrome_trace=True))
    for expected in (2, 4):
        run_epochs(profiler, 2)
        assert saved_counts(profiler)["epoch"] == expected


def test_two_profilers_one_after_the_other_are_apart() -> None:
    for name in ("a", "b"):
        profiler = TrainingProfiler(ALL)
        with profiler.profile_region(name):
            pass
        profiler.save(f"{name}.pt")
    assert (counts("a.pt"), counts("b.pt")) == ({"a": 1}, {"b": 1})


def test_save_without_a_recording_says_so() -> None:
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        TrainingProfiler(ALL).save(FILE)


def test_ends_without_beginnings_are_ignored() -> None:
    callback = TrainingProfiler(ALL).callback
    for name in ("on_epoch_end", "on_sample_end", "on_train_end", "on_validation_end"):
        getattr(callback, name)()
    assert not marey._native.sessions()


def test_a_file_that_cannot_be_written_keeps_the_recording() -> None:
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 2)
    Path("file").write_text("")
    with pytest.raises(OSError, match="file"):
        profiler.save("file/profile.pt")
    Path("folder.pt").mkdir()
    with pytest.raises(OSError, match=r"marey pack failed: .*folder\.pt"):
        profiler.save("folder.pt")
    assert saved_counts(profiler)["epoch"] == 2


def test_a_full_disk_leaves_the_old_files_and_a_later_save_has_all() -> None:
    lines = run_well("""
        import os, resource
        from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
        FILES = "profile.pt", "profile.trace.json"
        def train(profiler):
            for epoch in range(4):
                profiler.callback.on_epoch_begin()
                for number in range(2000):
                    with profiler.profile_region("work"):
                        pass
                profiler.callback.on_epoch_end()
            profiler.callback.on_train_end()
        def limit(size_bytes):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))
        def read():
            return [open(path, "rb").read() for path in FILES]
        profiler = TrainingProfiler(ProfilerConfig(sample_rate=1.0))
        train(profiler)
        profiler.save(FILES[0])
        old = read()
        train(profiler)
        limit(len(old[0]) // 2)
        try:
            profiler.save(FILES[0])
        except OSError as error:
            print("cannot write" in str(error), "too large" in str(error), read() == old)
        limit(len(old[1]) // 2)
        assert len(old[0]) < len(old[1]) // 2, "the profile fits, the trace does not"
        try:
            profiler.save(FILES[0])
        except OSError as error:
            print("profile.trace.json" in str(error), read()[1] == old[1])
        limit(resource.RLIM_INFINITY)
        profiler.save(FILES[0])
        print(*sorted(name for name in os.listdir() if name.startswith("profile")))
    """).splitlines()
    assert lines == ["True True True", "True True", "profile.pt profile.trace.json"]
    assert ProfileAnalyzer(FILE).get_summary()["total_epochs"] == 8


def test_a_json_profile_that_cannot_be_written_leaves_the_old_one() -> None:
    lines = run_well("""
        import os, resource, signal, marey
        from marey.training import ProfileAnalyzer, ProfilerConfig, TrainingProfiler
        def profile(regions):
            profiler = TrainingProfiler(
                ProfilerConfig(export_chrome_trace=False, storage_format="json")
            )
            for number in range(regions):
                with profiler.profile_region(f"region {number}"):
                    pass
            return profiler
        path = profile(2).save("profile.json")
        old = open(path).read()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        data = ProfileAnalyzer(path).data
        data.region_times = {f"region {number}": [1.0] for number in range(10_000)}
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            data.write(path)
        except OSError as error:
            print(error.filename == path, "cannot write the profile: File too large" in str(error))
        print(open(path).read() == old, [name for name in os.listdir() if name.endswith(".tmp")])
    """).splitlines()
    assert lines == ["True True", "True []"]


def test_a_chrome_trace_that_cannot_be_written_costs_no_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(run: Path, path: Path) -> None:
        raise OSError(f"cannot write {path}")

    monkeypatch.setattr("marey.training.profiler.export_chrome_trace", fail)
    profiler = TrainingProfiler(
        dataclasses.replace(ALL, storage_format="json", export_chrome_trace=True)
    )
    run_epochs(profiler, 2)
    with pytest.raises(OSError, match=r"profile\.trace\.json"):
        profiler.save("profile.json")
    assert ProfileAnalyzer("profile.json").get_summary()["total_epochs"] == 2


def test_objects_are_tables_in_notebooks() -> None:
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 2)
    shown = {
        "recorded_epochs": profiler._repr_html_(),
        "total_ms": ProfileAnalyzer(profiler.save(FILE) or "")._repr_html_(),
        "self_time_ms": CallGraphBuilder().build_from_regions({"a/b": 1.0})._repr_html_(),
        "hot_operation": Bottleneck(
            BottleneckType.HOT_OPERATION, "high", "<b>", "use less", 1.0
        )._repr_html_(),
    }
    for text, page in shown.items():
        assert "<table" in page
        assert text in page
        assert "<b>" not in page


@pytest.mark.parametrize("folder", ["file", "/proc/self"])
def test_a_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(folder: str) -> None:
    Path("file").write_text("")
    profiler = TrainingProfiler(dataclasses.replace(ALL, output_dir=Path(folder)))
    with pytest.warns(UserWarning, match=f"cannot record into .*{folder}.*; recording into"):
        run_epochs(profiler, 2)
    profiler.save(Path(FILE).absolute())
    assert counts()["epoch"] == 2


LOOP = """
    import os
    from marey.training import ProfilerConfig, TrainingProfiler

    profiler = TrainingProfiler(ProfilerConfig(sample_rate=1.0))
    for epoch in range(4):
        profiler.callback.on_epoch_begin(epoch)
        with profiler.profile_region("work"):
            pass
        profiler.callback.on_epoch_end(epoch)
        if epoch == 2:
"""


def test_a_training_that_fails_leaves_its_recording() -> None:
    done = run_program(LOOP + "            raise RuntimeError('failed')")
    assert done.exit_code == 1
    (name,) = (name for name in walk_files() if name.endswith(".marey"))
    assert f"the training profile was not saved; it is in {name}" in done.stderr
    assert ProfileAnalyzer(name).get_summary()["total_epochs"] == 3


def test_a_training_that_is_killed_leaves_its_recording() -> None:
    wait = "            import marey; marey._native.checkpoint(); print('ready'); input()"
    with Live(LOOP + wait) as program:
        assert program.read_line() == "ready"
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
    (name,) = (name for name in walk_files() if name.endswith(".marey"))
    assert ProfileAnalyzer(name).get_summary()["total_epochs"] == 3


def test_a_program_that_saves_leaves_the_profile_alone() -> None:
    printed = run_well(LOOP + "            print(profiler.save('a.pt'))\n    profiler.save('b.pt')")
    assert printed.endswith("a.pt\n")
    assert set(walk_files()) == {"program.py", "a.pt", "a.trace.json", "b.pt", "b.trace.json"}
    assert ProfileAnalyzer("a.pt").get_summary()["total_epochs"] == 3
    assert ProfileAnalyzer("b.pt").get_summary()["total_epochs"] == 4


def test_marey_disable_records_nothing() -> None:
    done = run_program(LOOP + "            profiler.save('a.pt')", MAREY_DISABLE="1")
    assert "RuntimeError: nothing was recorded" in done.stderr
    assert set(walk_files()) == {"program.py"}


def test_a_session_that_the_program_ends_is_started_anew() -> None:
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 2)
    marey.finalize()
    run_epochs(profiler, 3)
    assert saved_counts(profiler)["epoch"] == 5


def test_a_child_process_that_is_forked_leaves_the_parent_s_recording_alone() -> None:
    run_well("""
        import os
        from marey.training import ProfilerConfig, TrainingProfiler

        profiler = TrainingProfiler(ProfilerConfig(sample_rate=1.0, export_chrome_trace=False))
        profiler.callback.on_epoch_begin()
        child = os.fork()
        with profiler.profile_region("child" if child == 0 else "parent"):
            pass
        profiler.callback.on_epoch_end()
        profiler.callback.on_train_end()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        profiler.save("profile.pt")
    """)
    assert ProfileAnalyzer(FILE).get_summary()["total_epochs"] == 1
    assert counts()["epoch/step/parent"] == 1


def test_operators_of_the_program_s_own_hooks_are_left_alone() -> None:
    marey.torch.enable(operators=True)
    try:
        config = dataclasses.replace(ALL, collect_gpu_ops=True, active_samples=1, warmup_samples=0)
        profiler, trainer = TrainingProfiler(config), Trainer()
        for _ in range(3):
            profiler.callback.on_epoch_begin()
            trainer.step()
            profiler.callback.on_epoch_end()
        profiler.save(FILE)
        assert marey.torch.is_enabled()
    finally:
        marey.torch.disable()
    assert run_rows(FILE, "SELECT count(*) FROM spans WHERE name = 'aten::linear'") == [(6,)]


@pytest.mark.parametrize(
    "rank",
    [
        {"RANK": "1", "WORLD_SIZE": "2"},
        {"RANK": "1"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "1"},
    ],
)
def test_each_rank_of_a_job_has_its_own_file(
    rank: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_names(rank, monkeypatch) == [
        "a.rank1.pt",
        "x.rank12.rank1.pt",  # the name of another rank
        "x_rank1.pt",
    ]


@pytest.mark.parametrize(
    "rank", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}]
)
def test_a_process_without_other_ranks_has_the_name_that_it_chose(
    rank: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert saved_names(rank, monkeypatch) == ["a.pt", "x.rank12.pt", "x_rank1.pt"]


def saved_names(rank: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of the files that a process with these variables saves."""
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 1)
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    paths = [profiler.save(name) for name in ("a.pt", "x.rank12.pt", "x_rank1.pt")]
    return [Path(path).name for path in paths if path is not None]


def test_a_session_that_records_is_used_and_not_ended() -> None:
    session = marey.start("outer", data="trace")
    profiler = TrainingProfiler(dataclasses.replace(ALL, sample_rate=0.1))
    run_epochs(profiler, 4)
    profiler.save(FILE)
    assert marey._native.active_sessions() == [session]
    marey.finalize(session)
    assert counts()["epoch"] == 4


def test_a_session_without_a_trace_cannot_be_saved() -> None:
    marey.start("outer")
    profiler = TrainingProfiler(ALL)
    run_epochs(profiler, 1)
    with pytest.raises(RuntimeError, match="writes no trace"):
        profiler.save(FILE)


def test_the_first_regions_of_two_threads_start_one_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both_start = threading.Barrier(2)

    def slow_start(*args: Any, **kwargs: Any) -> int | None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both_start.wait(0.5)  # the other thread, if nothing stops it
        return start_for(*args, **kwargs)

    monkeypatch.setattr(recording, "start_for", slow_start)
    profiler = TrainingProfiler(ALL)
    seen = []

    def work() -> None:
        with profiler.profile_region("work"):
            seen.append(len(marey._native.sessions()))

    run_in_threads(*[work] * 2)
    assert seen == [1, 1]
    assert saved_counts(profiler) == {"work": 2}


def test_validation_in_an_epoch_is_counted_once() -> None:
    profiler, trainer = TrainingProfiler(ALL), Trainer()
    for _ in range(3):
        profiler.callback.on_epoch_begin()
        trainer.step()
        profiler.callback.on_validation_begin()
        trainer.net(trainer.inputs)
        profiler.callback.on_validation_end()
        profiler.callback.on_epoch_end()
    analyzer = analysed(profiler)
    operations = analyzer.get_top_operations(1000)
    assert {"validation", "epoch"} <= {operation["name"] for operation in operations}
    exclusive_ms = sum(operation["total_ms"] for operation in operations)
    assert exclusive_ms == pytest.approx(analyzer.get_summary()["total_time_ms"], rel=1e-6)
    assert kinds(FILE)["step"] == 3
