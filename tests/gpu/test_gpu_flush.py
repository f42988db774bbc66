"""CUPTI flushes: records that it withholds, returns unfinished, or drops."""

from __future__ import annotations

import shutil

import pytest
from gpu_programs import losses, read_kernels, record, run
from profiles import find, tree

deliveries = pytest.mark.parametrize("delivery", ["inline", "worker"])

RUNNING = """
    part launch {
        launch ended duration 3
        launch running unfinished
    }
    part finish {
        finish
    }
"""


@deliveries
def test_ending_a_session_keeps_the_kernels_of_another(delivery: str) -> None:
    """A forced flush returns running kernels without their end, and never again."""
    run(
        """
        marey.start("other", backend="cupti")
        session = marey.start("profile", backend="cupti")
        double.play("launch")
        marey.finalize(session)
        double.play("finish")
        marey.finalize()
        """,
        f"delivery {delivery}\n{RUNNING}",
    )
    assert {path: count for path, (count, _) in read_kernels("other.hatchet").items()} == {
        "ended": 1,
        "running": 1,
    }
    assert read_kernels() == {}, "its records are in a buffer with one in progress"
    assert losses() == {"device_records_dropped": 2}


@deliveries
def test_the_last_session_counts_unfinished_kernels_as_lost(delivery: str) -> None:
    record('double.play("launch")', f"delivery {delivery}\n{RUNNING}")
    assert read_kernels() == {"ended": (1, 3)}
    assert losses() == {"device_records_dropped": 1}


@deliveries
def test_launches_of_other_threads_do_not_delay_the_end(delivery: str) -> None:
    run(
        """
        import time
        marey.start("other", backend="cupti")
        session = marey.start("profile", backend="cupti")
        marey.deactivate(session)
        thread = threading.Thread(target=double.play, args=("launch",))
        thread.start()
        thread.join()
        marey.activate(session)
        double.launch("kernel", 5)
        marey.finalize(session)
        double.play("finish")
        marey.finalize()
        """,
        f"delivery {delivery}\nbuffers each-thread\n{RUNNING}",
    )
    assert read_kernels() == {"kernel": (1, 5)}
    assert set(read_kernels("other.hatchet")) == {"kernel", "ended", "running"}
    assert losses("other.hatchet") == losses()


NOTHING_COMES = """
    fail cuptiActivityEnable 1 at 5  # the kind of waits
    part launch {
        launch kernel duration 5
    }
    part nothing {
    }
    part waits {
        synchronize device
        synchronize stream
    }
    part of-no-bytes {
        copy to-device 0
        copy on-device 0 blocking
        set 0
    }
"""


@pytest.mark.parametrize("part", ["waits", "of-no-bytes"])
def test_a_call_that_leaves_no_record_is_not_waited_for(part: str) -> None:
    source = """
        marey.start("{part}", backend="cupti", data="trace")
        double.play("{part}")
        double.play("launch")
        marey.finalize()
        print(double.calls("cuptiActivityFlushAll"), double.stats().callbacks)
        """
    flushes, callbacks = map(int, run(source.format(part=part), NOTHING_COMES).split())
    shutil.rmtree("lib")
    without = run(source.format(part="nothing"), NOTHING_COMES).split()
    assert flushes == int(without[0]), "CUPTI is flushed again only to wait for a record"
    assert callbacks > int(without[1]), "the double calls back for these calls"


# Invalid times


def test_a_kernel_without_times_is_counted_and_its_time_is_a_loss() -> None:
    run(
        """
        marey.start("profile", backend="cupti")
        double.run()
        marey.finalize()
        print(double.calls("cuptiActivityFlushAll"))
        """,
        """
        launch mixed duration 100
        launch mixed untimed
        launch mixed backwards duration 7
        launch untimed untimed
        """,
    )
    assert read_kernels() == {"mixed": (3, 100), "untimed": (1, 0)}
    assert losses() == {"device_times_missing": 3}
    mixed = find(tree("profile.hatchet"), "mixed")["metrics"]
    assert {mixed[f"gpu_{key} (ns)"] for key in ("min", "max", "p50", "p99")} == {100}
    untimed = find(tree("profile.hatchet"), "untimed")["metrics"]
    assert "gpu_min (ns)" not in untimed, "no time is known"


def test_a_record_without_times_completes_its_launch() -> None:
    out = record(
        """
        double.run()
        marey.data.advance_phase(session)
        print(marey.data.is_phase_complete(session, 0), double.calls("cuptiActivityFlushAll"))
        """,
        "launch kernel untimed",
        mode="periodic_flushing",
    )
    assert out == "True 2\n", "one flush of each of both, and no more"
    assert read_kernels("profile.part_0.hatchet") == {"kernel": (1, 0)}


# Graphs that are destroyed

DESTROYED = """
    part capture {
        capture step {
            launch first duration 100
            launch second duration 10
        }
    }
    part replay {
        graph step
        destroy step
    }
"""


@deliveries
def test_kernels_of_a_destroyed_graph_keep_their_capture(delivery: str) -> None:
    """The executable graph is destroyed before its records are read."""
    record(
        """
        with marey.scope("capture"):
            double.play("capture")
        for _ in range(3):
            with marey.scope("step"):
                double.play("replay")
            marey.data.advance_phase(session)
        """,
        f"delivery {delivery}\n{DESTROYED}",
    )
    for phase in range(3):
        assert read_kernels(f"profile.part_{phase}.hatchet") == {
            "step/<captured_at>/capture/first": (1, 100),
            "step/<captured_at>/capture/second": (1, 10),
        }
    assert losses("profile.part_2.hatchet") == {}


# Buffers


def test_each_thread_gets_its_own_buffer() -> None:
    run(
        """
        threads = 150
        barrier = threading.Barrier(threads)

        def work():
            double.launch("kernel", 3, times=2)
            barrier.wait()  # until all have a buffer

        marey.start("profile", backend="cupti")
        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        marey.finalize()
        """,
        "buffers each-thread",
        MAREY_GPU_BUFFER_BYTES=str(32 << 20),
    )
    assert read_kernels() == {"kernel": (300, 900)}
    assert losses() == {}


@deliveries
def test_reused_buffers_are_zeroed(delivery: str) -> None:
    run(
        """
        for _ in range(2):
            marey.start("profile", backend="cupti")
            double.launch("kernel", 3, times=100_000)
            marey.finalize()
        stats = double.stats()
        assert stats.buffers_requested > 30
        assert stats.buffers_dirty == 0
        """,
        f"delivery {delivery}",
        MAREY_GPU_BUFFER_BYTES=str(4 << 20),
    )
