"""A training loop that a library runs: its session, its hooks, its epochs and batches.

Steps are those of the optimizer hooks (`marey.torch`); the adapters only add scopes around them.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import marey
import marey.torch
from marey import _native
from marey._names import KIND_SCOPE


class Adapter:
    """An object that a library reports its training to, with the arguments of a recording."""

    _default_name: str

    def __init__(
        self,
        name: str | os.PathLike[str] | None = None,
        *,
        data: Literal["tree", "trace"] = "trace",
        operators: bool = False,
        overhead_target: str | None = None,
    ) -> None:
        super().__init__()
        self._training = Training(
            self._default_name if name is None else name,
            data=data,
            operators=operators,
            overhead_target=overhead_target,
        )


class Training:
    """Records a training loop from `begin` to `end`.

    A session that records already, for example that of `marey run`, is used and not ended.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        *,
        data: Literal["tree", "trace"],
        operators: bool,
        overhead_target: str | None,
    ) -> None:
        self._name = name
        self._data: Literal["tree", "trace"] = data
        self._operators = operators
        self._overhead_target = overhead_target
        self._session: int | None = None
        self._has_hooks = False
        self._scopes: list[str] = []

    def begin(self) -> None:
        """Starts a session unless one records, and installs the hooks of `marey.torch`."""
        if not _native.is_active():
            self._session = marey.start(self._name, data=self._data)
        self._has_hooks = not marey.torch.is_enabled()
        marey.torch.enable(operators=self._operators, overhead_target=self._overhead_target)

    def end(self) -> None:
        """Leaves the open scopes, and undoes what `begin` has done. Safe to call twice."""
        while self._scopes:
            _native.pop(self._scopes.pop())
        if self._has_hooks:
            self._has_hooks = False
            marey.torch.disable()
        if self._session is not None:
            session, self._session = self._session, None
            marey.finalize(session, "marey" if self._data == "trace" else "")

    def enter(self, name: str) -> None:
        """Enters a scope."""
        self._scopes.append(name)
        _native.push(name, KIND_SCOPE)

    def leave(self, name: str) -> None:
        """Leaves the innermost scope of a name and the scopes in it; without effect if none is."""
        if name in self._scopes:
            last = None
            while last != name:
                last = self._scopes.pop()
                _native.pop(last)

    def number_batch(self, epoch: int, batch: int) -> None:
        """Records the numbers of the batch that begins, as values of a trace."""
        self.record_values({"epoch": epoch, "batch": batch})

    def record_values(self, values: dict[str, Any]) -> None:
        """Records numbers in a trace; other values are ignored."""
        numbers = {
            name: value
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        if numbers and any(map(_native.run_dir, _native.active_sessions())):
            _native.add_metrics(numbers)
