"""Work on other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_in_threads(*works: Callable[[], object]) -> None:
    """Runs functions at the same time, each on a thread of its own, to their ends."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
