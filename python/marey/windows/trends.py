"""The table over windows that `RollingWindowProfiler.analyze_trends` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = ["Trends"]


class Trends:
    """A row for each window, the oldest first.

    A row has ``window``, ``start``, ``duration_seconds``, ``path`` and the metrics of the window;
    a metric that a window lacks is `None`.
    """

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._columns = list(dict.fromkeys(column for row in rows for column in row))
        self._rows = [{column: row.get(column) for column in self._columns} for row in rows]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def column(self, name: str) -> list[Any]:
        """Returns the values of a column.

        Raises:
            KeyError: No column has this name.
        """
        if name not in self._columns:
            known = ", ".join(self._columns)
            raise KeyError(f"no column is called {name!r}; the columns are {known}")
        return [row[name] for row in self._rows]

    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows."""
        return [dict(row) for row in self._rows]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the rows as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self._rows, columns=self._columns)

    def __repr__(self) -> str:
        if not self._rows:
            return "no window has ended"
        shown = [column for column in self._columns if column != "path"]
        lines = [shown, *([_text(row[column]) for column in shown] for row in self._rows)]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        texts = ("  ".join(map(str.rjust, line, widths)) for line in lines)
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        from marey import _notebook

        rows = [[row[column] for column in self._columns] for row in self._rows]
        return _notebook.table_html(self._columns, rows, len(rows))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
