"""A blocked call delays only the callers that wait for it."""

from __future__ import annotations

import pytest
from gpu_programs import run

pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.mark.parametrize("call", ["marey.start('other')", "marey.activate(session)"])
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
