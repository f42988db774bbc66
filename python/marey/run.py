"""A run, SQL over it, and other formats: `marey.open`.

    run = marey.open("train.marey")  # or "trace.json.gz", or any other format that is known
    run.sql("SELECT name, total_nanos FROM top ORDER BY total_nanos DESC LIMIT 10")
    run.export("train.pftrace")

An answer goes without a copy to whatever reads Arrow: pandas, Polars, pyarrow, DuckDB. None of
them is needed.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _collect, _engine, _warning

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["SECTIONS", "Result", "Run", "import_files", "open"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_ALL_COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, description
FROM information_schema.columns WHERE table_schema = 'main'
ORDER BY table_name, ordinal_position
"""

SECTIONS: tuple[str, ...] = tuple(name for name, _ in _engine.sections())
"""Names of the tables of a report, for `Run.section`."""

# Rows that `repr` and a notebook show.
_SHOWN_ROWS = 100


def open(
    path: _Path,
    *,
    memory_limit: int | None = None,
    threads: int | None = None,
) -> Run:
    """Opens a run for questions, and collects it first if that has not been done.

    Where nothing can be written, what was collected before is opened, with a warning. A file of
    another format is imported for as long as the run is used; a warning says what was lost.

    Args:
        path: The folder ``NAME.marey``, a file that `marey pack` made of one, or a file of another
            format, compressed or not: what it is, its content says. Or a pipe that such a file
            comes by.
        memory_limit: Bytes that a query may need, and an answer hold; if not given, what
            ``MAREY_MEMORY_LIMIT`` says, else 2 GiB.
        threads: Threads that answer; one a core if not given.

    Raises:
        FileNotFoundError: There is nothing; another `OSError` if it cannot be read.
        UnreadableRun: It is no sound run, and of no format that is known; a `ValueError`.
    """
    place = os.path.abspath(os.fsdecode(path))
    if _engine.needs_collecting(place):
        _collect.collect(place)
    run = _engine.Run.open(place, memory_limit, threads)
    if uncollected := run.uncollected_bytes():
        _warning.warn(
            f"{place}: {uncollected:,} bytes of spools are not collected:"
            " nothing can be written there"
        )
    for warning in run.warnings():
        _warning.warn(warning)
    return Run(run)


def import_files(files: _Path | Iterable[_Path], out: _Path) -> None:
    """Makes a run of files of other formats, such as the traces of all ranks of a job.

    The clocks of several files are aligned on the ends of the collectives that they have in common.
    A warning says what was lost.

    Args:
        files: One file, or several.
        out: The run, a folder; nothing is there yet.

    Raises:
        FileExistsError: Something is there; another `OSError` if a file cannot be read or written.
        UnreadableRun: Nothing in a file can be used; a `ValueError`.
        ValueError: There are no files.
    """
    several = [files] if isinstance(files, (str, bytes, os.PathLike)) else files
    paths = [os.fsdecode(file) for file in several]
    if not paths:
        raise ValueError("there are no files to import")
    for warning in _engine.import_files(paths, os.fsdecode(out)):
        _warning.warn(warning)


