"""States: labels that are appended to the path of a scope while they are set."""

from __future__ import annotations

from . import _native
from ._decorator import wrap
from ._names import METADATA_STATE, METADATA_STATE_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._decorator import F

__all__ = [
    "COMPUTE_METADATA_SCOPE_NAME",
    "COMPUTE_METADATA_SCOPE_PREFIX",
    "enter_state",
    "exit_state",
    "metadata_state",
    "state",
]

# Proton's names for the state in which kernels run only to compute launch metadata.
COMPUTE_METADATA_SCOPE_NAME = METADATA_STATE
COMPUTE_METADATA_SCOPE_PREFIX = METADATA_STATE_PREFIX


class state:
    """Sets a state on this thread, as a context manager or a decorator.

    Metrics and kernels inside the state are added to a node of this name below their scope. States
    nest: when the inner state ends, the outer state applies again. States belong to the thread, so
    coroutines that interleave on one thread share them.

    Args:
        name: Name of the state.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> state:
        _native.enter_state(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        _native.exit_state()

    def __call__(self, func: F) -> F:
        return wrap(self, func)


class metadata_state(state):
    """The state of kernels that run only to compute launch metadata. Viewers omit it.

    Args:
        kernel_name: Name of the kernel that the metadata describes.
    """

    def __init__(self, kernel_name: str | None = None) -> None:
        super().__init__(f"{METADATA_STATE_PREFIX}{kernel_name}" if kernel_name else METADATA_STATE)


def enter_state(name: str) -> None:
    """Sets a state on this thread until `exit_state`."""
    _native.enter_state(name)


def exit_state() -> None:
    """Ends the innermost state of this thread, if there is one."""
    _native.exit_state()
