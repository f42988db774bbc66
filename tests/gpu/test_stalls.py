"""A call that cannot go on holds up those that wait for it, and nothing else."""

from __future__ import annotations

import pytest
from gpu_programs import run

pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.mark.parametrize("call", ["marey.start('other')", "marey.activate(session)"])
def test_the_interpreter_goes_on_while_a_call_waits_for_another(call: str) -> None:
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