class Run:
    """A run that was opened by `open`. Several threads may use it at once.

    The tables are as they were when it was opened.
    """

    def __init__(self, run: _engine.Run) -> None:
        """Use `open`."""
        self._run: _engine.Run | None = run

    @property
    def path(self) -> str:
        """The folder or file, as an absolute path."""
        path: str = self.info()["path"]
        return path

    @property
    def tables(self) -> list[str]:
        """Names of the tables and views. `schema` describes them."""
        return self._open().tables()

    def schema(self, table: str | None = None) -> Result:
        """The columns of a table, or of all, with their types and meanings.

        Raises:
            QueryError: There is no such table.
        """
        run = self._open()
        if table is None:
            return Result(run.sql(_ALL_COLUMNS))
        parts = (part.replace('"', '""') for part in table.split("."))
        quoted = ".".join(f'"{part}"' for part in parts)
        return Result(run.sql(f"DESCRIBE {quoted}"))

    def sql(self, query: str, *, max_rows: int | None = None) -> Result:
        """The rows that answer a query, which can read and nothing else.

        Ctrl-C stops it.

        Args:
            query: One statement of SQL over `tables`; those that are stored are in ``raw``, too.
            max_rows: How many rows are wanted at most; `Result.was_cut` tells if there are more.

        Raises:
            QueryError: It cannot be answered, or not in ``memory_limit``; a `ValueError`.
            UnreadableRun: The run turns out to be damaged.
        """
        return Result(self._open().sql(query, max_rows))

    def findings(self, thresholds: Mapping[str, float] | None = None) -> Result:
        """What is wrong, what matters most first: a row for each fault that a rule finds.

        Times are in nanoseconds of each training step, or of the recording if it has no steps:
        ``impact_nanos`` is what the fault takes, ``gain_nanos`` what mending it may save at most.
        ``severity`` is high, medium or low, ``confidence`` measured, likely or possible.
        ``evidence_sql`` is the query that found it, and ``evidence`` its row as JSON.
        `docs/reference/rules.md` describes the rules.

        Args:
            thresholds: Thresholds other than the rules' own, such as
                ``{"hot_operation.medium_percent": 20}``; `marey analyze --rules` lists them.

        Raises:
            ValueError: There is no such threshold.
        """
        return Result(self._open().findings(list((thresholds or {}).items())))

    def breakdown(self, *, by_step: bool = False) -> Result:
        """Where the time of each device went: computation, communication, copies, and idle.

        Args:
            by_step: A row for each training step and device.
        """
        if by_step:
            return self.sql("SELECT * FROM gpu_time_by_step ORDER BY rank, start_nanos, device")
        return self.sql("SELECT * FROM gpu_time ORDER BY rank, device")

    def section(self, name: str, *, max_rows: int | None = None) -> Result:
        """A table of the report that `marey analyze` writes; `SECTIONS` has their names.

        Raises:
            ValueError: There is no such table.
        """
        queries = dict(_engine.sections())
        if name not in queries:
            raise ValueError(f"there is no section {name!r}: there are {', '.join(queries)}")
        return self.sql(queries[name], max_rows=max_rows)

    def info(self) -> dict[str, Any]:
        """What the run consists of: its processes, the tables' rows and bytes, what was lost.

        Keys that end in ``_nanos`` are moments, in nanoseconds since 1970; in the ``overhead`` of
        a process, what recording cost it, they are durations.
        """
        return self._open().info()

    def export(
        self,
        path: _Path,
        *,
        format: str | None = None,
        start: int | str | None = None,
        end: int | str | None = None,
        steps: SupportsIndex | tuple[SupportsIndex, SupportsIndex] | None = None,
        ranks: Iterable[SupportsIndex] | None = None,
    ) -> list[str]:
        """Writes the run as files of another format, and returns their paths.

        Files that are there are replaced. A warning says what the format cannot hold.

        Args:
            path: The file; if its name ends with ``.gz``, it is compressed. Or a folder, in which
                it gets the name that is usual for its format; with ``kineto`` each rank has a file.
            format: ``kineto``, ``chrome-trace``, ``perfetto``, ``speedscope``, ``pprof``,
                ``collapsed``, ``svg``, ``csv``, ``json``, ``hatchet``, ``hatchet-msgpack`` or
                ``tensorboard``; what the name of the file says, if not given.
            start: What ends before is left out: nanoseconds since 1970, or since the start of the
                run such as ``"1.5s"`` or ``"200ms"``.
            end: What begins then or later is left out.
            steps: The time of these training steps, the first and the last, both included, in place
                of ``start`` and ``end``.
            ranks: Only these ranks.

        Raises:
            CannotExport: The run lacks what is asked for, or nothing can be written there; a
                `ValueError`.
            ValueError: There is no such format, or it is no time, or no number of a step or rank.
        """
        if steps is not None and not (start is None and end is None):
            raise ValueError("steps are a stretch of time, as start and end are: give one of both")
        written, lacking = self._open().export(
            os.fsdecode(path),
            format,
            None if start is None else str(start),
            None if end is None else str(end),
            None if steps is None else _range(steps),
            None if ranks is None else [_number("rank", rank) for rank in ranks],
        )
        for warning in lacking:
            _warning.warn(warning)
        return written

    def close(self) -> None:
        """Lets go of the run's files and threads. Answers stay."""
        self._run = None

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._run is None:
            return "<marey.run.Run: closed>"
        info = self.info()
        rows = sum(table["rows"] for table in info["tables"].values())
        return f"<marey.run.Run: {info['path']}, {len(info['processes'])} processes, {rows:,} rows>"

    def _repr_html_(self) -> str:
        from . import _notebook

        tables = [(name, *sizes.values()) for name, sizes in self.info()["tables"].items()]
        return _notebook.table(["table", "rows", "bytes"], tables, len(tables))

    def _open(self) -> _engine.Run:
        if self._run is None:
            raise ValueError("the run is closed")
        return self._run


