"""Records a run for `bench/runs.py`: `python record_run.py NAME SPANS`.

Steps of 20 layers with 100 operations each, 2,021 names in all, in one thread.
"""

from __future__ import annotations

import sys

import marey

LAYERS = 20
OPERATIONS = 100
SPANS_PER_STEP = 1 + LAYERS * (1 + OPERATIONS)


def main() -> None:
    name, spans = sys.argv[1], int(sys.argv[2])
    scope = marey.scope
    layers = [
        (f"layer_{layer}", [f"layer_{layer}.operation_{number}" for number in range(OPERATIONS)])
        for layer in range(LAYERS)
    ]
    session = marey.start(name, data="trace")
    for _ in range(spans // SPANS_PER_STEP):
        with scope("step"):
            for layer, operations in layers:
                with scope(layer):
                    for operation in operations:
                        with scope(operation):
                            pass
    marey.finalize(session, output_format="marey")


if __name__ == "__main__":
    main()
