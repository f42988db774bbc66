"""Windows of torch.profiler, which needs CUPTI for itself."""

from __future__ import annotations

import marey
import pytest
from gpu_programs import try_run

pytest.importorskip("torch")

# A subscription as torch.profiler makes it; PyTorch itself is one without CUDA here.
SUBSCRIBER = """
        import ctypes
        import os

        cupti = ctypes.CDLL(os.path.join(os.environ["MAREY_CUPTI_LIB"], "libcupti.so"))
        callback = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(lambda *_: None)
        subscriber = ctypes.c_void_p()

        def subscribe():
            return cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None)
"""


def test_the_profiler_has_cupti_in_a_window_and_no_kernel_around_it_is_lost() -> None:
    done = try_run(
        f"""
        import marey.torch
        {SUBSCRIBER}
        marey.start("trace", data="trace")
        double.launch("before", 5)
        assert subscribe() != 0, "marey has the subscription"
        with marey.torch.window():
            assert subscribe() == 0
            double.launch("inside", 5)
            assert cupti.cuptiUnsubscribe(subscriber) == 0
        double.launch("after", 5)
        marey.finalize()
        """
    )
    # PyTorch complains about the double, which is no real driver.
    assert done.exit_code == 0, done.stderr
    opened = marey.open("trace.marey")
    assert opened.sql("SELECT name FROM gpu_activities ORDER BY start_nanos").rows() == [
        ("before",),
        ("after",),
    ]
    ((note,),) = opened.sql("SELECT value FROM metadata WHERE key = 'gpu'").rows()
    assert "paused for windows of torch.profiler" in note
    assert opened.sql("SELECT cause FROM losses").rows() == []


def test_the_profiler_is_set_up_while_cupti_is_free_and_may_give_it_up_later() -> None:
    """torch.profiler subscribes when it is first set up, and unsubscribes in a later CUDA call."""
    done = try_run(
        f"""
        import marey.torch
        import torch
        from marey import _native
        from torch.profiler.profiler import _KinetoProfile
        {SUBSCRIBER}
        prepare_trace = _KinetoProfile.prepare_trace

        def prepare(profiler):
            assert os.environ["TEARDOWN_CUPTI"] == "1"
            assert subscribe() == 0
            prepare_trace(profiler)

        _KinetoProfile.prepare_trace = prepare
        marey.start("trace", data="trace")
        marey.torch.window(steps=1, wait=1, warmup=1).arm()
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
        for step in range(4):
            assert (subscriber.value is not None) == (step >= 2), "the window is the third step"
            double.launch(f"step {{step}}", 5)
            optimizer.step()
        assert "TEARDOWN_CUPTI" not in os.environ
        assert _native.gpu_level()[0] == "waiting"
        assert cupti.cuptiUnsubscribe(subscriber) == 0
        while _native.gpu_level()[0] != "cupti":
            pass
        double.launch("after", 5)
        marey.finalize()
        """
    )
    assert done.exit_code == 0, done.stderr
    opened = marey.open("trace.marey")
    names = opened.sql("SELECT name FROM gpu_activities ORDER BY start_nanos").rows()
    assert names == [("step 0",), ("step 1",), ("after",)]