class Result:
    """The rows of an answer: held in memory, and read as often as is wanted.

    It is a stream of Arrow's PyCapsule interface, so other libraries take it as it is:
    ``pyarrow.table(result)``, ``polars.DataFrame(result)``, or by its name in a query of DuckDB.

    Values are numbers, flags, texts, bytes, lists, dicts and `None`; those of other types of SQL,
    such as dates, are their texts.
    """

    def __init__(self, answer: _engine.Answer) -> None:
        """Use `Run.sql`."""
        self._answer = answer

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._answer.columns()

    @property
    def was_cut(self) -> bool:
        """Whether there were more rows than the query's ``max_rows``."""
        return self._answer.was_cut()

    def column(self, name: str) -> list[Any]:
        """The values of a column.

        Raises:
            KeyError: There is no such column, or there are several.
        """
        columns = self.columns
        if columns.count(name) == 1:
            return self._answer.column(columns.index(name))
        found = "several columns are" if name in columns else "no column is"
        raise KeyError(f"{found} called {name!r}: there are {', '.join(columns)}")

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for number in range(self._answer.batch_count()):
            yield from zip(*self._answer.batch(number), strict=True)

    def __len__(self) -> int:
        return len(self._answer)

    def to_pyarrow(self) -> pyarrow.Table:
        """The rows as a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a `pandas.DataFrame`, by way of pyarrow if it is there."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            columns = self.columns
            values = {at: self._answer.column(at) for at in range(len(columns))}
            return pandas.DataFrame(values).set_axis(columns, axis="columns")
        return pyarrow.table(self).to_pandas()

    def __arrow_c_schema__(self) -> object:
        """The types of the columns, for Arrow."""
        return self._answer.arrow_schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, for Arrow; in the types of ``requested_schema`` if it is given."""
        return self._answer.arrow_stream(requested_schema)

    def __repr__(self) -> str:
        text = self._answer.text(_SHOWN_ROWS, _terminal_columns())
        hidden = len(self) - _SHOWN_ROWS
        return f"{text}… {hidden:,} more rows" if hidden > 0 else text.rstrip("\n")

    def _repr_html_(self) -> str:
        from . import _notebook

        shown = list(itertools.islice(self, _SHOWN_ROWS))
        return _notebook.table(self.columns, shown, len(self))


def _range(steps: SupportsIndex | tuple[SupportsIndex, SupportsIndex]) -> tuple[int, int]:
    first, last = steps if isinstance(steps, tuple) else (steps, steps)
    return _number("step", first), _number("step", last)


def _number(what: str, number: SupportsIndex) -> int:
    """The number of a step or rank, of whatever type of whole numbers."""
    index = operator.index(number)
    if not 0 <= index < 1 << 32:
        raise ValueError(f"there is no {what} {index}")
    return index


def _terminal_columns() -> int | None:
    """How wide the terminal is, if there is one."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None
