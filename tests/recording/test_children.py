"""Child processes of a profiled program: each has its own profile, and events are counted once."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path

import pytest
from profiles import Node, counts, find, metrics, profile_names, tree
from programs import run_program, run_well


def children() -> list[Node]:
    """Returns the profiles of the child processes, by their counts."""
    found = [tree(path) for path in profile_names() if path != "x.hatchet"]
    for path in profile_names():
        pid = tree(path)["marey"]["process"]["pid"]
        assert path in ("x.hatchet", f"x.{pid}.hatchet")
    return sorted(found, key=lambda root: sorted(counts(root).items()))


def test_after_a_fork_each_process_has_its_own_events() -> None:
    source = """
        import marey, os, sys
        marey.start("x")
        def work(name):
            with marey.scope(name, {"m": 1}):
                pass
        work("before")
        with marey.scope("open"):
            work("before")
            child = os.fork()
            if child == 0:
                work("child")
            else:
                os.waitpid(child, 0)
                work("parent")
        work("after")
        sys.exit(3 if child == 0 else 0)
        """
    run_well(source)
    expected = {"before": 1, "open": 1, "open/before": 1, "open/parent": 1, "after": 1}
    assert counts(tree("x.hatchet")) == expected
    (child,) = children()
    # The child is below the open scope, which its parent counts.
    assert counts(child) == {"open": 0, "open/child": 1, "after": 1}
    assert child["marey"]["process"]["complete"] is True
    assert not any(child["marey"]["losses"].values())


def test_a_fork_in_a_thread_and_in_a_task() -> None:
    source = """
        import asyncio, marey, os, threading
        marey.start("x")
        def fork():
            with marey.scope("forker"):
                child = os.fork()
                with marey.scope("child" if child == 0 else "parent"):
                    pass
            if child == 0:
                marey.finalize()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        with marey.scope("main"):
            thread = threading.Thread(target=fork)
            thread.start(); thread.join()
            async def task():
                with marey.scope("task"):
                    fork()
            asyncio.run(task())
        """
    run_well(source, "-W", "ignore::DeprecationWarning")  # the program has threads of its own
    assert counts(tree("x.hatchet")) == {
        "main": 1,
        "main/forker": 1,
        "main/forker/parent": 1,
        "main/task": 1,
        "main/task/forker": 1,
        "main/task/forker/parent": 1,
    }
    by_thread, by_task = children()
    assert counts(by_thread)["main/forker/child"] == 1
    assert counts(by_task)["main/task/forker/child"] == 1


def test_a_child_that_records_nothing_leaves_no_file() -> None:
    source = """
        import marey, os
        marey.start("x")
        with marey.scope("s"):
            pass
        if (child := os.fork()) > 0:
            os.waitpid(child, 0)
        """
    run_well(source)
    assert profile_names() == ["x.hatchet"]


def test_nested_and_concurrent_forks_are_recorded() -> None:
    source = """
        import marey, os
        marey.start("x")
        for _ in range(5):
            if os.fork() == 0:
                with marey.scope("child"):
                    pass
                if os.fork() == 0:
                    with marey.scope("grandchild"):
                        pass
                else:
                    os.wait()
                raise SystemExit
        for _ in range(5):
            os.wait()
        """
    run_well(source)
    found = [counts(tree(path)) for path in profile_names() if path != "x.hatchet"]
    assert sorted(found, key=str) == [{"child": 1}] * 5 + [{"grandchild": 1}] * 5


def test_each_object_is_prepared_for_a_child_even_if_another_fails() -> None:
    source = """
        import os
        from marey import _forks
        class Lock: pass
        def fail(_): raise RuntimeError("failed")
        first, second = Lock(), Lock()
        _forks.follow(first, fail)
        _forks.follow(second, lambda _: print("prepared", flush=True))
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        """
    done = run_program(source)
    assert (done.exit_code, done.stdout) == (0, "prepared\n")
    assert "RuntimeError: failed" in done.stderr


def test_a_fork_while_threads_record() -> None:
    source = """
        import marey, os, threading
        marey.start("x")
        stop = threading.Event()
        def work():
            while not stop.is_set():
                with marey.scope("busy", {"m": 1}):
                    with marey.scope("new " + str(id(object()))):
                        pass
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        for number in range(30):
            child = os.fork()
            if child == 0:
                with marey.scope("child"):
                    pass
                marey.finalize()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        """
    done = run_program(source, MAREY_CHECKPOINT_SECS="0.01")
    assert done.exit_code == 0, done.stderr
    assert len(children()) == 30
    assert all(counts(child) == {"child": 1} for child in children())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python warns since 3.12")
def test_python_warns_of_no_threads_at_a_fork() -> None:
    source = """
        import marey, os
        marey.start("x")
        with marey.scope("s"):
            pass
        for _ in range(3):
            if (child := os.fork()) == 0:
                os._exit(0)
            os.waitpid(child, 0)
        """
    # As an error it would be lost: `os.fork` does not raise it.
    run_well(source, "-W", "always", MAREY_CHECKPOINT_SECS="0.01")


def test_checkpoints_go_on_after_a_fork() -> None:
    source = """
        import marey, os
        from pathlib import Path
        marey.start("x")
        child = os.fork()
        with marey.scope("seen"):
            own = f"x.{os.getpid()}.hatchet" if child == 0 else "x.hatchet"
            while not (Path(own).exists() and "seen" in Path(own).read_text()):
                pass
        if child:
            os.waitpid(child, 0)
        """
    run_well(source, MAREY_CHECKPOINT_SECS="0.01")
    assert len(profile_names()) == 2


def test_sigterm_at_the_end_of_a_fork_writes_the_file_and_ends_the_process() -> None:
    # The hook runs before the parent's background threads are started again.
    source = """
        import os, signal
        os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
        import marey
        marey.start("x")
        with marey.scope("done"):
            pass
        if os.fork() == 0:
            os._exit(0)
        signal.pause()
        """
    done = run_program(source, MAREY_CHECKPOINT_SECS="0")
    assert (done.exit_code, done.stderr) == (-signal.SIGTERM, "")
    root = tree("x.hatchet")
    assert root["marey"]["process"]["complete"] is True
    assert counts(root) == {"done": 1}


# How a program forks without Python's hooks, and between forks of which these know.
FORKS = {
    "in C": """
        if (child := ctypes.PyDLL(None).fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """,
    "by subprocess": "subprocess.run(['true'], check=True, user=os.getuid())",
}


@pytest.mark.parametrize("fork", FORKS)
def test_recording_goes_on_after_a_fork_that_python_did_not_make(fork: str) -> None:
    unhooked, hooked = (textwrap.dedent(source) for source in (FORKS[fork], HOOKED_FORK))
    source = f"""
import ctypes, marey, os, subprocess
from pathlib import Path

def threads():
    return len(os.listdir("/proc/self/task"))

marey.start("x", data="trace")
before = threads()
for code in ({unhooked!r}, {hooked!r}, {unhooked!r}):
    exec(code)
    while threads() != before:  # after a fork of its own Python starts them in a moment
        pass
    [spool] = Path("x.marey/spool").iterdir()
    taken_bytes = spool.stat().st_size
    while spool.stat().st_size == taken_bytes:
        with marey.scope("seen"):
            pass
"""
    run_well(source, MAREY_CHECKPOINT_SECS="0.01")


HOOKED_FORK = """
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    """


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_write_profiles(method: str) -> None:
    source = f"""
        import marey, multiprocessing
        def work(number):
            if marey.depth() is None:
                marey.start("child")
            with marey.scope("work", {{"m": number}}):
                return number * 2
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            marey.start("x")
            with marey.scope("pool"):
                with context.Pool(2) as pool:
                    assert pool.map(work, range(10)) == list(range(0, 20, 2))
                    pool.close()
                    pool.join()
            process = context.Process(target=work, args=(100,))
            process.start()
            process.join()
            assert process.exitcode == 0
        """
    run_well(source)
    assert counts(tree("x.hatchet")) == {"pool": 1}
    roots = [tree(path) for path in profile_names() if path != "x.hatchet"]
    prefix = "pool/" if method == "fork" else ""
    sums = [
        metrics(find(root, path))["m"]
        for root in roots
        for path in counts(root)
        if path.endswith("work")
    ]
    assert (sum(sums), 100 in sums) == (145, True)
    total = [
        count for root in roots for path, count in counts(root).items() if path.endswith("work")
    ]
    assert sum(total) == 11
    assert any(f"{prefix}work" in counts(root) for root in roots)
    assert all(root["marey"]["process"]["complete"] for root in roots)


def test_data_loader_workers_write_profiles() -> None:
    pytest.importorskip("torch")
    source = """
        import marey, torch
        from torch.utils.data import DataLoader, Dataset
        class Numbers(Dataset):
            def __len__(self):
                return 40
            def __getitem__(self, index):
                with marey.scope("item", {"m": index}):
                    return index
        marey.start("x")
        with marey.scope("epoch"):
            loader = DataLoader(Numbers(), batch_size=4, num_workers=2)
            with marey.scope("batches"):
                assert sum(int(batch.sum()) for batch in loader) == 780
            del loader
        """
    run_well(source)
    assert counts(tree("x.hatchet")) == {"epoch": 1, "epoch/batches": 1}
    workers = children()
    assert len(workers) == 2
    items = [find(root, "epoch/batches/item") for root in workers]
    assert sum(node["metrics"]["wall_count"] for node in items) == 40
    assert sum(metrics(node)["m"] for node in items) == 780


def test_a_program_that_replaces_itself_leaves_its_checkpoint() -> None:
    source = """
        import marey, os, sys
        marey.start("x")
        with marey.scope("before"):
            pass
        marey._native.checkpoint()
        os.execv(sys.executable, [sys.executable, "-c", "print('after')"])
        """
    assert run_well(source) == "after\n"
    assert counts(tree("x.hatchet")) == {"before": 1}
    assert not list(Path().glob(".*.tmp"))
