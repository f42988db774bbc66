"""A blocked call delays only the callers that wait for it."""

from __future__ import annotations

import pytest
from gpu_programs import run


@pytest.mark.parametrize(
    "call", ["marey.start('other')", "marey.activate(session)", "marey._native.gpu_level()"]
)
def test_a_blocked_call_does_not_hold_the_gil(call: str) -> None:
    out = run(
        f"""
        session = marey.start("profile", backend="cupti")
        threading.Thread(target=marey.finalize, daemon=True).start()
        while double.calls("cuptiUnsubscribe") == 0:
            pass
        # The thread below has the interpreter until it lets go of it.
        sys.setswitchinterval(1000)
        threading.Thread(target=lambda: {call}, daemon=True).start()
        print("goes on", flush=True)
        os._exit(0)
        """,
        "fail cuptiUnsubscribe -2147483648",
    )
    assert out == "goes on\n"


def test_a_hanging_device_does_not_block_others_while_cupti_is_handed_over() -> None:
    out = run(
        """
        marey.start("profile", backend="cupti")
        double.launch("kernel", 5)
        before = double.calls("cuCtxSynchronize")
        threading.Thread(target=marey._native.pause_gpu, args=(True,), daemon=True).start()
        while double.calls("cuCtxSynchronize") == before:
            pass
        print(marey._native.gpu_level()[0])
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)
        print("goes on", flush=True)
        os._exit(0)
        """,
        "fail cuCtxSynchronize -2147483648",
        PYTHONWARNINGS="ignore::DeprecationWarning",  # since 3.12: of forks beside threads
    )
    assert out == "cupti\ngoes on\n"
